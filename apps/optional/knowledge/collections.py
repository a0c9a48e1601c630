"""What is done to collections: saving, sharing, deleting, and giving them to agents."""

from __future__ import annotations

from django.db import transaction

from apps.accounts import audit
from apps.accounts.audit_models import AuditAction
from apps.accounts.errors import NotFound
from apps.accounts.models import User, person_of
from apps.accounts.principals import WRITE, Principal, check_allowed
from apps.accounts.resources import Act, NotNeeded, Resource, save_own
from apps.agents.models import Agent
from apps.optional.knowledge.models import AgentCollection, Collection
from apps.record.content import blobs
from apps.record.content.parts import is_blank
from apps.record.errors import InvalidFields, Kind, Refusal, UnsupportedOperation
from apps.record.projects import check_seen
from parley.db.sql import write_transaction

MOST_COLLECTIONS = 200  # of one person in a workspace
MOST_OF_AN_AGENT = 20


class NotYours(Refusal):
    """Only the collection's owner, or a manager of its workspace, can do this."""

    kind = Kind.FORBIDDEN


class NotEditable(Refusal):
    """Your role in this workspace does not permit you to change this collection."""

    kind = Kind.FORBIDDEN


class FollowsProject(UnsupportedOperation):
    """This collection has the files of a project, and follows them. Change the project instead."""


class TooManyCollections(UnsupportedOperation):
    """You have as many collections as one person may have. Delete one first."""


class TooManyOfAgent(UnsupportedOperation):
    """The agent has as many collections as an agent may have. Remove one first."""


class NotForCallers(Refusal):
    """Only who may change the agent can let it tell all its callers what is in a collection."""

    kind = Kind.FORBIDDEN


class NotGiven(NotFound):
    """The agent does not search this collection."""


def save(principal: Principal, collection: Collection) -> Collection:
    """Check and save a new or a changed collection.

    Its project decides who sees it. So only who may share it changes that, and it is not shared in another way then.

    Raises InvalidFields, NotEditable, NotYours, TooManyCollections.
    """
    if is_blank(collection.name):
        raise InvalidFields([("name", "Write a name that can be read.")])
    is_new = collection._state.adding
    before = collection if is_new else Collection.objects.get(pk=collection.pk)
    if not is_new:
        check_editable(before, principal)
    has_moved = before.project != collection.project
    if has_moved:
        _check_run(before, principal)
    check_seen(principal, collection.project, collection)
    with write_transaction():
        if has_moved:
            Collection.objects.filter(pk=collection.pk).update(is_shared=False)
            collection.is_shared = False
        if is_new:
            User.objects.select_for_update().get(pk=principal.user_id or 0)  # two at once must not exceed the limit
            if Collection.objects.filter(**principal.own(), has_project_files=False).count() >= MOST_COLLECTIONS:
                raise TooManyCollections
        saved = save_own(principal, collection)
        record(AuditAction.COLLECTION_CREATED if is_new else AuditAction.COLLECTION_CHANGED, saved, principal)
    return saved


def check_editable(collection: Collection, principal: Principal) -> None:
    """Whether a caller who sees the collection may change what is in it. Raises NotEditable, FollowsProject."""
    if collection.has_project_files:
        raise FollowsProject
    if not collection.is_edited_by(principal):
        raise NotEditable


def _check_run(collection: Collection, principal: Principal) -> None:
    if collection.has_project_files:
        raise FollowsProject
    if not collection.is_run_by(principal):
        raise NotYours


def record(action: AuditAction, collection: Collection, principal: Principal, **details: object) -> None:
    """Write to the audit who did what to a collection."""
    audit.record(action, actor=principal, object=collection, workspace=collection.workspace_id, details=details)


def _share(collection: Collection, principal: Principal, *, is_shared: bool) -> Collection:
    if collection.project is not None:
        raise NotNeeded("Who sees its project sees it.")
    with write_transaction():
        if not Collection.objects.filter(pk=collection.pk, is_shared=not is_shared).update(is_shared=is_shared):
            raise NotNeeded("It is shared already." if is_shared else "It is private already.")
        collection.is_shared = is_shared
        sharing = "workspace" if is_shared else "private"
        record(AuditAction.COLLECTION_SHARED, collection, principal, sharing=sharing)
    return collection


def delete(collection: Collection, principal: Principal | None = None) -> Collection:
    """Delete a collection with its sources, their passages and their files."""
    with write_transaction():
        parts = [part for part in collection.sources.values_list("part", flat=True) if part]
        blobs.release_uses(collection.workspace_id, parts)
        if principal is not None:
            record(AuditAction.COLLECTION_DELETED, collection, principal)
        collection.delete()
        digests = [*blobs.stored_files(parts)]
        transaction.on_commit(lambda: blobs.delete_unused(digests), robust=True)
    return collection


SHARE = Act[Collection](
    "share", "Share", lambda row, principal: _share(row, principal, is_shared=True),
    "Share a collection with its workspace",
    "All members of the workspace see what is in it, and may find it by agents that search it.",
    lambda _: "It is shared with the workspace.", lambda row: row.project is None and not row.is_shared,
    check=_check_run, records=True, icon="group",
)  # fmt: skip
UNSHARE = Act[Collection](
    "unshare", "Make private", lambda row, principal: _share(row, principal, is_shared=False),
    "Make a shared collection private",
    "Only its owner sees it. Agents do not find it for others any more, unless it is for all their callers.",
    lambda _: "It is private.", lambda row: row.project is None and row.is_shared,
    check=_check_run, records=True, icon="lock",
)  # fmt: skip
DELETE = Act[Collection](
    "delete", "Delete", delete, "Delete a collection with its files and pages",
    "Agents find none of it any more. What they said of it stays.", lambda _: "The collection was deleted.",
    lambda row: not row.has_project_files, check=_check_run, is_grave=True, records=True, icon="delete",
)  # fmt: skip
COLLECTIONS = Resource("collections", "collection", Collection, save, (SHARE, UNSHARE, DELETE))


# Agents


def may_change(principal: Principal, agent: Agent) -> bool:
    """Whether the caller may change the agent: its makers, managers for those of their members, and operators."""
    person = person_of(principal)
    is_made_here = Agent.objects.editable_by(person).filter(pk=agent.pk).exists()
    return is_made_here or person.has_perm("agents.change_agent")


def give(
    principal: Principal, agent: Agent, collection: Collection, *, is_for_callers: bool = False
) -> AgentCollection:
    """Let an agent search a collection, or change for whom it does. The caller sees both.

    Raises MissingScope, MissingRole, NotEditable, NotYours, NotForCallers, TooManyOfAgent.
    """
    check_allowed(principal, WRITE)
    if not collection.is_edited_by(principal):
        raise NotEditable
    if is_for_callers and not collection.is_run_by(principal):
        raise NotYours
    if is_for_callers and not may_change(principal, agent):
        raise NotForCallers
    with write_transaction():
        Agent.objects.select_for_update().get(pk=agent.pk)  # two at once must not exceed the limit
        of_agent = AgentCollection.objects.filter(agent=agent)
        if of_agent.exclude(collection=collection).visible_to(principal).count() >= MOST_OF_AN_AGENT:
            raise TooManyOfAgent
        given, _ = AgentCollection.objects.update_or_create(
            agent=agent, collection=collection, defaults={"is_for_callers": is_for_callers}
        )
        told = "all callers" if is_for_callers else "those who see it"
        record(AuditAction.COLLECTION_GIVEN, collection, principal, agent=agent.slug, told=told)
    return given


def take_back(principal: Principal, collection: Collection, agent: Agent) -> None:
    """Let the agent not search the collection any more. Who may change either may do that.

    Raises MissingScope, MissingRole, NotEditable, NotGiven.
    """
    check_allowed(principal, WRITE)
    if not collection.is_edited_by(principal) and not may_change(principal, agent):
        raise NotEditable
    with write_transaction():
        deleted, _ = AgentCollection.objects.filter(agent=agent, collection=collection).delete()
        if not deleted:
            raise NotGiven
        record(AuditAction.COLLECTION_GIVEN, collection, principal, agent=agent.slug, told="nobody")
