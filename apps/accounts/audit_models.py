"""The audit log's actions, actors and tables."""

from __future__ import annotations

from typing import Any, NoReturn

from django.db import models


class AuditAction(models.TextChoices):
    """What the audit records. Codes are stable; the part before the dot is the group."""

    SIGNED_IN = "sign_in.accepted", "signed in"
    SIGN_IN_REFUSED = "sign_in.refused", "was refused at sign-in"
    SIGNED_OUT = "sign_in.ended", "signed out"
    SESSIONS_ENDED = "sign_in.ended_elsewhere", "signed out other browsers"
    FACTOR_ADDED = "second_factor.added", "added a second factor"
    FACTOR_CHANGED = "second_factor.changed", "made new recovery codes"
    FACTOR_REMOVED = "second_factor.removed", "removed a second factor"
    PASSWORD_CHANGED = "password.changed", "changed a password"
    PASSWORD_REFUSED = "password.refused", "gave a wrong password to confirm"
    KEY_CREATED = "api_key.created", "created an API key"
    KEY_CHANGED = "api_key.changed", "changed an API key"
    KEY_ROTATED = "api_key.rotated", "gave an API key a new secret"
    KEY_REVOKED = "api_key.revoked", "revoked an API key"
    KEY_LEAKED = "api_key.leaked", "reported a leaked API key, which was revoked"
    KEY_DELETED = "api_key.deleted", "deleted an API key"
    KEY_REFUSED = "api_key.refused", "used an API key that is not accepted"
    PROGRAM_CREATED = "program.created", "registered a program for OAuth"
    PROGRAM_DELETED = "program.deleted", "deleted a program for OAuth"
    PROGRAM_ALLOWED = "program.allowed", "allowed a program to act for them"
    PROGRAM_ENDED = "program.ended", "ended a program's access"
    USER_CREATED = "user.created", "created a user"
    USER_CHANGED = "user.changed", "changed a user"
    EMAIL_CHANGED = "user.email_changed", "changed their e-mail address"
    WORKSPACE_CREATED = "workspace.created", "made a workspace"
    WORKSPACE_CHANGED = "workspace.changed", "changed a workspace"
    WORKSPACE_TRANSFERRED = "workspace.transferred", "gave a workspace another owner"
    WORKSPACE_DELETED = "workspace.deleted", "deleted a workspace"
    MEMBER_ADDED = "workspace.member_added", "added a member to a workspace"
    MEMBER_CHANGED = "workspace.member_changed", "changed a member's role"
    MEMBER_REMOVED = "workspace.member_removed", "removed a member from a workspace"
    SIGN_IN_LINK_MADE = "user.link_made", "made a sign-in link"
    USER_DELETED = "user.deleted", "deleted a user"
    INVITED = "invitation.created", "invited somebody"
    INVITATION_ACCEPTED = "invitation.accepted", "accepted an invitation"
    INVITATION_WITHDRAWN = "invitation.withdrawn", "withdrew an invitation"
    GROUP_CREATED = "group.created", "created a group"
    GROUP_CHANGED = "group.changed", "changed a group"
    GROUP_DELETED = "group.deleted", "deleted a group"
    CREDENTIAL_STORED = "credential.stored", "stored a credential"
    CREDENTIAL_CHANGED = "credential.changed", "changed whose credential is used"
    CREDENTIAL_LENT = "credential.lent", "lent a credential"
    CREDENTIAL_DECLINED = "credential.declined", "declined to give a credential"
    CREDENTIAL_REMOVED = "credential.removed", "removed a credential"
    CHAT_LINKED = "chat_account.linked", "linked a chat account"
    CHAT_UNLINKED = "chat_account.unlinked", "unlinked a chat account"
    SECRETS_REENCRYPTED = "secret.reencrypted", "encrypted all secrets with a new key"
    SIGNING_KEY_ROTATED = "signing_key.rotated", "rotated a signing key"
    SIGNING_KEY_REVOKED = "signing_key.revoked", "revoked a signing key"
    SIGNATURE_WRONG = "signature.wrong", "found a wrong signature on what a remote agent delivered"
    PEER_INVITED = "peer.invited", "made a code to pair another installation"
    PEER_PAIRED = "peer.paired", "paired another installation"
    PEER_KEYS = "peer.keys", "followed another installation's new key"
    PEER_REFUSED = "peer.refused", "refused to pair another installation"
    PEER_REVOKED = "peer.revoked", "revoked another installation"
    PEER_ENDED = "peer.ended", "was revoked by another installation"
    AGENT_REGISTERED = "agent.registered", "registered an agent"
    VERSION_PUBLISHED = "agent.published", "published a version of an agent"
    ROLLOUT_SET = "agent.rollout", "set how many new sessions try a version"
    ROLLOUT_ENDED = "agent.rollout_ended", "ended the rollout of a version"
    SESSIONS_SET = "agent.sessions", "set which version an agent's sessions use"
    VERSION_PROPOSED = "agent.proposed", "saved a version that is not current yet"
    VERSION_RESTORED = "agent.restored", "restored a version of an agent"
    AGENT_CHANGED = "agent.changed", "changed an agent"
    AGENT_DELETED = "agent.deleted", "deleted an agent"
    AGENT_SECRET_SET = "agent_secret.set", "gave an agent's process a secret"
    AGENT_SECRET_REMOVED = "agent_secret.removed", "took a secret from an agent's process"
    GUARDRAIL_CREATED = "guardrail.created", "made a guardrail"
    GUARDRAIL_CHANGED = "guardrail.changed", "changed a guardrail"
    GUARDRAIL_DELETED = "guardrail.deleted", "deleted a guardrail"
    CARD_PROPOSED = "card.proposed", "found a changed card that needs approval"
    CARD_APPROVED = "card.approved", "approved a card"
    CARD_DECLINED = "card.declined", "declined a card"
    TOOL_POLICY_SET = "tool_policy.set", "set a policy for a tool"
    TOOL_POLICY_REMOVED = "tool_policy.removed", "removed a policy for a tool"
    TOOL_APPROVED = "tool.approved", "approved a tool call"
    TOOL_REFUSED = "tool.refused", "refused a tool call"
    TOOL_ALLOWANCE_REVOKED = "tool.allowance_revoked", "no longer allows a tool in a session"
    ALLOWANCE_CREATED = "allowance.created", "allowed a private address"
    ALLOWANCE_CHANGED = "allowance.changed", "changed an allowed address"
    ALLOWANCE_DELETED = "allowance.deleted", "withdrew an allowed address"
    ALLOWANCE_SETTING = "allowance.setting", "started with other allowed addresses in the settings"
    SHARE_CREATED = "share.created", "shared a session"
    SESSION_SHARED = "session.shared", "changed who sees a session"
    SESSION_MOVED = "session.moved", "moved a session to another project"
    PROJECT_CREATED = "project.created", "made a project"
    PROJECT_CHANGED = "project.changed", "changed a project"
    PROJECT_SHARED = "project.shared", "changed who sees a project"
    PROJECT_DELETED = "project.deleted", "deleted a project"
    COLLECTION_CREATED = "collection.created", "made a collection"
    COLLECTION_CHANGED = "collection.changed", "changed a collection"
    COLLECTION_SHARED = "collection.shared", "changed who sees a collection"
    COLLECTION_GIVEN = "collection.given", "changed which agents search a collection"
    COLLECTION_DELETED = "collection.deleted", "deleted a collection"
    MEMORY_ADDED = "memory.added", "noted something in a person's memory"
    MEMORY_CHANGED = "memory.changed", "changed something in a person's memory"
    MEMORY_FORGOTTEN = "memory.forgotten", "forgot something in a person's memory"
    MEMORY_UNDONE = "memory.undone", "undid a change of their memory"
    MEMORY_DELETED = "memory.deleted", "deleted something from their memory"
    SHARE_REVOKED = "share.revoked", "took back a shared link"
    DATA_EXPORTED = "export.data", "exported their data"
    TRANSCRIPT_EXPORTED = "export.transcript", "downloaded a transcript"
    FILES_EXPORTED = "export.files", "downloaded the files of a session"
    BACKUP_MADE = "export.backup", "made a backup"
    AUDIT_EXPORTED = "export.audit", "exported the audit"
    SESSION_DELETED = "session.deleted", "deleted a session"
    SESSION_ARCHIVED = "session.archived", "moved a session to cold storage"
    SESSION_RESTORED = "session.restored", "restored a session from cold storage"
    ADMIN_CREATED = "admin.created", "added a row in admin"
    ADMIN_CHANGED = "admin.changed", "changed a row in admin"
    ADMIN_DELETED = "admin.deleted", "deleted a row in admin"

    @property
    def group(self) -> str:
        return self.value.partition(".")[0]


def audit_actions() -> list[tuple[str, str]]:
    """A function, so that a new action needs no migration."""
    return list(AuditAction.choices)


class ActorKind(models.TextChoices):
    USER = "user", "person"
    KEY = "key", "API key"
    COMMAND = "command", "command line"
    SYSTEM = "system", "Parley itself"
    ANONYMOUS = "anonymous", "unknown caller"


class AuditEntryQuerySet(models.QuerySet["AuditEntry"]):
    """Refuses changes and deletion, as the database does."""

    def update(self, **fields: Any) -> NoReturn:
        raise TypeError("An audit entry is never changed.")

    def delete(self) -> NoReturn:
        raise TypeError("An audit entry is never deleted.")


class AuditEntry(models.Model):
    """Who did what to what, when, and from where: names and numbers, no content and no secrets.

    Only `audit.append` makes one, and only `audit.Forgetting` changes one. Nothing refers to other rows, so that an
    entry outlives them. `hash` covers all fields before it but `erasures`, with the hash of the entry before.
    """

    number = models.PositiveBigIntegerField(primary_key=True, help_text="Counts from 1 without gaps.")
    at = models.DateTimeField("time", db_index=True, help_text="By the database's clock.")
    group = models.CharField(max_length=30, help_text="The first part of the action.")
    action = models.CharField(max_length=60, choices=audit_actions)
    actor_kind = models.CharField(max_length=10, choices=ActorKind)
    actor_key = models.CharField(
        max_length=60, blank=True, help_text="A person's id, or the name of a command or rule."
    )
    actor_name = models.CharField("actor", max_length=320, blank=True)
    object_type = models.CharField(max_length=60, blank=True)
    object_key = models.CharField(max_length=120, blank=True)
    object_label = models.CharField("object", max_length=200, blank=True)
    workspace = models.PositiveBigIntegerField(null=True, blank=True, help_text="The id of the object's workspace.")
    address = models.CharField(max_length=60, blank=True, help_text="The caller's IP address.")
    user_agent = models.CharField(max_length=200, blank=True)
    request_id = models.CharField(max_length=100, blank=True)
    details = models.JSONField(default=dict, blank=True)
    salt = models.CharField(
        max_length=32,
        blank=True,
        db_default="",
        help_text="Random, so that nobody guesses from the hash what an erasure took. Empty: erased, or an old entry.",
    )
    erasures = models.JSONField(
        null=True, blank=True, help_text="Of each erasure of a person that changed it: its id, and the hash afterwards."
    )
    previous = models.CharField(
        max_length=64, blank=True, help_text="The hash of the entry before; empty for the first."
    )
    hash = models.CharField(max_length=64, help_text="SHA-256 of the fields as canonical JSON (RFC 8785).")

    objects = AuditEntryQuerySet.as_manager()

    class Meta:
        verbose_name = "audit entry"
        verbose_name_plural = "audit entries"
        default_permissions = ("view",)
        permissions = [("export_auditentry", "Can export audit entries")]
        indexes = [
            models.Index(fields=["group", "number"], name="audit_by_group"),
            models.Index(fields=["action", "number"], name="audit_by_action"),
            models.Index(fields=["actor_kind", "number"], name="audit_by_actor_kind"),
            models.Index(fields=["actor_key", "number"], name="audit_by_actor"),
            models.Index(fields=["actor_name", "number"], name="audit_by_actor_name"),
            models.Index(fields=["object_key", "number"], name="audit_by_object"),
            models.Index(fields=["object_label", "number"], name="audit_by_object_label"),
            models.Index(fields=["address", "number"], name="audit_by_address"),
        ]

    def __str__(self) -> str:
        return f"{self.number}: {self.actor_name or self.get_actor_kind_display()} {self.get_action_display()}"

    def save(self, *args: Any, **kwargs: Any) -> None:
        """Raises TypeError for a stored entry."""
        if not self._state.adding:
            raise TypeError("An audit entry is never changed.")
        super().save(*args, **{**kwargs, "force_insert": True})

    def delete(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise TypeError("An audit entry is never deleted.")


class AuditHead(models.Model):
    """The number and the hash of the newest entry: shows that the newest ones were cut off. It has one row."""

    id = models.PositiveSmallIntegerField(primary_key=True, default=1)
    number = models.PositiveBigIntegerField()
    hash = models.CharField(max_length=64)

    class Meta:
        default_permissions = ()

    def __str__(self) -> str:
        return f"{self.number} {self.hash}"
