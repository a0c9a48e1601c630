"""Running a task again: a new task in the same context, from the same first message, for the same owner."""

import uuid

from apps.accounts.principals import ANONYMOUS
from apps.engine.accept import Receipt
from apps.engine.send import accept_and_publish
from apps.record.errors import UnsupportedOperation
from apps.record.models import Message, Task


def run_again(task: Task) -> Receipt:
    """Send a task's first message once more, as its owner, in a new task that references the old one.

    Raises errors.Refusal where the message cannot be sent again; then nothing was stored.
    """
    first = Message.objects.filter(task=task, role=Message.Role.USER).order_by("index").first()
    if first is None:
        raise UnsupportedOperation("The task has no message to be sent again.")
    message = {
        "messageId": str(uuid.uuid4()),
        "contextId": task.context.context_id,
        "role": "ROLE_USER",
        "parts": first.parts,
        "referenceTaskIds": [str(task.pk)],
        **{name: kept for name in ("metadata", "extensions") if (kept := getattr(first, name))},
    }
    principal = task.owner.principal if task.owner else ANONYMOUS
    return accept_and_publish(principal, task.agent, message)
