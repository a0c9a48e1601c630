"""Questions about tool calls, and people's decisions. It needs no model library.

A *call* is `{"key", "tool", "kind", "needs", "arguments", "proposed", "schema", "why", "decisions"}`, with `"title"`,
`"description"`, `"effect"` (what the call would do, in its author's words) and `"each"` (it is asked about each time)
if a version knows them, and later `"approved"`. Keys are unique in a task: by the conversation, the model's answer in
it, and the model's id of the call.
"""

from __future__ import annotations

import hashlib
import json
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agentkit.content.messages import Message, data_part, text_part
from agentkit.context import BOOKMARK, TaskContext
from agentkit.outcomes import InputRequired
from agentkit.slots import without_references
from agentkit.tools import NEEDS, Policy, ToolKind

SLOT = "tool_approval"
DECISION, ARGUMENTS, REASON, FOR_SESSION = "decision", "arguments", "reason", "for_session"
APPROVE, REFUSE = "approve", "refuse"
YES = {APPROVE, "approved", "yes"}
NO = {REFUSE, "refused", "no"}
MAX_REASON = 500  # characters
MAX_WHY = 500  # characters of what the model said with the call
MAX_EFFECT = 1000  # characters of what the tool's author says that the call would do
REFUSED = "A person refused this call. Do not make it again unless they ask for it."
FORBIDDEN = "This agent may never use the tool {}. Continue without it, and tell the user if you cannot."
KEPT = BOOKMARK + "approvals"
"""The name in a task's memory of decisions that its next turns need."""
ALLOWED_CONTROLS = "\n\t"

Json = dict[str, Any]


def question(calls: Sequence[Json]) -> InputRequired:
    """Asks about the first call without a decision; the calls travel with the question."""
    call = next(one for one in calls if "approved" not in one)
    rest = sum("approved" not in one for one in calls) - 1
    text = "May the agent use this tool?"
    if call["needs"] > 1:
        text = f"May the agent use this tool? {call['needs']} people must approve it; {len(call['decisions'])} did."
    if rest:
        text += f" It waits for {rest} more."
    about = {
        name: call.get(name, "") for name in ("tool", "kind", "title", "description", "effect", "arguments", "why")
    }
    approved_by = [one["name"] for one in call["decisions"]]
    about |= {"approvedBy": approved_by} if approved_by else {}
    shown = {name: visible(value) for name, value in about.items() if value not in ("", None)}
    parts = [text_part(text), data_part(shown)]
    return InputRequired(parts, SLOT, form_of(call), calls=list(calls), repeats=True)


def visible(value: Any) -> Any:
    """The value with control and invisible characters written out, so that what is shown is what there is."""
    if isinstance(value, str):
        return "".join(map(_visible_letter, value))
    if isinstance(value, dict):
        return {visible(str(name)): visible(one) for name, one in value.items()}
    return [visible(one) for one in value] if isinstance(value, list) else value


def _visible_letter(letter: str) -> str:
    is_hidden = unicodedata.category(letter) in ("Cc", "Cf", "Co", "Cs", "Zl", "Zp") and letter not in ALLOWED_CONTROLS
    return f"\\u{ord(letter):04x}" if is_hidden else letter


def may_remember(call: Mapping[str, Any]) -> bool:
    """May one person allow the tool for the whole session?"""
    return call["needs"] == 1 and not call.get("each")


def form_of(call: Json) -> Json:
    """The JSON Schema of the answer. The arguments' defaults are the proposed values."""
    choices = [{"const": APPROVE, "title": "Approve"}, {"const": REFUSE, "title": "Refuse"}]
    fields: Json = {
        ARGUMENTS: _arguments_form(call),
        DECISION: {"type": "string", "title": "Your decision", "oneOf": choices},
        REASON: {"type": "string", "title": "Reason", "description": "For the agent.", "maxLength": MAX_REASON},
    }
    if may_remember(call):
        fields[FOR_SESSION] = {"type": "boolean", "title": "Allow this tool in this session without asking again"}
    return {"type": "object", "properties": fields, "required": [DECISION]}


def _arguments_form(call: Json) -> Json:
    schema = without_references(call["schema"])
    properties = schema.get("properties")
    known = properties if isinstance(properties, dict) else {}
    given = call["arguments"]
    filled = {
        name: {**(known[name] if isinstance(known.get(name), dict) else {}), "default": value}
        for name, value in given.items()
    }
    rest = {name: one for name, one in known.items() if name not in given}
    return {**schema, "type": "object", "title": "Arguments", "properties": filled | rest}


def answer_in(message: Message) -> Json:
    """A person's answer: data, JSON, or words. Words that do not approve refuse, with themselves as the reason."""
    for value in message.data:
        if isinstance(value, dict) and DECISION in value:
            return value
    text = message.text.strip()
    try:
        if isinstance(value := json.loads(text), dict) and DECISION in value:
            return value
    except (ValueError, RecursionError):
        pass
    word = text.lower().rstrip(".!")
    if word in YES:
        return {DECISION: APPROVE}
    return {DECISION: REFUSE} | ({} if word in NO else {REASON: text})


def decided(calls: Iterable[Json]) -> dict[str, Json]:
    """The decisions by the calls' keys, for `Approvals.decided`."""
    return {one["key"]: decision_of(one) for one in calls if "approved" in one}


def decision_of(call: Mapping[str, Any]) -> Json:
    last = call["decisions"][-1] if call["decisions"] else {}
    is_edited = call["arguments"] != call["proposed"]
    return {
        "approved": call["approved"],
        "arguments": call["arguments"] if is_edited else None,
        "reason": last.get("reason", ""),
        "people": len({one["by"] for one in call["decisions"]}),
    }


def decide(calls: Sequence[Json], answer: Json, by: Any, name: str, at: str) -> tuple[list[Json], Json]:
    """The calls after somebody's answer about the first open one, and their decision.

    Whoever edits arguments is the first to approve the edited call. A refusal by one person is final.
    """
    open_call = next(one for one in calls if "approved" not in one)
    decision: Json = {"by": by, "name": name, "at": at, "approved": answer[DECISION] == APPROVE}
    if reason := str(answer.get(REASON) or "").strip()[:MAX_REASON]:
        decision["reason"] = reason
    call, earlier = dict(open_call), list(open_call["decisions"])
    arguments = answer.get(ARGUMENTS)
    if decision["approved"] and arguments is not None and arguments != call["arguments"]:
        call["arguments"], earlier = arguments, []
        decision["edited"] = True
    call["decisions"] = [*earlier, decision]
    if not decision["approved"]:
        call["approved"] = False
    elif len({one["by"] for one in call["decisions"]}) >= call["needs"]:
        call["approved"] = True
    return [call if one is open_call else one for one in calls], decision


def refuse_all(calls: Sequence[Json], reason: str) -> list[Json]:
    """Nobody was asked, for this reason."""
    said: Json = {"by": None, "name": "", "at": "", "approved": False, "reason": reason}
    return [one if "approved" in one else {**one, "approved": False, "decisions": [said]} for one in calls]


@dataclass
class Gate:
    """Decides for one use of a model whether its tool calls may run.

    Attributes:
        page: names the conversation with the model.
        known: the tools' kinds by name, and whether they declare that they need approval.
        decided: people's decisions in this task by the calls' keys.
        apps: pages for results that are not recorded yet, by the model's ids of the calls.
    """

    task: TaskContext
    page: str
    known: dict[str, tuple[ToolKind, bool]] = field(default_factory=dict)
    decided: dict[str, Json] = field(init=False)
    apps: dict[str, Json] = field(default_factory=dict)
    _policies: dict[str, Policy] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.decided = {**self.task.memory.get(KEPT, {}), **self.task.approvals.decided}

    def key(self, step: int, call_id: str) -> str:
        """A call's key. `step` counts the model's answers, because some endpoints number calls anew in each."""
        return hashlib.sha256(f"{self.page}:{step}:{call_id}".encode()).hexdigest()[:32]

    async def policy(self, name: str) -> Policy:
        if name not in self._policies:
            self._policies[name] = await self._look_up(name)
        return self._policies[name]

    async def _look_up(self, name: str) -> Policy:
        kind, declared = self.known[name]
        return await self.task.approvals.policy(kind, name, declared)

    async def open_decision(self, key: str, name: str) -> tuple[int, Json | None]:
        """How many people must still approve a call (0: none), and the decision about it if there is one."""
        needed = NEEDS.get(await self.policy(name), 0)
        decision = self.decided.get(key)
        if decision and (not decision["approved"] or decision["people"] >= needed):
            needed = 0
        return needed, decision

    def keep(self) -> None:
        """Keep the decisions for the next turn of the task."""
        if self.decided:
            self.task.memory[KEPT] = self.decided


def refusal(decision: Json) -> str:
    """What the model is told about a refused call."""
    return f"{REFUSED} The reason: {decision['reason']}" if decision["reason"] else REFUSED
