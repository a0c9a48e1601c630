"""People, workspaces, API keys and invitations."""

from __future__ import annotations

import datetime
import hashlib
import hmac
import secrets
from collections.abc import Iterable, Iterator
from typing import Any, ClassVar

from allauth.mfa.models import Authenticator
from django.conf import settings
from django.contrib.auth.base_user import AbstractBaseUser, BaseUserManager
from django.contrib.auth.models import PermissionsMixin
from django.core.validators import MinValueValidator
from django.db import models, transaction
from django.utils import timezone
from django.utils.crypto import salted_hmac
from django.utils.functional import cached_property

from apps.accounts import audit_models  # noqa: F401  # Django looks for models in this module
from apps.accounts.errors import NotFound
from apps.accounts.permissions import Role
from apps.accounts.principals import SCOPES, MissingRight, Principal
from apps.accounts.secrets.key_format import MARK, new_secret
from apps.accounts.visibility import VisibleQuerySet


class UserManager(BaseUserManager["User"]):
    def get_by_natural_key(self, username: str | None) -> User:
        """Find a user by e-mail, ignoring case."""
        return self.get(email__iexact=username)

    def create_user(self, email: str, password: str | None = None, **fields: Any) -> User:
        """Make a user with a personal workspace. Raises ValueError for an invalid address."""
        user = self.model(email=email, **fields)
        user.set_password(password)  # slow, so no transaction has begun
        return self.add(user)

    @transaction.atomic
    def add(self, user: User) -> User:
        """Save a new user, who has a password, with a personal workspace. Raises ValueError for an invalid address."""
        user.email = user.email.strip().lower()
        if "@" not in user.email.strip("@"):
            raise ValueError(f"{user.email!r} is not an e-mail address.")
        user.save()
        Workspace.open_for(user)
        return user

    def create_superuser(self, email: str, password: str | None = None, **fields: Any) -> User:
        return self.create_user(email, password, is_staff=True, is_superuser=True, **fields)


FORMER_MEMBER = "A former member"
"""Stands for a person who deleted their account, in what they wrote in other people's sessions."""


class User(AbstractBaseUser, PermissionsMixin):
    """A person; the e-mail address is the login name."""

    class Theme(models.TextChoices):
        LIGHT = "light", "Light"
        DARK = "dark", "Dark"
        __empty__ = "Same as the device"

    email = models.EmailField("e-mail", unique=True)
    name = models.CharField(max_length=120, blank=True)
    is_active = models.BooleanField("active", default=True)
    is_staff = models.BooleanField("operator", default=False, help_text="May open the admin pages.")
    date_joined = models.DateTimeField(default=timezone.now)
    time_zone = models.CharField(max_length=64, blank=True, help_text="Such as Europe/Oslo; empty: the browser's.")
    theme = models.CharField(max_length=5, choices=Theme, blank=True)
    appearance_version = models.PositiveIntegerField(
        default=0, editable=False, help_text="Rises with each change of theme or time zone."
    )
    notify_ended = models.BooleanField("notify when work has ended", default=True)
    notify_questions = models.BooleanField("notify when a question waits", default=True)
    is_notified = models.BooleanField(
        default=False, db_default=False, editable=False, help_text="Whether a channel for notifications is on."
    )
    sign_outs = models.PositiveIntegerField(default=0, editable=False, help_text="How often all sessions were ended.")
    erased_at = models.DateTimeField(null=True, blank=True, editable=False, help_text="When they deleted the account.")
    current_workspace = models.ForeignKey(
        "Workspace",
        null=True,
        blank=True,
        editable=False,
        on_delete=models.SET_NULL,
        related_name="+",
        help_text="The one they chose last; empty: their personal one.",
    )

    USERNAME_FIELD = "email"
    REQUIRED_FIELDS: ClassVar[list[str]] = []
    objects: ClassVar[UserManager] = UserManager()

    def __str__(self) -> str:
        return self.email

    def clean(self) -> None:
        """Forms compare the address as it is stored."""
        super().clean()
        self.email = self.email.strip().lower()

    key_made_at: datetime.datetime | None = None  # of the API key by which they act
    acts_by_program = False  # by an OAuth access token

    @property
    def is_operator(self) -> bool:
        """May they do what operators may? Their permissions say what. Ask this, never `is_staff`."""
        return self.is_active and self.is_staff and self.is_proven

    @property
    def is_proven(self) -> bool:
        """Is how they came enough for rights of operators? Where MFA_FOR_OPERATORS is on, it needs a second factor.

        An API key that is older than the person's second factor is not enough, nor is any OAuth access token.
        """
        if not settings.MFA_FOR_OPERATORS:
            return True
        since = None if self.acts_by_program else self.second_factor_since
        return since is not None and (self.key_made_at is None or self.key_made_at >= since)

    @property
    def needs_proof(self) -> bool:
        """Would they be an operator, if how they came were enough?"""
        return self.is_staff and not self.is_proven

    @cached_property
    def second_factor_since(self) -> datetime.datetime | None:
        """When the oldest of their authenticator apps and passkeys was added; None without one."""
        own = Authenticator.objects.filter(user=self.pk).exclude(type=Authenticator.Type.RECOVERY_CODES)
        return own.order_by("created_at").values_list("created_at", flat=True).first()  # type: ignore[no-any-return]

    def may_operate(self, permission: str) -> bool:
        """May they do at any door what admin lets them do by this permission?"""
        return self.is_operator and self.has_perm(permission)

    def has_perm(self, perm: str, obj: Any = None) -> bool:
        """All permissions are rights of operators: without the proof that these need, nobody has one."""
        return super().has_perm(perm, obj) and self.is_proven

    def has_module_perms(self, app_label: str) -> bool:
        return super().has_module_perms(app_label) and self.is_proven

    def get_session_auth_hash(self) -> str:
        """Sessions with another hash have ended: after a new password, and after signing out everywhere."""
        return self._with_sign_outs(super().get_session_auth_hash())

    def get_session_auth_fallback_hash(self) -> Iterator[str]:
        return map(self._with_sign_outs, super().get_session_auth_fallback_hash())

    def _with_sign_outs(self, value: str) -> str:
        if not self.sign_outs:
            return value
        return salted_hmac("accounts.sign_outs", f"{value} {self.sign_outs}", algorithm="sha256").hexdigest()

    @property
    def short_name(self) -> str:
        return FORMER_MEMBER if self.erased_at else self.name or self.email.partition("@")[0]

    @cached_property
    def all_memberships(self) -> list[Membership]:
        """In all their workspaces: first in the personal one, then by name."""
        return in_order(self, Membership.objects.of_person(self.pk))

    @cached_property
    def membership(self) -> Membership:
        """In the current workspace; in the personal one if they are no member of that."""
        chosen = {one.workspace_id: one for one in self.all_memberships}.get(self.current_workspace_id or 0)
        if chosen or (self.all_memberships and self.all_memberships[0].workspace.personal_of_id == self.pk):
            return chosen or self.all_memberships[0]
        raise Membership.DoesNotExist

    @property
    def principal(self) -> Principal:
        """This person as a caller with all their rights."""
        here = self.membership
        return self._principal(here.workspace_id, Role(here.role))

    def principal_in(self, workspace: int) -> Principal:
        """This person in a workspace, for work that they began there; without a role if they are no member any more."""
        held = Membership.objects.filter(user=self, workspace=workspace).values_list("role", flat=True).first()
        return self._principal(workspace, Role(held) if held else None)

    def _principal(self, workspace: int, role: Role | None) -> Principal:
        who: dict[str, Any] = {"name": self.short_name, "is_notified": self.is_notified, "is_staff": self.is_staff}
        return Principal(user_id=self.pk, workspace_id=workspace, role=role, **who)


class NoWorkspace(NotFound):
    """There is no such workspace."""


class WorkspaceQuerySet(VisibleQuerySet["Workspace"]):
    def visible_to(self, principal: Principal) -> WorkspaceQuerySet:
        """Those that the caller is a member of; to a key, its own alone."""
        own = self.filter(memberships__user=principal.user_id, deleted_at=None) if principal.is_known else self.none()
        if principal.key_id is None or principal.workspace_id is None:
            return own
        return own.filter(pk=principal.workspace_id)


class Workspace(models.Model):
    """The owner of agents, contexts, tasks and keys. Every user has a personal one."""

    name = models.CharField(max_length=120)
    personal_of = models.OneToOneField(
        User, null=True, blank=True, on_delete=models.CASCADE, related_name="personal_workspace"
    )
    retention_days = models.PositiveIntegerField(
        null=True,
        blank=True,
        validators=[MinValueValidator(1)],
        help_text="Sessions in which nothing happened for so many days are deleted; empty: they are kept.",
    )
    cold_after_days = models.PositiveIntegerField(
        null=True,
        blank=True,
        help_text="Days after which an archived session is moved into cold storage; empty: those of the installation.",
    )
    members_make_agents = models.BooleanField(
        "members make agents", default=False, db_default=False, help_text="Managers and owners always may."
    )
    created_at = models.DateTimeField(default=timezone.now, editable=False)
    deleted_at = models.DateTimeField(null=True, blank=True, editable=False, help_text="When its owner deleted it.")
    is_house = models.BooleanField(
        "the installation's own",
        default=False,
        editable=False,
        help_text="Of its agents; nobody is a member.",
    )

    objects = WorkspaceQuerySet.as_manager()

    class Meta:
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(fields=["is_house"], condition=models.Q(is_house=True), name="one_house_workspace"),
        ]

    def __str__(self) -> str:
        return self.name

    def close(self) -> None:
        """Nobody is a member any more. The row stays, because agents and the audit refer to it."""
        self.memberships.all().delete()
        self.name, self.deleted_at = "Deleted workspace", timezone.now()
        self.save(update_fields=["name", "deleted_at"])

    @classmethod
    def open_for(cls, user: User) -> Workspace:
        """The personal workspace of a new user, who owns it."""
        workspace = cls.objects.create(name=user.short_name, personal_of=user)
        user.membership = Membership.objects.create(workspace=workspace, user=user, role=Role.OWNER)
        return workspace


class MembershipQuerySet(VisibleQuerySet["Membership"]):
    key, not_found = "workspace__pk", NoWorkspace

    def visible_to(self, principal: Principal) -> MembershipQuerySet:
        """The members of the workspaces that the caller is a member of."""
        return self.filter(workspace__in=Workspace.objects.visible_to(principal))

    def of_person(self, user: int) -> MembershipQuerySet:
        """In all their workspaces, with the person."""
        return self.filter(user=user).select_related("user", "workspace")


class Membership(models.Model):
    """A person in a workspace. Without this row, the workspace does not exist for them."""

    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE, related_name="memberships")
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="memberships")
    role = models.CharField(max_length=10, choices=Role, default=Role.MEMBER)
    created_at = models.DateTimeField("since", default=timezone.now, editable=False)

    objects = MembershipQuerySet.as_manager()

    class Meta:
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(fields=["user", "workspace"], name="one_membership"),
        ]

    def __str__(self) -> str:
        return f"{self.user} in {self.workspace}"


def in_order(person: User, found: Iterable[Membership]) -> list[Membership]:
    """A person's memberships, with their workspaces: first in the personal one, then by name."""

    def place(one: Membership) -> tuple[bool, str, int]:
        return one.workspace.personal_of_id != person.pk, one.workspace.name.casefold(), one.workspace_id

    found = sorted(found, key=place)
    for one in found:
        one.user = person  # the same object for all
    return found


class ApiKeyQuerySet(VisibleQuerySet["ApiKey"]):
    def visible_to(self, principal: Principal) -> ApiKeyQuerySet:
        """A person's own keys; to a key, those of its workspace alone."""
        own = self.filter(user_id=principal.user_id) if principal.user_id is not None else self.none()
        return own.filter(workspace=principal.workspace_id) if principal.key_id else own

    def of_name(self, name: str) -> ApiKeyQuerySet:
        """The key with this public name (`Principal.key`), if any."""
        return self.filter(prefix=name.removeprefix(f"{MARK}_").removesuffix("_…"))

    def usable(self) -> ApiKeyQuerySet:
        """Neither revoked nor expired."""
        return self.filter(models.Q(expires_at=None) | models.Q(expires_at__gt=timezone.now()), revoked_at=None)


class ApiKey(models.Model):
    """A credential for programs: prefix and SHA-256 of the secret. The key is shown once."""

    class Reason(models.TextChoices):
        """Why it was revoked, where its owner did not do it."""

        LEAKED = "leaked", "it leaked"
        MAKER = "maker", "the key that made it was revoked"

    MARK = MARK
    TOUCH_AFTER = datetime.timedelta(minutes=1)

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="api_keys")
    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE, related_name="api_keys")
    name = models.CharField(max_length=120)
    prefix = models.CharField(max_length=16, unique=True, editable=False)
    digest = models.CharField(max_length=64, editable=False)
    previous_digest = models.CharField(max_length=64, blank=True, editable=False)
    previous_until = models.DateTimeField(
        null=True, blank=True, editable=False, help_text="Until when the secret before the last rotation works."
    )
    scopes = models.JSONField(default=list, blank=True, help_text="What the key may do; empty means everything.")
    agents = models.JSONField(
        default=list, blank=True, help_text="Slugs of the only agents that the key reaches; empty means all."
    )
    public_key = models.TextField(
        blank=True, editable=False, help_text="PEM. If there is one, each request must be signed (RFC 9421)."
    )
    made_by = models.ForeignKey(
        "self", null=True, blank=True, editable=False, on_delete=models.SET_NULL, related_name="made"
    )
    created_at = models.DateTimeField(default=timezone.now, editable=False)
    expires_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, blank=True, editable=False, help_text="At most a minute old.")
    last_used_from = models.CharField(
        max_length=60, blank=True, editable=False, help_text="The caller's IP address, or IPv6 network."
    )
    revoked_at = models.DateTimeField(null=True, blank=True)
    revoked_because = models.CharField(max_length=10, blank=True, choices=Reason, editable=False)

    objects = ApiKeyQuerySet.as_manager()
    text = ""  # of a key that was made or rotated just now: it is stored nowhere

    class Meta:
        verbose_name = "API key"

    def __str__(self) -> str:
        return f"{self.MARK}_{self.prefix}_…"

    @classmethod
    def issue(
        cls,
        user: User,
        name: str,
        *,
        scopes: list[str] | None = None,
        agents: Iterable[str] = (),
        lifetime: datetime.timedelta | None = None,
        workspace_id: int | None = None,
        made_by: int | None = None,
        public_key: str = "",
    ) -> tuple[ApiKey, str]:
        """Make a key; returns the row and the key's text, which is not stored. Raises ValueError for unknown scopes."""
        if unknown := set(scopes or []) - SCOPES.keys():
            raise ValueError(f"There is no scope {', '.join(sorted(unknown))}. There are: {', '.join(SCOPES)}.")
        prefix = secrets.token_hex(6)
        key = cls(
            user=user,
            workspace_id=workspace_id or user.personal_workspace.pk,
            name=name,
            prefix=prefix,
            scopes=scopes or [],
            agents=list(agents),
            made_by_id=made_by,
            public_key=public_key,
            expires_at=timezone.now() + lifetime if lifetime else None,
        )
        text = key.give_secret()
        key.save()
        return key, text

    @staticmethod
    def digest_of(secret: str) -> str:
        return hashlib.sha256(secret.encode()).hexdigest()

    def give_secret(self) -> str:
        """Give it a new secret, without saving; returns the key's text."""
        secret = new_secret(self.prefix)
        self.digest = self.digest_of(secret)
        self.text = f"{self.MARK}_{self.prefix}_{secret}"
        return self.text

    def has_secret(self, secret: str) -> bool:
        """Whether this is its secret, or the one before the last rotation while that works."""
        digest = self.digest_of(secret)
        is_old = hmac.compare_digest(self.previous_digest, digest)
        is_in_time = self.previous_until is not None and self.previous_until > timezone.now()
        return hmac.compare_digest(self.digest, digest) or (is_old and is_in_time)

    def revoke(self, because: str = "") -> None:
        self.revoked_at, self.revoked_because = timezone.now(), because
        self.save(update_fields=["revoked_at", "revoked_because"])

    @property
    def is_expired(self) -> bool:
        return self.expires_at is not None and self.expires_at <= timezone.now()

    @property
    def is_usable(self) -> bool:
        """Neither revoked nor expired."""
        return self.revoked_at is None and not self.is_expired

    @cached_property
    def membership(self) -> Membership | None:
        """Its owner's, in its workspace. Without one the key is not accepted."""
        return Membership.objects.filter(user=self.user_id, workspace=self.workspace_id).first()

    @property
    def principal(self) -> Principal:
        return Principal(
            user_id=self.user_id,
            workspace_id=self.workspace_id,
            role=Role(self.membership.role) if self.membership else None,
            name=self.user.short_name,
            scopes=frozenset(self.scopes) or None,
            agents=frozenset(self.agents) or None,
            is_notified=self.user.is_notified,
            is_staff=self.user.is_staff,
            key=str(self),
            key_id=self.pk,
        )


def person_of(principal: Principal) -> User:
    """Raises User.DoesNotExist for anonymous callers."""
    return User.objects.get(pk=principal.user_id or 0)


def may_operate(principal: Principal, permission: str) -> bool:
    """`User.may_operate` for a caller and their credential. No query for who is no operator."""
    person = User.objects.filter(pk=principal.user_id or 0).first() if principal.is_staff else None
    if person is None:
        return False
    if principal.key_id is not None:
        person.key_made_at = ApiKey.objects.filter(pk=principal.key_id).values_list("created_at", flat=True).first()
    person.acts_by_program = bool(principal.key) and principal.key_id is None
    return person.may_operate(permission)


def check_operates(principal: Principal, right: str) -> None:
    """Raises MissingRight unless the caller may do what admin lets operators do by this permission."""
    if not may_operate(principal, right):
        raise MissingRight(right)


class CacheEntry(models.Model):
    """The table of Django's cache (`CACHES`): counts and used codes that all processes must see."""

    cache_key = models.CharField(max_length=255, primary_key=True)
    value = models.TextField()
    expires = models.DateTimeField(db_index=True)

    class Meta:
        db_table = "cache"

    def __str__(self) -> str:
        return self.cache_key


class UsedNonce(models.Model):
    """A nonce of a signed request. No cache: a cache may forget, and then the request could be sent again."""

    digest = models.CharField(max_length=64, primary_key=True, help_text="SHA-256 of the key and the nonce.")
    expires_at = models.DateTimeField(db_index=True)

    class Meta:
        db_table = "used_nonces"

    def __str__(self) -> str:
        return self.digest


class AccessChange(models.Model):
    """Somebody may have lost access: see `revocation`."""

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="+", db_index=False)
    at = models.DateTimeField(db_index=True)

    def __str__(self) -> str:
        return f"{self.user_id} at {self.at}"


class InvitationQuerySet(VisibleQuerySet["Invitation"]):
    def visible_to(self, principal: Principal) -> InvitationQuerySet:
        """Those that the caller made."""
        return self.filter(inviter_id=principal.user_id) if principal.user_id is not None else self.none()

    def open(self) -> InvitationQuerySet:
        """Neither used, revoked nor expired."""
        return self.filter(used_at=None, revoked_at=None, expires_at__gt=timezone.now())


class Invitation(models.Model):
    """A link by which one person comes in, once. Of the link's token only the digest is stored."""

    email = models.EmailField("e-mail", blank=True, help_text="Only this address; empty: whoever has the link.")
    inviter = models.ForeignKey(User, null=True, on_delete=models.CASCADE, related_name="invitations")
    workspace = models.ForeignKey(
        Workspace, null=True, blank=True, on_delete=models.CASCADE, related_name="invitations"
    )
    role = models.CharField(max_length=20, blank=True, help_text="In the workspace.")
    digest = models.CharField(max_length=64, unique=True, editable=False)
    created_at = models.DateTimeField(default=timezone.now, editable=False)
    expires_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True, blank=True, editable=False)
    used_by = models.ForeignKey(User, null=True, editable=False, on_delete=models.SET_NULL, related_name="+")
    revoked_at = models.DateTimeField(null=True, blank=True, editable=False)

    objects = InvitationQuerySet.as_manager()

    def __str__(self) -> str:
        return self.email or f"invitation {self.pk}"

    @property
    def role_label(self) -> str:
        return Role(self.role).label if self.role else ""

    @property
    def state(self) -> str:
        if self.used_at:
            return "Accepted"
        if self.revoked_at:
            return "Withdrawn"
        return "Expired" if self.expires_at <= timezone.now() else "Open"
