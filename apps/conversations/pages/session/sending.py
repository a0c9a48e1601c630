"""What a session's page sends with files: a message, one for the queue, or a task's first message once more."""

from __future__ import annotations

import base64
import mimetypes
import uuid
from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial, wraps
from http import HTTPStatus
from typing import Any, Concatenate, cast

from django.conf import settings
from django.core.files.uploadedfile import SimpleUploadedFile, UploadedFile
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.datastructures import MultiValueDict
from django.views.decorators.http import require_POST

from agentkit.llm.approvals import APPROVE, DECISION
from apps.accounts.errors import Kind
from apps.accounts.models import User
from apps.accounts.principals import Principal
from apps.accounts.requests import quotas
from apps.agents.models import Agent, AgentVersion
from apps.conversations.pages.session import addressing
from apps.conversations.queue import messages
from apps.conversations.queue.messages import QUEUES
from apps.conversations.queue.models import QueuedMessage
from apps.conversations.sessions import commands
from apps.conversations.uploads import resumable
from apps.engine.accept import Receipt
from apps.engine.repeats import Sent, sent_before
from apps.engine.send import chosen_version, run_again, send
from apps.engine.turns.questions import answer_of, answered_slot, asking_slot, asks_approval
from apps.record import lineage
from apps.record.content import parts, schema_forms
from apps.record.content.composing import check_taken, compose, parts_of
from apps.record.content.parts import safe_file_name, words_of
from apps.record.content.schema_forms import Field
from apps.record.error_table import codes_of
from apps.record.errors import (
    InvalidParams,
    KeyUsed,
    Refusal,
    TaskFinished,
    TaskNotFound,
    UnsupportedOperation,
    UploadNotFound,
)
from apps.record.events import JSON
from apps.record.models import Context, Task
from apps.record.reading.lookup import check_may_continue, check_may_use, check_may_write, find_session
from apps.web.roles import role_refusal
from apps.web.shell import parse_index, reader_view, session_or_404
from parley import db


class TooLarge(InvalidParams):
    """The request is larger than the platform takes."""

    kind = Kind.TOO_LARGE


class NotConfirmed(Refusal):
    """This needs a person who presses the button on this page. The confirmation was missing or too old: press again."""

    kind = Kind.CONFLICT


type Action[**P] = Callable[Concatenate[HttpRequest, Principal, P], Coroutine[Any, Any, HttpResponse]]
type View[**P] = Callable[Concatenate[HttpRequest, P], Coroutine[Any, Any, HttpResponse]]


def json_action[**P](view: Action[P]) -> View[P]:
    """A POST of a signed-in person. Answers, and sentences of refusals, are JSON."""

    @require_POST
    @wraps(view)
    async def answered(request: HttpRequest, *args: P.args, **kwargs: P.kwargs) -> HttpResponse:
        user = await request.auser()
        if not isinstance(user, User):
            return refusal_response("You are signed out. Sign in again. Your text stays here.", HTTPStatus.UNAUTHORIZED)
        try:
            principal = await db.run(lambda: user.principal)
            db.caller.set(principal.sender)
            if refusal := role_refusal(principal, request.resolver_match):
                return refusal_response(refusal, HTTPStatus.FORBIDDEN)
            return await view(request, principal, *args, **kwargs)
        except KeyUsed as refused:
            is_other = refused.sentence == KeyUsed.sentence
            sentence = (
                "This was already sent with other content. Reload the page to see it." if is_other else str(refused)
            )
            return refusal_response(sentence, HTTPStatus.UNPROCESSABLE_ENTITY, "text")
        except quotas.QuotaExceeded as exceeded:
            return refusal_response(str(exceeded), HTTPStatus.TOO_MANY_REQUESTS)
        except Refusal as refused:
            return refusal_response(str(refused), codes_of(type(refused)).http, getattr(refused, "field", ""))

    return cast("View[P]", answered)


def refusal_response(sentence: str, status: int, field: str = "") -> JsonResponse:
    return JsonResponse({"error": sentence, "field": field}, status=status)


@json_action
async def begin_session(request: HttpRequest, principal: Principal, slug: str) -> HttpResponse:
    refuse_too_large(request)
    chosen = await db.run(Agent.objects.find, principal, slug)
    mentioned = await db.run(addressing.mentioned_agent, principal, chosen, request.POST.get("text", ""))
    agent = mentioned or chosen
    message = await composed_message(request, principal, agent)
    model, project = request.POST.get("model"), project_in(request)
    options: JSON | None = {"model": model} if model and not mentioned else None
    is_temporary = bool(request.POST.get("temporary"))
    if options or project or is_temporary:
        about: JSON = {"options": options, "project": project, "temporary": is_temporary}
        about["key"] = f"first {message['messageId']}"
        begun = await db.run(partial(commands.create_session, principal, agent, **about))
        message["contextId"] = begun.context.context_id
    return _created(await send(principal, agent, message))


def project_in(request: HttpRequest) -> uuid.UUID | None:
    """The project that a form names. Raises InvalidParams."""
    named = request.POST.get("project", "")
    try:
        return uuid.UUID(named) if named else None
    except ValueError:
        raise InvalidParams("There is no such project.", "project") from None


@json_action
async def send_message(request: HttpRequest, principal: Principal, session: uuid.UUID) -> HttpResponse:
    """Send to the session's agent, to one that the message begins with (`@slug`), or to the named task.

    `asked` names the question it answers.
    """
    refuse_too_large(request)
    context = await db.run(find_session, principal, session)
    check_may_write(principal, context)
    is_mention = "asked" not in request.POST and await _switch_to_mentioned(request, principal, context)
    named = "" if is_mention else request.POST.get("task", "")
    task = await db.run(_named_task, context, named) if named else None
    if task is not None and task.owner_id != principal.user_id:
        if "asked" in request.POST:
            await db.run(check_may_continue, principal, task)
        else:
            task = None  # what another person began goes on without this message
    slot = await db.run(answered_slot, task, message_id(request)) if task else None
    agent = task.agent if task else context.agent
    message = await composed_message(request, principal, agent, slot)
    asking = await db.run(asking_slot, slot) if slot and "child" in slot else slot
    if asks_approval(asking) and answer_of(message).get(DECISION) == APPROVE:
        raise NotConfirmed("Words cannot approve this. Press Approve on the card.")
    return _created(await _send_once(principal, context, task, message, answered_event(request)))


async def _switch_to_mentioned(request: HttpRequest, principal: Principal, context: Context) -> bool:
    """Continue one's own session with the agent that the message begins with. Whether there is one."""
    if context.owner_id != principal.user_id:
        return False
    mentioned = await db.run(addressing.mentioned_agent, principal, context.agent, request.POST.get("text", ""))
    if mentioned is None:
        return False
    await db.run(commands.switch_agent, principal, context.pk, mentioned)
    context.agent = mentioned
    return True


async def composed_message(request: HttpRequest, principal: Principal, agent: Agent, slot: JSON | None = None) -> JSON:
    """A composer's message, with files uploaded before."""
    keys = request.POST.getlist("upload")
    uploaded = await db.run(uploaded_files, principal, keys) if keys else []
    return message_from_form(request, agent, slot, uploaded=uploaded)


def answered_event(request: HttpRequest) -> int | None:
    asked = request.POST.get("asked", "")
    index = parse_index(asked)
    if asked and index is None:
        raise InvalidParams("This page is out of date. Reload it.", "asked")
    return index


async def _send_once(
    principal: Principal, context: Context, task: Task | None, message: JSON, asked: int | None = None
) -> Sent:
    """Send a message unless an earlier try succeeded. If its task has ended, the session's agent gets it."""
    if (earlier := await db.run(sent_before, principal, context, message)) is not None:
        return earlier
    message = {**message, "contextId": context.name_for(principal)}
    if task is not None:
        await db.run(_check_usable, principal, task.agent)
        with suppress(TaskFinished):
            return await send(principal, task.agent, {**message, "taskId": str(task.pk)}, question_index=asked)
    await db.run(_check_usable, principal, context.agent)
    return await send(principal, context.agent, message)


@json_action
async def retry_task(request: HttpRequest, principal: Principal, session: uuid.UUID) -> HttpResponse:
    """Run a task again with the session's agent, or with the `version` of it that was chosen."""
    return _created(await db.run(_run_again, request, principal, session))


def _run_again(request: HttpRequest, principal: Principal, session: uuid.UUID) -> Receipt:
    context = find_session(principal, session)
    task = _named_task(context, request.POST.get("task", ""), past=True)
    _check_usable(principal, context.agent)
    version = version_in(request, principal, context.agent)
    return run_again(task, message_id(request), caller=principal, context=context, version=version)


def version_in(request: HttpRequest, principal: Principal, agent: Agent) -> AgentVersion | None:
    """The version that a form chooses; None for the current one. Raises InvalidParams."""
    chosen = request.POST.get("version", "")
    number = parse_index(chosen)
    if chosen and number is None:
        raise InvalidParams("Choose one of the listed versions.", "version")
    return chosen_version(principal, agent, number)


def _check_usable(principal: Principal, agent: Agent) -> None:
    """Raises UnsupportedOperation."""
    if not agent.is_open_to(principal):
        raise UnsupportedOperation(f"{agent.name} is no longer there for you. What was said stays here.")


def _named_task(context: Context, task: str, *, past: bool = False) -> Task:
    """Also a task from before a fork, with `past`. Raises TaskNotFound."""
    tasks = lineage.tasks(context) if past else Task.objects.filter(context=context)
    try:
        found = tasks.select_related("agent", "context").filter(pk=uuid.UUID(task)).first()
    except ValueError:
        raise TaskNotFound from None
    if found is None:
        raise TaskNotFound
    return found


def _created(sent: Sent | Receipt) -> HttpResponse:
    return JsonResponse({"session": reverse("web:session", args=[sent.context])}, status=HTTPStatus.CREATED)


MEGABYTE = 1024 * 1024
MOST_REFERENCES = 100


def message_from_form(
    request: HttpRequest, agent: Agent, slot: JSON | None = None, *, uploaded: Iterable[JSON] = ()
) -> JSON:
    """A form's message; with a `slot`, the answer to its question.

    `uploaded`: parts made before. Raises errors.Refusal with a sentence about what to change.
    """
    fields = schema_forms.fields_of(slot) if "answers" in request.POST else []
    answer = schema_forms.answer_data(slot, fields, dict(request.POST.lists()))
    sample = schema_forms.chosen_sample(fields, request.POST.get("sample", ""))
    asked = [field for field in fields if sample is None or field is not sample.field]
    files = _uploads(request.FILES, asked)
    files += [SimpleUploadedFile(sample.name, sample.content)] if sample is not None else []
    words = request.POST.get("text", "").replace("\x00", "").strip()
    said = parts_of(words, [*(file_part(file, agent) for file in files), *uploaded], answer)
    check_taken(agent, said)
    return compose(said, key=message_id(request), references=request.POST.getlist("reference")[:MOST_REFERENCES])


def uploaded_files(principal: Principal, keys: Iterable[str]) -> list[JSON]:
    """The caller's resumable uploads as parts. Raises errors.Refusal."""
    try:
        return [resumable.message_part(principal, uuid.UUID(key)) for key in keys]
    except (ValueError, UploadNotFound):
        raise InvalidParams("A file's upload has expired. Choose the file again.", "files") from None


def message_id(request: HttpRequest) -> str:
    """The browser's id: a second try is not a second message."""
    try:
        return str(uuid.UUID(request.POST.get("message", "")))
    except ValueError:
        raise InvalidParams("This page is out of date. Reload it.", "message") from None


def _uploads(files: MultiValueDict[str, UploadedFile[bytes]], fields: Iterable[Field]) -> list[UploadedFile[bytes]]:
    """Raises InvalidParams if a required file is missing."""
    uploads = files.getlist("files")
    for field in fields:
        if field.kind == "file":
            given = files.getlist(field.html_name)
            if not given and field.required:
                raise InvalidParams(f"{field.label}: choose a file.", field.html_name)
            uploads = [*uploads, *given]
    return uploads


def add_uploads(request: HttpRequest, add: Callable[[JSON], object]) -> str:
    """Add each file of a form, as a part with its content. Returns what was done. Raises TooLarge, and as `add`."""
    refuse_too_large(request)
    chosen = request.FILES.getlist("files")
    for upload in chosen:
        add(file_part(upload))
    if len(chosen) == 1:
        return f"{chosen[0].name} was added."
    return f"{len(chosen)} files were added." if chosen else "Choose a file first."


def file_part(upload: UploadedFile[bytes], agent: Agent | None = None) -> JSON:
    """With its content. `agent`: who gets it."""
    name = safe_file_name(upload.name or "")
    content = upload.read()
    head = content[: parts.HEAD_BYTES]
    labels = parts.media_type_fields(guessed_media_type(name, upload.content_type), head)
    if agent and not agent.takes(labels["mediaType"]) and agent.takes("text/*") and parts.is_text(head):
        labels = {"mediaType": "text/plain"}  # code, whose types are many
    return {"raw": base64.b64encode(content).decode(), "filename": name, **labels}


def guessed_media_type(name: str, declared: str | None) -> str:
    """From the name; otherwise the browser's, if valid."""
    if guessed := mimetypes.guess_type(name)[0]:
        return guessed
    declared = (declared or "").partition(";")[0].strip().lower()
    return declared if declared.count("/") == 1 and len(declared) <= 100 else "application/octet-stream"


def refuse_too_large(request: HttpRequest) -> None:
    """Raises TooLarge before the request is read."""
    length = int(request.headers.get("Content-Length") or 0)
    if length > settings.MAX_REQUEST_BYTES:
        limit, size = settings.MAX_REQUEST_BYTES // MEGABYTE, length / MEGABYTE
        raise TooLarge(f"That is {size:.1f} MB. The limit for one message is {limit} MB.", "files")


@dataclass(frozen=True, slots=True)
class ShownQueue:
    """A session's queue. `blocked_reason` says why nothing is sent; "" if it is."""

    agent: str
    rows: list[QueuedMessage]
    blocked_reason: str

    @property
    def is_blocked(self) -> bool:
        return bool(self.blocked_reason or self._problem)

    @property
    def note(self) -> str:
        if self._problem:
            return f"This could not be sent: {self._problem}"
        return self.blocked_reason or f"Queued until {self.agent} has finished"

    @property
    def _problem(self) -> str:
        return next((row.problem for row in self.rows if row.problem), "")

    def messages(self) -> Iterator[dict[str, Any]]:
        for row in self.rows:
            files = [part["filename"] for part in row.parts if part.get("filename")]
            ids = {"id": row.pk, "message_id": row.message_id}
            yield {**ids, "text": words_of(row.parts), "files": files, "is_being_sent": row.is_being_sent}


def shown_queue(context: Context) -> ShownQueue:
    """One query if nothing waits, otherwise two."""
    rows = list(QueuedMessage.objects.filter(context=context))
    return ShownQueue(context.agent.name, rows, messages.hold_reason(context) if rows else "")


@reader_view
def queued_messages(request: HttpRequest, session: uuid.UUID) -> HttpResponse:
    return render(request, "conversations/_queue.html", {"queue": shown_queue(session_or_404(request, session))})


@json_action
async def queue_message(request: HttpRequest, principal: Principal, session: uuid.UUID) -> HttpResponse:
    """Queues the same message once."""
    refuse_too_large(request)
    context = await db.run(_open_context, principal, session)
    said = await composed_message(request, principal, context.agent)
    await db.run(messages.enqueue, principal, context, said)
    QUEUES.publish(context.pk)
    return JsonResponse({"queued": said["messageId"]}, status=HTTPStatus.CREATED)


def _open_context(principal: Principal, session: uuid.UUID) -> Context:
    context = find_session(principal, session)
    check_may_use(principal, context.agent)
    return context
