"""How a session stands when its page begins: what its head says, and what its composer does.

It is read from the entries that the page begins with, as its script reads them (`session/head.js` goes on).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from apps.conversations.events import EventType
from apps.conversations.lifecycle import INTERRUPTED, TERMINAL

JSON = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Standing:
    """Which tasks count, of those that are not over: {state, agent, wantsCredential, …}."""

    agent: str  # the name of whom the session is with
    waiting: JSON | None  # the one that waits for the person
    busy: JSON | None  # the one that is worked at
    addressed: JSON | None  # the one that what is written next belongs to

    @property
    def look(self) -> str:
        return "waiting" if self.waiting else "working" if self.busy else ""

    @property
    def word(self) -> str:
        return {"waiting": "Waiting for you", "working": "Working"}.get(self.look, "")

    @property
    def is_busy(self) -> bool:
        """Whether what is sent waits for the work that goes on."""
        return self.addressed is not None and self.addressed is self.busy

    @property
    def is_shut(self) -> bool:
        """Whether a credential is asked for, which must not be written into the conversation."""
        return self._answers is not None and bool(self._answers["wantsCredential"])

    @property
    def placeholder(self) -> str:
        if self.is_shut:
            return "Use the button above"
        asks = self._answers
        return f"Answer {asks['agent']['name']}…" if asks else f"Message {self.agent}…"

    @property
    def _answers(self) -> JSON | None:
        """The task that is answered by what is written next."""
        return self.waiting if self.addressed is self.waiting else None


def standing_of(beginning: JSON) -> Standing:
    """How the session stands that a page begins with. No query."""
    agent: JSON = beginning["agent"]
    tasks = _unfinished(beginning["entries"], agent)
    waiting = [task for task in tasks if task["state"] in INTERRUPTED]
    busy = [task for task in tasks if task["state"] not in INTERRUPTED]
    here = [task for task in tasks if task["of"] in ("", agent["slug"])]
    asked = [task for task in here if task["state"] in INTERRUPTED]
    return Standing(agent["name"], _newest(waiting), _newest(busy), _newest(asked) or _newest(here))


def _newest(tasks: list[JSON]) -> JSON | None:
    return tasks[-1] if tasks else None


def _unfinished(entries: list[JSON], agent: JSON) -> list[JSON]:
    """The tasks that are not over, oldest first; `of` is the slug of whom it was given to, where that is known."""
    tasks: dict[str, JSON] = {}
    for entry in entries:
        key, author = entry["taskId"], entry.get("agent")
        match entry["type"]:
            case EventType.USER_MESSAGE if entry["opensTask"]:
                given = author or agent
                tasks[key] = {"state": "submitted", "agent": given, "of": given["slug"], "wantsCredential": False}
            case EventType.AGENT_STATUS if entry["state"] in TERMINAL:
                tasks.pop(key, None)
            case EventType.AGENT_STATUS:
                task = tasks.setdefault(key, {"agent": agent, "of": ""})
                task |= {"state": entry["state"], "wantsCredential": entry.get("wantsCredential", False)}
            case EventType.FORK:
                for left in entry["left"]:
                    tasks.pop(left, None)
        if author and key in tasks and entry["type"] != EventType.USER_MESSAGE:
            tasks[key]["agent"] = author
    return list(tasks.values())
