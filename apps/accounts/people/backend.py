"""Finds who is signed in together with their memberships, by one query."""

from __future__ import annotations

from allauth.account.auth_backends import AuthenticationBackend

from apps.accounts.models import Membership, User, in_order


class Backend(AuthenticationBackend):
    def get_user(self, user_id: int) -> User | None:
        return self._allowed(list(Membership.objects.of_person(user_id)))

    async def aget_user(self, user_id: int) -> User | None:
        return self._allowed([held async for held in Membership.objects.of_person(user_id)])

    def _allowed(self, held: list[Membership]) -> User | None:
        """The person, with `all_memberships`; None for nobody, and for who may not sign in."""
        if not held:
            return None
        user: User = held[0].user
        user.all_memberships = in_order(user, held)
        return user if self.user_can_authenticate(user) else None
