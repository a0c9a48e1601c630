"""The methods of A2A 0.3, each as an operation of 1.0 whose request and answer are said in the words of 0.3."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any

from apps.a2a.errors import JSON, InvalidFields
from apps.a2a.old import answers, names, requests
from apps.a2a.old.forms import Form
from apps.a2a.old.names import Naming
from apps.a2a.operations import OPERATIONS, Call
from apps.a2a.streams import Updates
from apps.conversations.errors import InvalidParams, Refusal


@dataclass(frozen=True, slots=True)
class Method:
    """A method of 0.3."""

    operation: str  # of 1.0
    read: Callable[[Any, Form], JSON]  # the request of 0.3 as one of 1.0
    show: Callable[[JSON, Form], Any]  # the answer of 1.0, or one response of a stream, as one of 0.3
    field: Naming = names.of_asking  # what 0.3 calls a field of the request of 1.0

    async def __call__(self, call: Call, form: Form) -> Any:
        """A JSON value, or Updates to be streamed. Raises Refusal with the names of 0.3."""
        asked = replace(call, params=self.read(call.params, form))
        try:
            answer = await OPERATIONS[self.operation](asked)
        except Refusal as error:
            raise in_old_words(error, lambda path: self.field(path, form)) from None
        return self.show(answer, form) if isinstance(answer, dict) else self._shown(answer, form)

    async def _shown(self, updates: Updates, form: Form) -> Updates:
        """The stream as 0.3 has it: it closes with the update that is marked as final."""
        async with aclosing(updates):
            async for batch in updates:
                last = next((at for at, (_, new) in enumerate(batch) if answers.ends_here(new)), None)
                yield [(index, self.show(new, form)) for index, new in (batch if last is None else batch[: last + 1])]
                if last is not None:
                    return


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

OLD_NAMES = {method.operation: name for name, method in METHODS.items()}


def in_old_words(error: Refusal, field: Callable[[str], str]) -> Refusal:
    """The same refusal with 0.3's names of methods and, by `field`, of fields."""
    match error:
        case InvalidFields():
            return InvalidFields([(field(path), description) for path, description in error.violations])
        case InvalidParams():
            return InvalidParams(_with_old_names(str(error)), field(error.field))
        case _:
            return type(error)(_with_old_names(str(error)))


def _with_old_names(text: str) -> str:
    return re.sub(r"\b[A-Z][A-Za-z]+\b", lambda word: OLD_NAMES.get(word[0], word[0]), text)
