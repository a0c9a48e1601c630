"""Commands of a session's owner, each an event of its log: create, rename, archive, switch the agent, rate a task."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from django.core.exceptions import ValidationError
from django.db import IntegrityError

from apps.accounts import audit
from apps.accounts.audit_models import AuditAction
from apps.accounts.principals import Principal
from apps.agents import options as agent_options
from apps.agents import versions
from apps.agents.models import Agent
from apps.record import ledger
from apps.record.content.parts import is_blank
from apps.record.errors import ContextNotFound, InvalidParams, KeyUsed, TaskNotFound, UnsupportedOperation
from apps.record.events import JSON, AgentSwitched, EventType, Feedback, Opening
from apps.record.ledger import Ledger
from apps.record.models import Context, Event
from apps.record.projects import SessionProject, find_project, project_of
from apps.record.reading import lookup
from apps.record.reading.lookup import check_may_use

KEY_NAMESPACE = uuid.UUID("8f0b6f0e-4c0f-5f6c-9a53-0a4f6f1d7f5e")
MAX_RATING = 5  # the best; the pages' thumbs give 5 and 1
MAX_FEEDBACK_LENGTH = 10_000  # characters


@dataclass(frozen=True, slots=True)
class CreatedSession:
    context: Context
    repeated: bool = False


def create_session(
    principal: Principal,
    agent: Agent | Callable[[], Agent],
    *,
    title: str = "",
    context_id: str = "",
    options: JSON | None = None,
    project: uuid.UUID | None = None,
    temporary: bool = False,
    key: str = "",
) -> CreatedSession:
    """A session of a known caller with an agent. The same `key` from the caller gives the same session again.

    `agent`: or what chooses one for a new session. Of a repeated request only what the caller gave must be the same: a
    project may have changed since, or be gone.

    Without a title it gets that of its first message; without a `context_id` (A2A's) it gets its own key. In a project,
    the project's agent has the project's options, unless others are given. A `temporary` one neither uses nor leaves
    memory of the caller.

    Raises UnsupportedOperation for an agent that the caller may not use, ContextNotFound if the session was deleted
    since, and InvalidParams for wrong options, a project that the caller does not see, a `context_id` that is in use,
    or a key that was used for another session; then nothing was recorded.
    """
    _check_title(title)
    session = uuid.uuid5(KEY_NAMESPACE, f"{principal.sender} {key}") if key else uuid.uuid4()
    given: JSON = {"contextId": context_id or str(session), "title": title, "temporary": temporary or None}
    given["project"] = str(project) if project is not None else None
    if isinstance(agent, Agent):
        check_may_use(principal, agent)
        given["agent"] = agent.pk
    if options is not None or project is None:
        given["options"] = options
    if key and (earlier := _existing_session(principal, session, given)):
        return earlier
    if not isinstance(agent, Agent):
        agent = agent()
        check_may_use(principal, agent)
    opens: Opening = {
        "contextId": context_id,
        "owner": principal.user_id,
        "workspace": principal.workspace_id or agent.workspace_id,
        "agent": agent.pk,
        "title": title,
    }
    if project is not None:
        found = check_project(principal, project)
        opens["project"] = str(found.key)
        if options is None and found.agent == agent.pk:
            options = found.options
    if read := read_options(agent, options or {}):
        opens["options"] = read
    if temporary:
        opens["temporary"] = True
    try:
        with ledger.writing(Context(pk=session)) as log:
            log.add(EventType.SESSION_RENAMED, {"title": title, "opens": log.opening(opens, agent)})
    except IntegrityError:  # a concurrent request, or the contextId is in use
        if earlier := _existing_session(principal, session, given):
            return earlier
        raise InvalidParams("This contextId is in use. Choose another, or none.", "contextId") from None
    return CreatedSession(log.context)


def _existing_session(principal: Principal, session: uuid.UUID, given: JSON) -> CreatedSession | None:
    """Raises ContextNotFound, KeyUsed if it did not begin with what is `given`, InvalidParams for wrong options."""
    if not Context.objects.filter(pk=session).exists():
        return None
    context = lookup.find_session(principal, session)
    begun = Event.objects.get(context=context, index=1).payload["opens"]
    if "options" in given:
        begun_with = Agent.objects.filter(pk=begun["agent"]).first() or context.agent
        given = given | {"options": read_options(begun_with, given["options"] or {}) or None}
    given = given | {"owner": principal.user_id, "workspace": principal.workspace_id or begun["workspace"]}
    if any(begun.get(name) != value for name, value in given.items()):
        raise KeyUsed("This {} was used for another session. Use a new {}.")
    return CreatedSession(context, repeated=True)


def switch_agent(principal: Principal, session: uuid.UUID, agent: Agent, options: JSON | None = None) -> bool:
    """Switch the caller's session to `agent` with these options; False if nothing changes.

    Without `options`, the session's agent keeps its options and a new agent gets none. Unfinished tasks stay with their
    agents. Raises ContextNotFound, InvalidParams for wrong options, and UnsupportedOperation for an agent that the
    caller may not use, or a child task's session; then nothing was recorded.
    """
    found = lookup.find_own_session(principal, session)
    check_may_use(principal, agent)
    if found.parent_task is not None:
        raise UnsupportedOperation("This session belongs to another agent's task. Only that agent can switch it.")
    read = read_options(agent, options) if options is not None else None
    try:
        with ledger.writing(session) as log:
            kept = log.context.options if log.context.agent_id == agent.pk else {}
            wanted = kept if read is None else read
            if log.context.agent_id == agent.pk and wanted == kept:
                return False
            switched: AgentSwitched = {"agent": agent.pk, "slug": agent.slug}
            if wanted:
                switched["options"] = wanted
            number = log.context.agent_version
            if log.context.agent_id == agent.pk:
                switched["kept"] = True
            else:
                number = versions.number_for_session(agent, log.context.context_id)
            if number is not None:
                switched["version"] = number
            log.add(EventType.AGENT_SWITCHED, switched)
    except Context.DoesNotExist:  # the context was deleted just now
        raise ContextNotFound from None
    return True


def read_options(agent: Agent, options: JSON) -> JSON:
    """The options, checked for the agent. Raises InvalidParams."""
    try:
        return agent_options.read_options(agent, options)
    except ValidationError as error:
        field, (sentence, *_) = next(iter(error.message_dict.items()))
        raise InvalidParams(f"{field}: {sentence}", f"options.{field}") from None


def rename_session(principal: Principal, session: uuid.UUID, title: str) -> Context:
    """Rename the caller's session (1 to 200 characters). Raises ContextNotFound, InvalidParams."""
    _check_title(title)
    with _writing(principal, session) as log:
        if log.context.title != title:
            log.add(EventType.SESSION_RENAMED, {"title": title})
    return log.context


def _check_title(title: str) -> None:
    """Raises InvalidParams for one that shows nothing. Without any, a session gets that of its first message."""
    if title and is_blank(title):
        raise InvalidParams("The title has only invisible characters. Write something that can be read.", "title")


def archive_session(principal: Principal, session: uuid.UUID) -> Context:
    """Archive the caller's session: lists leave it out until a new message comes. Raises ContextNotFound."""
    with _writing(principal, session) as log:
        if log.context.archived_at is None:
            log.add(EventType.SESSION_ARCHIVED, {})
    return log.context


def share_session(principal: Principal, session: uuid.UUID, sharing: Context.Sharing) -> Context:
    """Share the caller's own session with the members of its workspace, or make it private again.

    Raises ContextNotFound, NotYourSession, UnsupportedOperation for a child task's session.
    """
    with _writing(principal, session) as log:
        if not principal.is_known or log.context.parent_task is not None:
            raise UnsupportedOperation("This session belongs to another agent's task. Share the session that began it.")
        if log.context.sharing != sharing:
            log.add(EventType.SESSION_SHARED, {"sharing": sharing})
            subject, details = audit.session_subject(session), {"sharing": sharing.value}
            workspace = log.context.workspace_id
            audit.record(
                AuditAction.SESSION_SHARED, actor=principal, object=subject, workspace=workspace, details=details
            )
    return log.context


def move_session(principal: Principal, session: uuid.UUID, project: uuid.UUID | None) -> Context:
    """Move the caller's own session into a project that they see, or with None out of its project.

    What its agents were told before stays as it was. Raises ContextNotFound, NotYourSession, InvalidParams for a
    project that the caller does not see, and UnsupportedOperation for a child task's session.
    """
    if project is not None:
        check_project(principal, project)
    with _writing(principal, session) as log:
        if log.context.parent_task is not None:
            raise UnsupportedOperation("This session belongs to another agent's task. Move the session that began it.")
        if log.context.project != project:
            log.add(EventType.SESSION_MOVED, {"project": str(project) if project else None})
            subject, details = audit.session_subject(session), {"project": str(project or "")}
            workspace = log.context.workspace_id
            audit.record(
                AuditAction.SESSION_MOVED, actor=principal, object=subject, workspace=workspace, details=details
            )
    return log.context


def usual_agent(principal: Principal, project: uuid.UUID | None) -> str:
    """The slug of the agent that sessions of the project begin with; "" for none. Raises InvalidParams."""
    usual = check_project(principal, project).agent if project is not None else None
    found = Agent.objects.visible_to(principal).filter(pk=usual).first() if usual is not None else None
    return found.slug if found else ""


def usual_options(principal: Principal, context: Context, agent: Agent) -> JSON:
    """What a new session of this one's project has with the agent, if nobody says otherwise."""
    found = project_of(principal, context)
    return read_options(agent, found.options) if found is not None and found.agent == agent.pk else {}


def check_project(principal: Principal, key: uuid.UUID) -> SessionProject:
    """The project, if sessions of the caller may be in it: they see it. Raises InvalidParams."""
    found = find_project(principal, key)
    if found is None:
        raise InvalidParams("There is no such project, or you may not see it.", "project")
    return found


def unarchive_session(principal: Principal, session: uuid.UUID) -> Context:
    """Undo `archive_session`. Raises ContextNotFound."""
    with _writing(principal, session) as log:
        if log.context.archived_at is not None:
            log.add(EventType.SESSION_UNARCHIVED, {})
    return log.context


@contextmanager
def _writing(principal: Principal, session: uuid.UUID) -> Iterator[Ledger]:
    """The log of the caller's own session. Raises ContextNotFound, NotYourSession."""
    context = lookup.find_own_session(principal, session)
    try:
        with ledger.writing(context) as log:
            yield log
    except Context.DoesNotExist:  # it was deleted just now
        raise ContextNotFound from None


def parse_feedback(rating: str, text: str) -> Feedback:
    if rating not in map(str, range(1, MAX_RATING + 1)):
        raise InvalidParams(f"Give a rating from 1 to {MAX_RATING}.", "rating")
    if len(text) > MAX_FEEDBACK_LENGTH:
        raise InvalidParams(f"Write at most {MAX_FEEDBACK_LENGTH:,} characters.", "text")
    words = "".join(letter for letter in text if letter != "\0" and not "\ud800" <= letter <= "\udfff").strip()
    return {"rating": int(rating), "feedback": words} if words else {"rating": int(rating)}


def give_feedback(principal: Principal, agent: Agent, task_id: str, feedback: Feedback) -> None:
    """Record feedback on a task that the caller sees, in any state. Raises TaskNotFound, ReadOnlySession."""
    task = lookup.find_seen_task(principal, agent, task_id)
    lookup.check_may_write(principal, task.context)
    try:
        with ledger.writing(task.context) as log:
            log.add(EventType.FEEDBACK, feedback, task=task.pk)
    except Context.DoesNotExist:  # the context was deleted just now
        raise TaskNotFound from None
