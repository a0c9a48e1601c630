"""People, workspaces, API keys, and the audit log."""

from __future__ import annotations

import datetime
import hashlib
import secrets
from collections.abc import Mapping
from typing import Any, ClassVar, NoReturn

from django.contrib.auth.base_user import AbstractBaseUser, BaseUserManager
from django.contrib.auth.models import PermissionsMixin
from django.core.validators import MinValueValidator
from django.db import models, transaction
from django.utils import timezone

from apps.accounts.principals import SCOPES, Principal


class UserManager(BaseUserManager["User"]):
    def get_by_natural_key(self, username: str | None) -> User:
        """Find a user by e-mail, ignoring case."""
        return self.get(email__iexact=username)

    @transaction.atomic
    def create_user(self, email: str, password: str | None = None, **fields: Any) -> User:
        """Make a user with a personal workspace. Raises ValueError for an invalid address."""
        if "@" not in email.strip("@"):
            raise ValueError(f"{email!r} is not an e-mail address.")
        user = self.model(email=email.strip().lower(), **fields)
        user.set_password(password)
        user.save()
        Workspace.open_for(user)
        return user

    def create_superuser(self, email: str, password: str | None = None, **fields: Any) -> User:
        return self.create_user(email, password, is_staff=True, is_superuser=True, **fields)


class User(AbstractBaseUser, PermissionsMixin):
    """A person; the e-mail address is the login name."""

    class Theme(models.TextChoices):
        LIGHT = "light", "Light"
        DARK = "dark", "Dark"
        __empty__ = "Same as the device"

    class Clock(models.TextChoices):
        HALF = "12", "12 hours (3:45 PM)"
        WHOLE = "24", "24 hours (15:45)"
        __empty__ = "Same as the browser"

    class TextSize(models.TextChoices):
        LARGE = "large", "Large"
        __empty__ = "Normal"

    email = models.EmailField("e-mail", unique=True)
    name = models.CharField(max_length=120, blank=True)
    is_active = models.BooleanField("active", default=True)
    is_staff = models.BooleanField("operator", default=False, help_text="May open the admin pages.")
    date_joined = models.DateTimeField(default=timezone.now)
    time_zone = models.CharField(max_length=64, blank=True, help_text="Such as Europe/Oslo; empty: the browser's.")
    theme = models.CharField(max_length=5, choices=Theme, blank=True)
    clock = models.CharField(max_length=2, choices=Clock, blank=True)
    text_size = models.CharField(max_length=5, choices=TextSize, blank=True)
    appearance_version = models.PositiveIntegerField(
        default=0, editable=False, help_text="Rises with each change of theme, clock, text size or time zone."
    )
    notify_ended = models.BooleanField("notify when work has ended", default=True)
    notify_questions = models.BooleanField("notify when a question waits", default=True)
    erased_at = models.DateTimeField(null=True, blank=True, editable=False, help_text="When they deleted the account.")

    USERNAME_FIELD = "email"
    REQUIRED_FIELDS: ClassVar[list[str]] = []
    objects: ClassVar[UserManager] = UserManager()

    def __str__(self) -> str:
        return self.email

    @property
    def short_name(self) -> str:
        return self.name or self.email.partition("@")[0]

    @property
    def principal(self) -> Principal:
        """This person as a caller with all their rights."""
        return Principal(user_id=self.pk, workspace_id=self.personal_workspace.pk, name=self.short_name)


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
    created_at = models.DateTimeField(default=timezone.now, editable=False)

    def __str__(self) -> str:
        return self.name

    @classmethod
    def open_for(cls, user: User) -> Workspace:
        """The personal workspace of a new user."""
        return cls.objects.create(name=user.short_name, personal_of=user)


class ApiKeyQuerySet(models.QuerySet["ApiKey"]):
    def visible_to(self, principal: Principal) -> ApiKeyQuerySet:
        return self.filter(user_id=principal.user_id) if principal.user_id is not None else self.none()

    def usable(self) -> ApiKeyQuerySet:
        """Neither revoked nor expired."""
        return self.filter(models.Q(expires_at=None) | models.Q(expires_at__gt=timezone.now()), revoked_at=None)


class ApiKey(models.Model):
    """A credential for programs: prefix and SHA-256 of the secret. The key is shown once."""

    MARK = "parley"
    TOUCH_AFTER = datetime.timedelta(minutes=1)

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="api_keys")
    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE, related_name="api_keys")
    name = models.CharField(max_length=120)
    prefix = models.CharField(max_length=16, unique=True, editable=False)
    digest = models.CharField(max_length=64, editable=False)
    scopes = models.JSONField(default=list, blank=True, help_text="What the key may do; empty means everything.")
    created_at = models.DateTimeField(default=timezone.now, editable=False)
    expires_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, blank=True, editable=False)
    revoked_at = models.DateTimeField(null=True, blank=True)

    objects = ApiKeyQuerySet.as_manager()

    class Meta:
        verbose_name = "API key"

    def __str__(self) -> str:
        return f"{self.MARK}_{self.prefix}_…"

    @classmethod
    def issue(
        cls, user: User, name: str, *, scopes: list[str] | None = None, lifetime: datetime.timedelta | None = None
    ) -> tuple[ApiKey, str]:
        """Make a key; returns the row and the key's text, which is not stored. Raises ValueError for unknown scopes."""
        if unknown := set(scopes or []) - SCOPES.keys():
            raise ValueError(f"There is no scope {', '.join(sorted(unknown))}. There are: {', '.join(SCOPES)}.")
        prefix, secret = secrets.token_hex(6), secrets.token_urlsafe(32)
        key = cls.objects.create(
            user=user,
            workspace=user.personal_workspace,
            name=name,
            prefix=prefix,
            digest=cls.digest_of(secret),
            scopes=scopes or [],
            expires_at=timezone.now() + lifetime if lifetime else None,
        )
        return key, f"{cls.MARK}_{prefix}_{secret}"

    @staticmethod
    def digest_of(secret: str) -> str:
        return hashlib.sha256(secret.encode()).hexdigest()

    def revoke(self) -> None:
        self.revoked_at = timezone.now()
        self.save(update_fields=["revoked_at"])

    @property
    def is_expired(self) -> bool:
        return self.expires_at is not None and self.expires_at <= timezone.now()

    @property
    def is_usable(self) -> bool:
        """Neither revoked nor expired."""
        return self.revoked_at is None and not self.is_expired

    @property
    def principal(self) -> Principal:
        return Principal(
            user_id=self.user_id,
            workspace_id=self.workspace_id,
            name=self.user.short_name,
            scopes=frozenset(self.scopes) or None,
        )


class AuditLineQuerySet(models.QuerySet["AuditLine"]):
    """Refuses changes and deletion."""

    def update(self, **fields: Any) -> NoReturn:
        raise TypeError("An audit line is never changed.")

    def delete(self) -> NoReturn:
        raise TypeError("An audit line is never deleted.")


class AuditLine(models.Model):
    """Who did what to what, and when: ids and numbers, no content."""

    class Act(models.TextChoices):
        SESSION_DELETED = "session_deleted", "deleted a session"
        SESSION_COOLED = "session_cooled", "moved a session into cold storage"
        SESSION_RESTORED = "session_restored", "brought a session back from cold storage"
        KEY_CREATED = "key_created", "created an API key"
        KEY_REVOKED = "key_revoked", "revoked an API key"
        EMAIL_CHANGED = "email_changed", "changed their e-mail address"
        PASSWORD_CHANGED = "password_changed", "changed their password"
        DATA_EXPORTED = "data_exported", "exported their data"
        ACCOUNT_DELETED = "account_deleted", "deleted their account"

    at = models.DateTimeField(default=timezone.now, db_index=True)
    act = models.CharField(max_length=30, choices=Act)
    actor = models.CharField(max_length=60, help_text="`user:` and the user's id, or the rule or program that did it.")
    subject = models.CharField(max_length=60, help_text="The key of what it was done to.")
    counts = models.JSONField(default=dict, blank=True, help_text="How many rows of each kind.")

    objects = AuditLineQuerySet.as_manager()

    class Meta:
        indexes = [models.Index(fields=["subject"], name="audit_of_a_subject")]

    def __str__(self) -> str:
        return f"{self.actor} {self.get_act_display()}"

    def save(self, *args: Any, **kwargs: Any) -> None:
        """Raises TypeError for a stored line."""
        if not self._state.adding:
            raise TypeError("An audit line is never changed.")
        super().save(*args, **kwargs)

    def delete(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise TypeError("An audit line is never deleted.")


AuditAct = AuditLine.Act


def write_audit_line(
    act: AuditAct, subject: object, actor: Principal | str, counts: Mapping[str, int] | None = None
) -> None:
    """Write a line, in the act's transaction. `actor`: a caller, or the name of a rule or program."""
    name = actor if isinstance(actor, str) else actor.sender or "anonymous"
    AuditLine.objects.create(act=act, subject=str(subject), actor=name, counts=dict(counts or {}))
