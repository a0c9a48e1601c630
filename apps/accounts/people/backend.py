"""Finds who is signed in together with their memberships, by one query."""

from __future__ import annotations

from allauth.account.auth_backends import AuthenticationBackend
from asgiref.sync import sync_to_async

from apps.accounts.models import User, in_order
from apps.accounts.sql import MEMBERSHIPS_OF


class Backend(AuthenticationBackend):
    def get_user(self, user_id: int) -> User | None:
        """The person, with `all_memberships`; None for nobody, and for who may not sign in."""
        if not (held := MEMBERSHIPS_OF.all(user_id)):
            return None
        user: User = held[0].user
        user.all_memberships = in_order(user, held)
        return user if self.user_can_authenticate(user) else None

    async def aget_user(self, user_id: int) -> User | None:
        return await sync_to_async(self.get_user)(user_id)
