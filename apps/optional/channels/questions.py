"""Questions of agents in a chat: what is shown, what each button answers, and what became of it."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.urls import reverse

from agentkit.llm.approvals import APPROVE, DECISION, REFUSE, visible
from apps.engine.turns import payments
from apps.engine.turns.questions import asking_task, asks_approval, open_call
from apps.optional.channels.models import ChatPost
from apps.record.content import blobs, schema_forms
from apps.record.content.parts import words_of
from apps.record.events import JSON, EventType
from apps.record.models import Event, Task, TaskState

MOST_BUTTONS = 20
LONGEST_LABEL = 70  # characters: Slack takes 75
SHOWN = 200
WITHDRAWN = "This is no longer asked."
TOO_LONG = "It is too long to be shown here."


@dataclass(frozen=True, slots=True)
class Choice:
    """A button, and the data that it answers."""

    label: str
    answer: Any
    look: str = ""


@dataclass(frozen=True, slots=True)
class Question:
    """What a task asks. `task` and `asked`: who asks, which may be a task that it called, and the event."""

    task: Task
    asked: int
    text: str
    choices: Sequence[Choice] = ()


def session_address(session: uuid.UUID) -> str:
    return f"{settings.PUBLIC_BASE_URL}{reverse('web:session', args=[session])}"


def question_of(task: Task, words: str) -> Question | None:
    """What the task asks now; `words` are its own. None if it asks nothing."""
    if not TaskState(task.state).is_interrupted:
        return None
    slot = task.slot
    asking = asking_task(slot) or task
    if asks_approval(asking.slot):
        return Question(asking, asking.status_event, _call_in_words(asking), [
            Choice("Approve", {DECISION: APPROVE}, "primary"), Choice("Refuse", {DECISION: REFUSE}, "danger"),
        ])  # fmt: skip
    if slot and ("service" in slot or payments.asks_payment(slot)):
        return Question(task, task.status_event, f"{words}\n\nGo on at {_address_in(task)}")
    choices = list(_choices(slot)) if slot else []
    fields = schema_forms.fields_of(slot)
    if not choices and (len(fields) > 1 or any(one.kind == "file" for one in fields)):
        asked = "\n".join(f"- {one.label}" for one in fields)
        return Question(task, task.status_event, f"{words}\n\n{asked}\n\nAnswer at {session_address(task.context_id)}")
    return Question(task, task.status_event, words, choices)


def _address_in(task: Task) -> str:
    return str((task.status_message or {}).get("metadata", {}).get("url", "") or session_address(task.context_id))


def _choices(slot: JSON) -> Iterator[Choice]:
    """Of a question with one field that has options."""
    fields = schema_forms.fields_of(slot)
    if len(fields) != 1 or fields[0].kind not in ("choice", "boolean") or len(fields[0].options) > MOST_BUTTONS:
        return
    for value, label in fields[0].options:
        answer = schema_forms.answer_data(slot, fields, {fields[0].html_name: [value]})
        yield Choice(str(visible(label))[:LONGEST_LABEL], answer)


def _call_in_words(task: Task) -> str:
    """All of what the tool would do: nobody approves what they have not seen."""
    call = open_call((task.slot or {})["value"]["calls"])
    title = visible(call.get("title") or schema_forms.label_of(call["tool"], {}))
    arguments = json.dumps(visible(call["arguments"]), ensure_ascii=False, indent=2)
    people = f"{call['needs']} people must approve it; {len(call['decisions'])} did." if call["needs"] > 1 else ""
    said = [f"**May {task.agent.name} use “{title}”?**", visible(call["why"]), visible(call.get("effect", "")), people]
    return "\n\n".join([*filter(None, said), f"```json\n{arguments.replace('```', '` ` `')}\n```"])


def word_of(post: ChatPost, choice: JSON) -> str:
    """What a reply must say to decide about a tool call, so that no other words do; "" for another choice."""
    answer = choice["answer"]
    is_decision = isinstance(answer, dict) and DECISION in answer
    return f"{choice['label']} {post.pk}".casefold() if is_decision else ""


def read_answer(post: ChatPost, text: str) -> Any:
    """The data of the option that a text names, by its label or its number; None if it names none.

    A decision about a tool call has a word of its own, which is the text's first line.
    """
    said = text.strip().casefold().rstrip(".!)")
    first = said.partition("\n")[0].strip().rstrip(".!)")
    for number, one in enumerate(post.choices, 1):
        word = word_of(post, one)
        if first == word if word else said in (str(number), str(one["label"]).casefold()):
            return one["answer"]
    return None


def how_to_decide(post: ChatPost, *, has_buttons: bool) -> str:
    """What to tell a person who wrote something else while a tool call waits for a decision."""
    if has_buttons:
        return "The agent waits for your decision. Press a button of its question; words decide nothing."
    words = " or ".join(f"“{word_of(post, one)}”" for one in post.choices)
    return f"The agent waits for your decision. Begin your reply with {words}; other words decide nothing."


def outcome_of(post: ChatPost) -> str:
    """What became of a question, in a line; "" while it is asked."""
    task = post.find_asking()
    if task is None:
        return WITHDRAWN
    if task.status_event == post.asked:
        return ""
    kinds = (EventType.USER_MESSAGE, EventType.AGENT_STATUS)
    for event in Event.objects.filter(task=post.task, index__gt=post.asked, type__in=kinds).order_by("index"):
        if approval := event.payload.get("approval"):
            return f"{'✅ Approved' if approval['approved'] else '❌ Refused'} by {visible(approval['name'])}"
        if event.type == EventType.USER_MESSAGE and (said := _said(post, event.payload["message"]["parts"])):
            return f"✅ {said}"
        if event.settles:
            break
    return WITHDRAWN


def _said(post: ChatPost, parts: list[JSON]) -> str:
    """The option that a message chose, or its words."""
    shown = [blobs.inline(part) for part in parts]
    data = [part["data"] for part in shown if "data" in part]
    labels = [one["label"] for one in post.choices if one["answer"] in data]
    if any(isinstance(one, dict) and DECISION in one for one in data):
        return ""  # the event after it says who decided
    return str(labels[0] if labels else words_of(shown)[:SHOWN] or "Answered")
