"""Starting a plan from outside: what it is given is looked at before anything is recorded."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from apps.accounts.principals import Principal
from apps.agents.models import Agent
from apps.engine.accept import Alongside, Receipt
from apps.engine.send import accept_and_publish
from apps.plans import checks, finding, inputs
from apps.plans.graphs import Problems
from apps.plans.models import StartKey
from apps.record.errors import InvalidParams, UnsupportedOperation
from apps.record.events import JSON
from apps.record.ledger import Ledger
from apps.record.models import Accepted


class Unfit(InvalidParams):
    """A plan cannot be started so; `problems` says why, by paths such as `inputs.city` and `steps.review.agent`."""

    def __init__(self, problems: Problems) -> None:
        path, sentence = problems[0]
        super().__init__(f"{path}: {sentence}", path)
        self.problems = problems


def start(
    principal: Principal,
    plan: Agent,
    given: JSON,
    *,
    key: str,
    text: str = "",
    files: Sequence[JSON] = (),
    traceparent: str = "",
) -> Receipt:
    """Begin a run of a plan that the caller may use, once for each `key` (its messageId). Synchronous.

    Raises Unfit for inputs that are missing or cannot be and for agents that the caller may not use,
    errors.Refusal where the key was used for something else, be it another plan; then nothing was stored.
    """
    words = [{"text": text}] if text else []
    message = {"messageId": key, "role": "ROLE_USER", "parts": [*words, {"data": given}, *files]}
    if not Accepted.objects.filter(sender=principal.sender, agent=plan, message_id=key).exists():
        _check(principal, plan, {"text": text, **given, "files": list(files)})
    return accept_and_publish(principal, plan, message, claims(principal, plan, key), traceparent=traceparent)


def claims(principal: Principal, plan: Agent, key: str) -> Alongside:
    """What makes the key one for this plan alone, in the transaction that accepts its start.

    A messageId is remembered for each agent, a key for all plans. Who comes with the same key for another plan at that
    moment waits for the first, and is refused: it raises InvalidParams.
    """

    def claim(log: Ledger, task: uuid.UUID) -> None:
        claimed, _ = StartKey.objects.get_or_create(sender=principal.sender, key=key, defaults={"plan": plan})
        if claimed.plan_id != plan.pk:
            raise InvalidParams("This messageId was used for another plan. Use a new messageId.", "messageId")

    return claim


def _check(principal: Principal, plan: Agent, given: JSON) -> None:
    definition = finding.definition_of(plan)
    if definition is None:
        raise UnsupportedOperation("The plan's definition cannot be read any more. Whoever wrote it has to save it.")
    if problems := [*inputs.problems(definition, given), *checks.closed_to(definition, principal)]:
        raise Unfit(problems)
