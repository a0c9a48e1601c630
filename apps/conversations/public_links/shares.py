"""Sharing a session: a link by which anybody may read it as it was, with the owner's name.

Files, artifacts and forks are shown only if the owner granted that.
"""

from __future__ import annotations

import datetime
import secrets
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from django.utils import timezone

from apps.accounts import audit
from apps.accounts.audit_models import AuditAction
from apps.accounts.people.erasure import Person
from apps.accounts.principals import Principal
from apps.conversations.public_links.models import Presence, Share
from apps.record import lineage, projection
from apps.record.content.parts import part_at, pieces_joined
from apps.record.errors import ContextNotFound, InvalidParams
from apps.record.events import JSON
from apps.record.models import Artifact, Context, Message
from apps.record.reading import unfinished
from apps.record.reading.lookup import Authors, authors_of, find_own_session, restored
from parley.db.sql import Keys, write_transaction

MAX_BRANCHES = 100
MAX_SHARES = 100  # of one session


class ShareNotFound(ContextNotFound):
    """There is nothing at this link. It may have been revoked or have expired. Ask the sender for a new one."""


@dataclass(frozen=True, slots=True)
class Branch:
    context: Context
    upto: int
    messages: Sequence[Message]
    artifacts: Sequence[Artifact]

    def part(self, kind: str, index: int, number: int) -> JSON:
        """A part of the message or artifact whose event has this index. Raises NotFound."""
        rows: dict[int, list[JSON]] = {
            "messages": {said.index: said.parts for said in self.messages},
            "artifacts": {made.first_event: pieces_joined(made.parts) for made in self.artifacts},
        }.get(kind, {})
        return part_at(rows.get(index, []), number)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What a link shows; the first branch is the session itself."""

    share: Share
    owner: str
    branches: Sequence[Branch]
    authors: Authors

    def author(self, said: Message) -> str:
        return self.authors.name(said, self.owner)

    def part(self, branch: uuid.UUID, kind: str, index: int, number: int) -> JSON:
        """Raises ShareNotFound, also if files were not granted."""
        found = next((one for one in self.branches if one.context.pk == branch), None)
        if found is None or not self.share.with_artifacts:
            raise ShareNotFound
        return found.part(kind, index, number)


def create_share(
    principal: Principal,
    session: uuid.UUID,
    *,
    lifetime: datetime.timedelta,
    at: int | None = None,
    with_branches: bool = False,
    with_artifacts: bool = False,
) -> tuple[Share, str]:
    """Share the caller's session as it was after event `at`, or as it is. Also returns the link's token, which is
    not stored. Raises ContextNotFound, InvalidParams.
    """
    context = _own_session(principal, session)
    if Share.objects.filter(context=context, revoked_at=None).count() >= MAX_SHARES:
        raise InvalidParams(f"A session has at most {MAX_SHARES} links. Take one back first.")
    upto = context.last_event if at is None else at
    if not 1 <= upto <= context.last_event:
        raise InvalidParams(f"There is no event {upto}. The newest is {context.last_event}.", "at")
    token = secrets.token_urlsafe(24)
    share = Share(
        context=context,
        upto=upto,
        title=context.title if upto == context.last_event else projection.rebuild(context.pk, upto).context.title,
        digest=Share.digest_of(token),
        with_artifacts=with_artifacts,
        with_branches=with_branches,
        branches={str(fork.pk): fork.last_event for fork in _shared_forks(context, upto)} if with_branches else {},
        expires_at=timezone.now() + lifetime,
    )
    with write_transaction():
        share.save(force_insert=True)
        granted = {"files": with_artifacts, "forks": with_branches, "expires": share.expires_at.isoformat()}
        _record(AuditAction.SHARE_CREATED, principal, context, share.pk, granted)
    return share, token


def list_shares(principal: Principal, session: uuid.UUID) -> list[Share]:
    """The links to the caller's session that were not revoked, newest first. Raises ContextNotFound."""
    return list(Share.objects.filter(context=_own_session(principal, session), revoked_at=None))


def revoke(principal: Principal, session: uuid.UUID, share: uuid.UUID) -> None:
    """Revoke a link. Raises ContextNotFound, and ShareNotFound for one that is unknown or revoked already."""
    context = _own_session(principal, session)
    with write_transaction():
        links = Share.objects.filter(context=context, pk=share, revoked_at=None)
        if not links.update(revoked_at=timezone.now()):
            raise ShareNotFound
        _record(AuditAction.SHARE_REVOKED, principal, context, share)


def _record(
    action: AuditAction, principal: Principal, context: Context, share: uuid.UUID, granted: JSON | None = None
) -> None:
    subject = audit.session_subject(context.pk)
    details = {"link": str(share), **(granted or {})}
    audit.record(action, actor=principal, object=subject, workspace=context.workspace_id, details=details)


def _own_session(principal: Principal, session: uuid.UUID) -> Context:
    context = restored(find_own_session(principal, session))
    if context.parent_task is not None or not principal.is_known:
        raise ContextNotFound
    return context


def _shared_forks(context: Context, upto: int) -> list[Context]:
    found: list[Context] = []
    newest = list(_forked_from(context, upto))
    while newest and len(found) < MAX_BRANCHES:
        found += newest
        newest = [fork for parent in newest for fork in _forked_from(parent, parent.last_event)]
    return found[:MAX_BRANCHES]


def _forked_from(parent: Context, upto: int) -> Iterator[Context]:
    forks = Context.objects.filter(parent=parent, owner=parent.owner_id, deleted_at=None, forked_at__lte=upto)
    yield from forks.order_by("created_at", "pk")


def find_snapshot(token: str) -> Snapshot:
    """What a link shows. Raises ShareNotFound for an unknown, expired or revoked link, or a deleted session."""
    share = Share.objects.select_related("context__owner").filter(digest=Share.digest_of(token)).first()
    if share is None or not share.is_open(timezone.now()) or share.context.deleted_at is not None:
        raise ShareNotFound
    branches = [_branch(share, restored(share.context), share.upto, after=0)]
    forks = Context.objects.filter(pk__in=share.branches, deleted_at=None).order_by("created_at", "pk")
    branches += [
        _branch(share, restored(fork), share.branches[str(fork.pk)], after=fork.forked_at or 0) for fork in forks
    ]
    owner = share.context.owner
    authors = authors_of(share.context, [said for branch in branches for said in branch.messages])
    return Snapshot(share, owner.name if owner else "", branches, authors)


def _branch(share: Share, context: Context, upto: int, *, after: int) -> Branch:
    messages = lineage.messages(context).filter(index__gt=after, index__lte=upto).order_by("index")
    artifacts = unfinished.with_delivered(context, after=after, upto=upto) if share.with_artifacts else []
    return Branch(context, upto, list(messages), artifacts)


def erase_shares(contexts: Keys) -> None:
    Share.objects.filter(context__in=contexts).delete()
    Presence.objects.filter(context__in=contexts).delete()


def revoke_all(person: Person) -> None:
    """Take back all links to the person's sessions (`account_erasers`)."""
    Share.objects.filter(context__owner=person.row, revoked_at=None).update(revoked_at=timezone.now())
