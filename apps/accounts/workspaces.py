"""Workspaces and their members: who may change what. Each change is audited.

A role counts in the workspace that a function is given, not in the current one. Workspaces that the caller is no member
of do not exist for them, and a key knows only its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from apps.accounts import audit, revocation
from apps.accounts.audit_models import AuditAction
from apps.accounts.errors import Kind, NotFound, Refusal
from apps.accounts.keys import end_key
from apps.accounts.models import ApiKey, Invitation, Membership, User, Workspace
from apps.accounts.people import invitations
from apps.accounts.permissions import PERMISSIONS, Permission, Role, missing_permission
from apps.accounts.principals import Principal
from apps.accounts.requests import quotas
from parley.db.sql import write_transaction

MOST_WORKSPACES = 50  # of one person
MOST_MEMBERS = 500  # of one workspace
NO_LONGER_INVITED = "Whoever invited you can no longer add members to this workspace. Ask for a new invitation."
RANK = {role: rank for rank, role in enumerate(Role)}


class WorkspaceRefused(Refusal):
    """This cannot be done; the sentence says why."""

    kind = Kind.CONFLICT


class NotPermitted(WorkspaceRefused):
    """The caller's role does not permit it."""

    kind = Kind.FORBIDDEN


class NoAccount(WorkspaceRefused):
    """Nobody here has this e-mail address. Ask an operator to invite them first."""

    field = "email"


class WrongName(WorkspaceRefused):
    """This is not the name of the workspace."""

    field = "name"


class NoMember(NotFound):
    """The workspace has no such member."""


def roles_up_to(role: Role) -> list[Role]:
    """What somebody with this role may give to others, and take from them."""
    return [one for one in Role if RANK[one] <= RANK[role]]


def create_workspace(principal: Principal, name: str) -> Workspace:
    """A new workspace that the caller owns. Raises WorkspaceRefused for a key or too many, QuotaExceeded."""
    if principal.user_id is None or principal.key_id is not None:
        raise NotPermitted("A key belongs to one workspace. Make a workspace on the settings page.")
    quotas.count_act(principal)
    with write_transaction():
        if Membership.objects.filter(user=principal.user_id).count() >= MOST_WORKSPACES:
            raise WorkspaceRefused(f"You are in {MOST_WORKSPACES} workspaces. Leave one first.")
        workspace = Workspace.objects.create(name=name)
        Membership.objects.create(workspace=workspace, user_id=principal.user_id, role=Role.OWNER)
        _record(AuditAction.WORKSPACE_CREATED, principal, workspace, name=name)
    return workspace


def change_workspace(principal: Principal, workspace: int, **changes: Any) -> Workspace:
    """Change its `name`, or whether `members_make_agents`. Raises NotFound, NotPermitted."""
    with _changing(principal, workspace, Permission.SETTINGS) as own:
        changed = {name: value for name, value in changes.items() if getattr(own.workspace, name) != value}
        for name, value in changed.items():
            setattr(own.workspace, name, value)
        if changed:
            own.workspace.save(update_fields=list(changed))
            _record(AuditAction.WORKSPACE_CHANGED, principal, own.workspace, **changed)
    return own.workspace


def choose_workspace(principal: Principal, workspace: int) -> Workspace:
    """Make it the person's current one. Raises NotFound, NotPermitted for a key."""
    if principal.key_id is not None or principal.user_id is None:
        raise NotPermitted("A key belongs to one workspace. Make another key there.")
    found = Workspace.objects.find(principal, workspace)
    _enter(principal.user_id, found)
    return found


def _enter(user: int, workspace: Workspace) -> None:
    """Pages that are open learn it too."""
    with write_transaction():
        User.objects.filter(pk=user).update(current_workspace=workspace)
        revocation.announce(user)


def add_member(principal: Principal, workspace: int, email: str, role: Role) -> Membership:
    """Add a person with an account. Raises NotFound, WorkspaceRefused (NoAccount), QuotaExceeded."""
    quotas.count_act(principal)
    with _changing(principal, workspace, Permission.MEMBERS) as own:
        _check_may_add(own, role)
        person = User.objects.filter(email__iexact=email.strip(), is_active=True).first()
        if person is None:
            raise NoAccount
        added, is_new = Membership.objects.get_or_create(workspace=own.workspace, user=person, defaults={"role": role})
        if not is_new:
            raise WorkspaceRefused(f"{person.short_name} is a member already.")
        _record(AuditAction.MEMBER_ADDED, principal, own.workspace, member=person.pk, role=role.value)
    return added


def invite_member(principal: Principal, workspace: int, email: str, role: Role) -> tuple[Invitation, str]:
    """Invite a person without an account, who then is a member. Returns the invitation, and its link.

    For people who may invite. Raises NotFound, WorkspaceRefused, QuotaExceeded.
    """
    quotas.count_act(principal)
    with _changing(principal, workspace, Permission.MEMBERS) as own:
        _check_may_add(own, role)
        if principal.key_id is not None or not invitations.may_invite(own.user):
            raise NotPermitted(str(NoAccount()))
        try:
            return invitations.invite(own.user, email, own.workspace, role)
        except invitations.Refused as refused:
            raise WorkspaceRefused(str(refused)) from None


def join_invited(invitation: Invitation, person: User, **signal: Any) -> None:
    """Listens to `invitations.accepted`. Raises invitations.Refused if the inviter could not add a member any more."""
    if invitation.workspace_id is None or invitation.inviter is None:
        return
    inviter, role = invitation.inviter.principal_in(invitation.workspace_id), Role(invitation.role)
    try:
        with _changing(inviter, invitation.workspace_id, Permission.MEMBERS) as own:
            _check_may_add(own, role)
            given = {"role": role}
            _, is_new = Membership.objects.get_or_create(workspace=own.workspace, user=person, defaults=given)
            if is_new:
                _record(AuditAction.MEMBER_ADDED, inviter, own.workspace, member=person.pk, role=role.value)
    except (NotFound, WorkspaceRefused):
        raise invitations.Refused(NO_LONGER_INVITED) from None
    _enter(person.pk, own.workspace)


def change_role(principal: Principal, workspace: int, user: int, role: Role) -> Membership:
    """Raises NotFound, NoMember, WorkspaceRefused."""
    with _changing(principal, workspace, Permission.MEMBERS) as own:
        other = _member(own, user)
        _check_rank(own, role, Role(other.role))
        if role != Role.OWNER:
            _check_not_last_owner(other)
        details = {"member": user, "role": role.value, "before": other.role}
        other.role = role
        other.save(update_fields=["role"])
        _record(AuditAction.MEMBER_CHANGED, principal, own.workspace, **details)
    return other


def remove_member(principal: Principal, workspace: int, user: int) -> None:
    """Remove a member, or leave. Access ends at once, and the person's keys of this workspace are revoked.

    Raises NotFound, NoMember, WorkspaceRefused.
    """
    permission = Permission.READ if user == principal.user_id else Permission.MEMBERS
    with _changing(principal, workspace, permission) as own:
        other = _member(own, user)
        if user != principal.user_id:
            _check_rank(own, Role(other.role))
        if own.workspace.personal_of_id == user:
            raise WorkspaceRefused("Nobody can leave their personal workspace.")
        _check_not_last_owner(other)
        other.delete()
        User.objects.filter(pk=user, current_workspace=workspace).update(current_workspace=None)
        for key in ApiKey.objects.filter(user=user, workspace=workspace, revoked_at=None):
            end_key(key, partial(_record_key, principal))
        _record(AuditAction.MEMBER_REMOVED, principal, own.workspace, member=user)


def transfer_ownership(principal: Principal, workspace: int, user: int) -> Membership:
    """Make another member the owner; the caller becomes a manager.

    Raises NotFound, NoMember, WorkspaceRefused.
    """
    with _changing(principal, workspace, Permission.DELETE) as own:
        other = _member(own, user)
        if other.pk == own.pk:
            raise WorkspaceRefused("You own this workspace already. Choose another member.")
        if own.workspace.personal_of_id is not None:
            raise WorkspaceRefused("A personal workspace stays with its person.")
        other.role, own.role = Role.OWNER, Role.MANAGER
        other.save(update_fields=["role"])
        own.save(update_fields=["role"])
        _record(AuditAction.WORKSPACE_TRANSFERRED, principal, own.workspace, member=user)
    return other


def close_workspace(principal: Principal, workspace: int, name: str, also: Callable[[Workspace], object]) -> Workspace:
    """End all access to a workspace; `also` is called in the same transaction.

    `name` confirms it. Raises NotFound, WorkspaceRefused.
    """
    with _changing(principal, workspace, Permission.DELETE) as own:
        closed = own.workspace
        if closed.personal_of_id is not None:
            raise WorkspaceRefused("A personal workspace is deleted together with its person's account.")
        if name.strip() != closed.name:
            raise WrongName
        also(closed)
        closed.close()
        for key in ApiKey.objects.filter(workspace=workspace, revoked_at=None):
            end_key(key, partial(_record_key, principal))
        _record(AuditAction.WORKSPACE_DELETED, principal, closed, name=name.strip())
    return closed


@contextmanager
def _changing(principal: Principal, workspace: int, permission: Permission) -> Iterator[Membership]:
    """The caller's membership, with the workspace locked. Raises NotFound, NotPermitted."""
    with write_transaction():
        found = Workspace.objects.select_for_update().find(principal, workspace)
        own = Membership.objects.select_related("user").get(workspace=found, user=principal.user_id)
        own.workspace = found
        if permission not in PERMISSIONS[Role(own.role)]:
            raise NotPermitted(missing_permission(permission))
        yield own


def _member(own: Membership, user: int) -> Membership:
    found = Membership.objects.select_related("user").filter(workspace=own.workspace_id, user__pk=user).first()
    if found is None:
        raise NoMember
    return found


def _check_may_add(own: Membership, role: Role) -> None:
    """Raises WorkspaceRefused."""
    if own.workspace.personal_of_id is not None:
        raise WorkspaceRefused("A personal workspace has one member. Make another workspace to work with others.")
    _check_rank(own, role)
    if Membership.objects.filter(workspace=own.workspace_id).count() >= MOST_MEMBERS:
        raise WorkspaceRefused(f"This workspace has {MOST_MEMBERS} members. Remove one first.")


def _check_rank(own: Membership, *roles: Role) -> None:
    """Nobody gives, takes or changes a role above their own. Raises NotPermitted."""
    if any(RANK[role] > RANK[Role(own.role)] for role in roles):
        raise NotPermitted("Only an owner can do this.")


def _check_not_last_owner(member: Membership) -> None:
    """Raises WorkspaceRefused."""
    others = Membership.objects.filter(workspace=member.workspace_id, role=Role.OWNER).exclude(pk=member.pk)
    if member.role == Role.OWNER and not others.filter(user__is_active=True).exists():
        raise WorkspaceRefused("This is the last owner. Make another member an owner first.")


def _record(action: AuditAction, principal: Principal, workspace: Workspace, **details: Any) -> None:
    audit.record(action, actor=principal, object=workspace, workspace=workspace.pk, details=details)


def _record_key(principal: Principal, key: ApiKey) -> None:
    audit.record(AuditAction.KEY_REVOKED, actor=principal, object=key, details={"name": key.name})
