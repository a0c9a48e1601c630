"""The methods of A2A 0.3, each as an operation of 1.0 whose request and answer are said in the words of 0.3."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any

from apps.a2a import extensions, versions
from apps.a2a.calls import Answer, Arrival, carry_out
from apps.a2a.errors import JSON, InvalidFields
from apps.a2a.fields import Fields
from apps.a2a.old import answers, names, requests
from apps.a2a.old.forms import Form
from apps.a2a.old.names import Naming
from apps.a2a.streams import Updates
from apps.record.errors import InvalidParams, Refusal


@dataclass(frozen=True, slots=True)
class Method:
    """A method of 0.3."""

    operation: str  # of 1.0
    read: Callable[[Any, Form], JSON]  # the request of 0.3 as one of 1.0
    show: Callable[[JSON, Form], Any]  # the answer of 1.0, or one response of a stream, as one of 0.3
    field: Naming = names.of_asking  # what 0.3 calls a field of the request of 1.0


METHODS: dict[str, Method] = {
    "message/send": Method("SendMessage", requests.sending, answers.response, names.of_sending),
    "message/stream": Method("SendStreamingMessage", requests.sending, answers.response, names.of_sending),
    "tasks/get": Method("GetTask", requests.asking, answers.task),
    "tasks/cancel": Method("CancelTask", requests.asking, answers.task),
    "tasks/resubscribe": Method("SubscribeToTask", requests.asking, answers.response),
    "tasks/pushNotificationConfig/set": Method(
        "CreateTaskPushNotificationConfig", requests.webhook, answers.webhook, names.of_webhook
    ),
    "tasks/pushNotificationConfig/get": Method(
        "GetTaskPushNotificationConfig", requests.webhook_of_task, answers.webhook, names.of_webhook_of_task
    ),
    "tasks/pushNotificationConfig/list": Method(
        "ListTaskPushNotificationConfigs", requests.webhooks_of_task, answers.webhooks, names.of_webhook_of_task
    ),
    "tasks/pushNotificationConfig/delete": Method(
        "DeleteTaskPushNotificationConfig", requests.webhook_of_task, answers.nothing, names.of_webhook_of_task
    ),
    "agent/getAuthenticatedExtendedCard": Method("GetExtendedAgentCard", requests.nothing, answers.card),
}

FIRST_WEBHOOK = Method(
    "ListTaskPushNotificationConfigs", requests.webhooks_of_task, answers.first_webhook, names.of_webhook_of_task
)
"""What asking for a webhook without saying which comes to: 0.3 speaks of *the* configuration of a task."""

OLD_NAMES = {method.operation: name for name, method in METHODS.items()}


async def carry_out_old(arrival: Arrival, name: str, params: Any, form: Form) -> Answer:
    """Let the operation of the method `name` answer. Raises Refusal with 0.3's names of methods and fields."""
    method = FIRST_WEBHOOK if _asks_for_any_webhook(name, params) else METHODS[name]
    asked = method.read(params, form)
    try:
        answer = await carry_out(arrival, method.operation, asked, versions.OLD)
    except Refusal as error:
        raise _in_old_words(error, method, form) from None
    shown = _shown(answer.content, method, form) if answer.streams else method.show(answer.content, form)
    activated = answer.headers.get(extensions.HEADER)
    return replace(answer, content=shown, headers={extensions.OLD_HEADER: activated} if activated else {})


def _asks_for_any_webhook(name: str, params: Any) -> bool:
    return (
        name == "tasks/pushNotificationConfig/get"
        and isinstance(params, dict)
        and not Fields(params).raw("pushNotificationConfigId")
    )


async def _shown(updates: Updates, method: Method, form: Form) -> Updates:
    """A stream as 0.3 has it: it closes with the update that is marked as final."""
    async with aclosing(updates):
        async for batch in updates:
            last = next((at for at, (_, new) in enumerate(batch) if answers.ends_here(new)), None)
            yield [(index, method.show(new, form)) for index, new in (batch if last is None else batch[: last + 1])]
            if last is not None:
                return


def _in_old_words(error: Refusal, method: Method, form: Form) -> Refusal:
    match error:
        case InvalidFields():
            return InvalidFields([(method.field(path, form), description) for path, description in error.violations])
        case InvalidParams() if error.field:
            field = method.field(error.field, form)
            return InvalidParams(_with_old_names(str(error)).replace(error.field, field, 1), field)
        case _:
            error.args = (_with_old_names(str(error)),)
            return error


def _with_old_names(text: str) -> str:
    return re.sub(r"\b[A-Z][A-Za-z]+\b", lambda word: OLD_NAMES.get(word[0], word[0]), text)
