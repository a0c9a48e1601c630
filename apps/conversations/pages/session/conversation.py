"""What a conversation shows: its items, made of the entries of its log.

This is the only place where entries become items. The page, earlier turns, the live connection and the replay all get
patches, which the browser only applies (`static/js/session/state.js`): `put` has new items, `set` changed fields by key
(`more` goes on with the text), `drop` keys. `title`, `agent` and `open` (the unfinished tasks) come when they change,
`ratings` by task. `said`, `files` and `isForked` tell what has happened, and are no part of the state.

Every item has a `key`, a `place` (its order), and a `version`: the index of the event that changed it last. Steps and
calls have `of`: the key of the item that they belong to. A `file` is being made, and is listed beside the conversation.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from apps.conversations.pages.session.messages import size_text
from apps.conversations.pages.session.texts import LONGEST_OPEN
from apps.record.events import JSON, EventType
from apps.record.models import INTERRUPTED_STATES, UNFINISHED_STATES, TaskState

ORDER = 1000  # places of one event
LONGEST_SO_FAR = 20_000  # characters of a file in progress: the newest
ENDED = {state.value for state in TaskState if state not in UNFINISHED_STATES}
WAITS = {state.value for state in INTERRUPTED_STATES}
ANNOUNCED = {
    TaskState.CANCELED: "Stopped.",
    TaskState.FAILED: "Failed.",
    TaskState.REJECTED: "Not accepted:",
    TaskState.INPUT_REQUIRED: "asks:",
    TaskState.AUTH_REQUIRED: "asks:",
}
"""What a screen reader says of a task, after the agent's name; the answer of a completed one speaks for itself."""


@dataclass(slots=True)
class _Task:
    """A task, with the keys of its open work, of its texts and files in progress, and of what it asks."""

    agent: JSON | None = None  # a fallback, once that has taken over
    slug: str = ""  # of the agent that got the task
    state: str = ""
    used: str | None = None
    work: str = ""
    works: int = 0
    steps: list[str] = field(default_factory=list)  # of the open work
    streams: list[str] = field(default_factory=list)  # texts since the work began
    streaming: list[str] = field(default_factory=list)
    making: dict[str, str] = field(default_factory=dict)  # by artifact id
    queued: list[str] = field(default_factory=list)
    read: list[str] = field(default_factory=list)  # messages that the open work has read
    asked: str = ""


class Conversation:
    """Takes entries in order, and tells what has changed since the last patch."""

    def __init__(self, agent: JSON) -> None:
        self.items: dict[str, JSON] = {}
        self._agent = agent
        self._tasks: dict[str, _Task] = {}
        self._before: dict[str, JSON | None] = {}  # items that changed, as they were
        self._facts: JSON = {}  # for the next patch
        self._open: list[JSON] = []
        self._index = self._version = self._places = 0

    def take(self, entry: JSON) -> None:
        self._index, self._places = entry["index"], 0
        self._version = entry.get("until", self._index)
        self._note_agent(entry)
        if fold := _FOLDS.get(entry["type"]):
            fold(self, entry)

    def patch(self) -> JSON:
        """What has changed since the last patch."""
        found: JSON = {"index": self._index, **self._facts}
        put, changed, dropped = [], {}, []
        for key, before in self._before.items():
            now = self.items.get(key)
            if now is None:
                dropped += [key] if before else []
            elif before is None or before["place"] != now["place"]:
                put.append(now)
            else:
                changed[key] = _changes(before, now)
        for name, value in (("put", sorted(put, key=_place)), ("set", changed), ("drop", dropped)):
            if value:
                found[name] = value
        if (unfinished := self._unfinished()) != self._open:
            found["open"] = self._open = unfinished
        self._before, self._facts = {}, {}
        return found

    def forget_ended(self) -> None:
        """Keep only what later entries can change."""
        if not any(task.state in ENDED for task in self._tasks.values()):
            return
        self._tasks = {key: task for key, task in self._tasks.items() if task.state not in ENDED}
        self.items = {key: item for key, item in self.items.items() if item.get("taskId") in self._tasks}

    def _unfinished(self) -> list[JSON]:
        return [
            {"id": key, "agent": task.slug, "waits": task.state in WAITS}
            for key, task in self._tasks.items()
            if task.state and task.state not in ENDED
        ]

    # Items

    def _put(self, key: str, item: JSON, place: int | None = None) -> None:
        """A new item, in the order of the log; or another one in the place of the one that has the key."""
        known = self.items.get(key)
        self._before.setdefault(key, known)
        if place is None:
            place = known["place"] if known else self._next_place()
        self.items[key] = _without_none({**item, "key": key, "place": place, "version": self._version})

    def _next_place(self) -> int:
        self._places += 1
        return self._index * ORDER + min(self._places, ORDER - 1)

    def _change(self, key: str, **changes: Any) -> None:
        if known := self.items.get(key):
            self._before.setdefault(key, known)
            version = max(known["version"], self._version)
            self.items[key] = _without_none({**known, **changes, "version": version})

    def _drop(self, key: str) -> None:
        if key in self.items:
            self._before.setdefault(key, self.items[key])
            del self.items[key]

    # Agents and tasks

    def _task(self, key: str | None) -> _Task:
        return self._tasks.setdefault(key or "", _Task())

    def _note_agent(self, entry: JSON) -> None:
        """A fallback has the task from there on, if the agent could not be reached."""
        takes_over = entry["type"] == EventType.AGENT_START or "progress" in entry
        if takes_over and "agent" in entry and entry["taskId"] in self._tasks:
            self._task(entry["taskId"]).agent = entry["agent"]

    def _writer(self, entry: JSON) -> JSON:
        agent: JSON = entry.get("agent") or self._task(entry["taskId"]).agent or self._agent
        return agent

    # Messages

    def user_message(self, entry: JSON) -> None:
        message, task_id = entry["message"], entry["taskId"]
        key = f"message:{message['messageId']}"
        about = _picked(entry, "by", "at", "taskId", "index")
        opens, task = entry["opensTask"], self._task(task_id)
        is_queued = task_id is not None and not opens and task.state not in WAITS
        self._drop(key)
        self._put(key, {"kind": "message", "role": "user", **about, **message, "queued": is_queued or None})
        if is_queued:
            task.queued.append(key)
        if opens:
            task.state = TaskState.SUBMITTED
            task.agent, task.slug = entry.get("agent", self._agent), entry.get("agent", {}).get("slug", "")
            self._open_work(entry)

    def agent_message(self, entry: JSON, **more: Any) -> None:
        message = entry["message"]
        streamed = self._streamed_already(entry)
        key = streamed or _message(entry)
        about = _picked(entry, "at", "taskId", "index")
        item = {"kind": "message", "role": "agent", "agent": self._writer(entry), **about, **message, **more}
        if "textAt" in message:
            item["text"] = ""  # the HTML says the same
        if key in self.items:
            self._change(key, **item, streaming=False)
        else:
            self._put(key, item)
        if entry["type"] == EventType.AGENT_MESSAGE and not streamed:
            self._say(f"{self._writer(entry)['name']}:", message["text"], key)

    def _streamed_already(self, entry: JSON) -> str:
        """The key of the stream that a message repeats: the message replaces it."""
        said = entry["message"]["text"].strip()
        streams = reversed(self._task(entry["taskId"]).streams)
        return next((key for key in streams if self.items[key]["text"].strip() == said), "")

    def _say(self, words: str, text: str = "", key: str = "") -> None:
        """For a screen reader: words, and then the text of an item, if it has any."""
        if text.strip() or not key:
            self._facts.setdefault("said", []).append([words, key])

    # Work

    def _open_work(self, entry: JSON) -> None:
        task = self._task(entry["taskId"])
        task.works += 1
        task.work, task.streams, task.steps = f"work:{entry['taskId']}:{task.works}", [], []
        about = {"taskId": entry["taskId"], "began": entry["at"], "ended": None, "attempt": 1}
        self._put(task.work, {"kind": "work", **about})

    def _close_work(self, entry: JSON, outcome: str) -> None:
        task = self._task(entry["taskId"])
        self._change(task.work, ended=entry["at"], outcome=outcome, making=None)
        task.work = ""

    def agent_start(self, entry: JSON) -> None:
        task = self._task(entry["taskId"])
        began = f"message:{entry['messageId']}"
        if self.items.get(began, {}).get("queued") or "readAt" in self.items.get(began, {}):
            self._change(began, queued=False, readAt=None)
        known = self.items.get(task.work, {})
        if known.get("turn") not in (None, entry["turn"]):
            self._close_work(entry, TaskState.WORKING)
        if not task.work:
            self._open_work(entry)
        started = _picked(entry, "turn", "attempt")
        self._change(task.work, **started, started=entry["at"], progress=None, making=None)
        if entry.get("again") or entry["attempt"] > 1:
            self._drop_unfinished(entry["taskId"])
            self._give_back_read(task)
        task.read = []

    def agent_read(self, entry: JSON) -> None:
        """Messages that the running turn has read, at its step."""
        task = self._task(entry["taskId"])
        for message_id in entry["messages"]:
            key = f"message:{message_id}"
            self._change(key, queued=False, readAt=len(task.steps) + 1)
            task.read.append(key)

    def _give_back_read(self, task: _Task) -> None:
        """The turn was cut off: what it had read waits again."""
        for key in task.read:
            self._change(key, queued=True, readAt=None)
        task.read = []

    def stop_requested(self, entry: JSON) -> None:
        self._change(self._task(entry["taskId"]).work, stops=True)
        self._say("Stops after this step.")

    def guardrail(self, entry: JSON) -> None:
        """One quiet line, where it happened."""
        self._put(f"guard:{entry['index']}", {"kind": "guard", **_picked(entry, "text", "at", "index")})
        self._say(f"{entry['text']}.")

    def agent_status(self, entry: JSON) -> None:
        task, state = self._task(entry["taskId"]), entry["state"]
        task.state = state
        if "progress" in entry:
            return self._note_progress(entry)
        if "decided" in entry:
            self._change(task.asked, html=entry["decided"], isDecided=True)
        if "receipt" in entry and task.asked in self.items:
            self._change(task.asked, html=self.items[task.asked]["html"] + entry["receipt"])
        if state not in WAITS:
            self._settle_question(task)
        if state == TaskState.WORKING:
            return None if task.work else self._open_work(entry)
        self._close_work(entry, state)
        self._announce(entry)
        if "message" in entry:
            outcome = {"outcome": state, "used": task.used} if state in ENDED else {}
            self.agent_message(entry, **outcome)
        if state in WAITS and "message" in entry:
            self._ask(task, entry)
        if state in ENDED:
            self._end(entry)
        return None

    def _announce(self, entry: JSON) -> None:
        """How a task ended or what it asks; not of tasks that a fork left."""
        if entry["type"] != EventType.AGENT_STATUS:
            return
        word, name = ANNOUNCED.get(entry["state"], ""), self._writer(entry)["name"]
        text: str = entry["message"]["text"] if "message" in entry else ""
        is_new = text.strip() and not self._streamed_already(entry)
        if word:
            self._say(f"{name} {word}", text, _message(entry) if is_new else "")
        elif is_new:
            self._say(f"{name}:", text, _message(entry))

    def _end(self, entry: JSON) -> None:
        """What was queued counts only if the task completed."""
        task, outcome = self._task(entry["taskId"]), entry["state"]
        for key in task.streaming:
            self._change(key, streaming=False)
        for key in task.queued:
            if self.items.get(key, {}).get("queued"):
                self._change(key, queued=False, unread=outcome != TaskState.COMPLETED)
        task.streaming, task.queued = [], []
        if outcome != TaskState.COMPLETED:
            self._drop_making(task)

    # Questions

    def _ask(self, task: _Task, entry: JSON) -> None:
        message_id = entry["message"]["messageId"]
        [*_, task.asked] = [key for key, item in self.items.items() if item.get("messageId") == message_id]
        self._change(task.asked, asks=True, form=entry.get("form"))

    def _settle_question(self, task: _Task) -> None:
        if task.asked:
            self._change(task.asked, asks=False, form=None)
            task.asked = ""

    # Steps

    def _note_progress(self, entry: JSON) -> None:
        task, told = self._task(entry["taskId"]), entry["progress"]
        last = self.items.get(task.steps[-1], {}) if task.steps else {}
        if (last.get("what"), last.get("text")) != ("progress", told["text"]):
            self._add_step(entry, "progress", text=told["text"], detail=told.get("detail"))
        self._change(task.work, progress=told)

    def _add_step(self, entry: JSON, what: str, **about: Any) -> None:
        task = self._task(entry["taskId"])
        if not task.work:
            return
        key = f"step:{entry['index']}"
        task.steps.append(key)
        step = {"kind": "step", "what": what, "of": task.work, "taskId": entry["taskId"], "at": entry["at"], **about}
        self._put(key, step)

    def agent_thought(self, entry: JSON) -> None:
        self._add_step(entry, "thought", text=entry["text"])

    def agent_tool_call(self, entry: JSON) -> None:
        """A page of a tool server calls its tools beside the work of a task."""
        if "ofApp" not in entry:
            return self._add_step(entry, "tool", **_picked(entry, "callId", "name", "value"))
        call = {"kind": "call", "of": f"app:{entry['ofApp']}", "taskId": entry["taskId"], "name": entry["name"]}
        return self._put(f"call:{entry['index']}", call)

    def agent_tool_result(self, entry: JSON) -> None:
        task = self._task(entry["taskId"])
        if app := entry.get("app"):
            about = _picked(entry, "taskId", "index", "at")
            self._put(f"app:{entry['index']}", {**app, "kind": "app", **about, "ofWork": task.work})
        for key in task.steps:
            if self.items.get(key, {}).get("callId") == entry["callId"]:
                self._change(key, result=entry["value"], isError=entry["isError"])

    # Streams

    def agent_token(self, entry: JSON) -> None:
        key = _stream(entry)
        if known := self.items.get(key):
            self._change(key, text=known["text"] + entry["text"])
        else:
            self._open_stream(entry)

    def _open_stream(self, entry: JSON, first: int | None = None) -> None:
        key, task = _stream(entry), self._task(entry["taskId"])
        about = _picked(entry, "at", "taskId", "index", "artifactId", "text")
        message = {"kind": "message", "role": "agent", "agent": self._writer({"taskId": entry["taskId"]}), **about}
        self._put(key, {**message, "streaming": True}, None if first is None else first * ORDER + 1)
        task.streams.append(key)
        task.streaming.append(key)

    def agent_token_end(self, entry: JSON) -> None:
        key, task = _stream(entry), self._task(entry["taskId"])
        if key not in self.items:
            begun = {"at": entry["began"], "index": entry["begins"]}
            self._open_stream({**entry, **begun}, entry["begins"])
        task.streaming = [one for one in task.streaming if one != key]
        self._change(key, text=entry["text"], html=entry["html"], streaming=False)
        self._say(f"{self._writer(entry)['name']}:", entry["text"], key)

    # Artifacts: in progress, then delivered, unfinished or void. The conversation shows texts.

    def artifact_update(self, entry: JSON) -> None:
        task, task_id, artifact_id = self._task(entry["taskId"]), entry["taskId"], entry["artifactId"]
        if entry["begins"]:
            self._drop(task.making.pop(artifact_id, ""))
        before = self.items.get(task.making.get(artifact_id, ""), {})
        is_text = entry["isText"] and before.get("isText", True)
        size = before.get("size", 0) + entry["size"]
        has_name = before.get("hasName") or entry["hasName"]
        artifact = {
            "taskId": task_id,
            "artifactId": artifact_id,
            "name": before.get("name") or entry["name"] or artifact_id,
            "size": size,
            "about": size_text(size),
            "text": (before.get("text", "") + entry["text"])[-LONGEST_SO_FAR:],
            "isText": is_text,
            "hasName": has_name,
            "isListed": has_name or not is_text or size > LONGEST_OPEN,
            "isMaking": True,
        }
        kind = "made" if is_text else "file"
        key, place = f"{kind}:{task_id}/{artifact_id}", before.get("place")
        if before and before["key"] != key:
            self._drop(before["key"])
        self._put(key, {**artifact, "kind": kind}, place)
        task.making[artifact_id] = key
        self._note_making(task, artifact, begins=not before)

    def _note_making(self, task: _Task, artifact: JSON, *, begins: bool) -> None:
        """The work tells of the artifact that began last; the size of a text is beside it in the conversation."""
        making = {"name": artifact["name"], "size": "" if artifact["isText"] else artifact["about"]}
        known = self.items.get(task.work, {}).get("making")
        if begins or (known and known["name"] == making["name"] and known != making):
            self._version = self._index if artifact["isText"] else self._version
            self._change(task.work, making=making)

    def _settle(self, entry: JSON) -> None:
        """Artifacts that an entry delivers, or leaves unfinished."""
        for artifact in entry["artifacts"]:
            task_id, artifact_id = artifact["taskId"], artifact["artifactId"]
            task, shown = self._task(task_id), {**artifact, "index": entry["index"]}
            first, began = shown.pop("firstEvent"), shown.pop("began")
            if artifact["kind"] == "answer":
                self._leave_stream({**shown, "at": began}, first)
            elif artifact["kind"] != "text" or _stream(artifact) in self.items:
                self._drop(_made(artifact))
            else:
                shown |= {"kind": "made", "isMaking": False, "isFolded": not artifact["html"]}
                self._put(_made(artifact), shown, first * ORDER + 1)
            if artifact["isUnfinished"]:
                self._forget(task, task_id, [artifact_id], is_shown=True)
            self._announce_artifact(artifact)
        if entry["artifacts"]:
            self._facts.setdefault("files", []).extend({one["taskId"] for one in entry["artifacts"]})

    def _announce_artifact(self, artifact: JSON) -> None:
        mark = "Unfinished: " if artifact["isUnfinished"] else ""
        if artifact["html"]:
            key = _made(artifact) if artifact["kind"] == "text" else _stream(artifact)
            self._say(f"{mark}{artifact['name']}:", artifact["html"], key)
        elif artifact["isListed"]:
            self._say(f"{mark or 'File: '}{artifact['name']}.")

    def _leave_stream(self, entry: JSON, first: int) -> None:
        key = _stream(entry)
        if key not in self.items:
            self._open_stream({**entry, "index": first}, first)
        self._change(key, text=entry["text"], html=entry["html"], streaming=False, unfinished=True)

    def agent_failed(self, entry: JSON) -> None:
        """What failed or was stopped: other artifacts than those of the entry are void."""
        self._settle(entry)
        if entry.get("isLost"):
            self._give_back_read(self._task(entry["taskId"]))
        left = {one["artifactId"] for one in entry["artifacts"]}
        void = [one for one in entry["discarded"] if one not in left]
        self._forget(self._task(entry["taskId"]), entry["taskId"], void)

    def agent_complete(self, entry: JSON) -> None:
        task = self._task(entry["taskId"])
        self._settle(entry)
        self._drop_making(task)
        task.used = entry.get("used")  # the message comes next

    def _forget(self, task: _Task, task_id: str, artifact_ids: Iterable[str], *, is_shown: bool = False) -> None:
        """They are no longer in progress; unless `is_shown`, they are void."""
        for artifact_id in artifact_ids:
            about = {"taskId": task_id, "artifactId": artifact_id}
            stream, making = _stream(about), task.making.pop(artifact_id, "")
            if not is_shown:
                self._drop(stream)
                self._drop(_made(about))
            if not is_shown or making.startswith("file:"):
                self._drop(making)
            task.streams = [key for key in task.streams if key != stream]
            task.streaming = [key for key in task.streaming if key != stream]

    def _drop_unfinished(self, task_id: str) -> None:
        """An attempt that was interrupted, or given back, begins again."""
        task = self._task(task_id)
        apps = [key for key, item in self.items.items() if task.work and item.get("ofWork") == task.work]
        for key in [*task.steps, *apps, *task.streaming]:
            self._drop(key)
        self._drop_making(task)
        task.streams = [key for key in task.streams if key not in task.streaming]
        task.steps, task.streaming = [], []

    def _drop_making(self, task: _Task) -> None:
        """Also drops their texts that nothing has settled."""
        for key in task.making.values():
            if self.items.get(key, {}).get("isMaking"):
                self._drop(key)
        task.making = {}

    # The session

    def session_renamed(self, entry: JSON) -> None:
        self._facts["title"] = entry["title"]

    def agent_switched(self, entry: JSON) -> None:
        self._agent = self._facts["agent"] = entry["agent"]
        if not entry.get("isKept"):
            about = _picked(entry, "agent", "at", "index")
            self._put(f"switch:{entry['index']}", {"kind": "switch", **about})
            self._say(f"Continued with {entry['agent']['name']}.")

    def feedback(self, entry: JSON) -> None:
        self._facts.setdefault("ratings", {})[entry["taskId"]] = entry["rating"]

    def fork(self, entry: JSON) -> None:
        """It ends everything that was unfinished at its beginning."""
        self._settle(entry)
        about = {"type": EventType.FORK, "at": entry["leftAt"], "state": TaskState.CANCELED.value}
        for task_id in entry["left"]:
            self.agent_status({**about, "index": entry["index"], "taskId": task_id})

    def was_forked(self, entry: JSON) -> None:
        self._facts["isForked"] = True


_FOLDS = {
    EventType.USER_MESSAGE: Conversation.user_message,
    EventType.AGENT_MESSAGE: Conversation.agent_message,
    EventType.AGENT_START: Conversation.agent_start,
    EventType.AGENT_READ: Conversation.agent_read,
    EventType.STOP_REQUESTED: Conversation.stop_requested,
    EventType.GUARDRAIL: Conversation.guardrail,
    EventType.AGENT_STATUS: Conversation.agent_status,
    EventType.AGENT_THOUGHT: Conversation.agent_thought,
    EventType.AGENT_TOOL_CALL: Conversation.agent_tool_call,
    EventType.AGENT_TOOL_RESULT: Conversation.agent_tool_result,
    EventType.AGENT_TOKEN_START: Conversation.agent_token,
    EventType.AGENT_TOKEN: Conversation.agent_token,
    EventType.AGENT_TOKEN_END: Conversation.agent_token_end,
    EventType.ARTIFACT_UPDATE: Conversation.artifact_update,
    EventType.AGENT_COMPLETE: Conversation.agent_complete,
    EventType.AGENT_FAILED: Conversation.agent_failed,
    EventType.AGENT_CANCELLED: Conversation.agent_failed,
    EventType.SESSION_RENAMED: Conversation.session_renamed,
    EventType.AGENT_SWITCHED: Conversation.agent_switched,
    EventType.FEEDBACK: Conversation.feedback,
    EventType.FORK: Conversation.fork,
    EventType.EDIT: Conversation.was_forked,
    EventType.SESSION_FORKED: Conversation.was_forked,
}


def _message(entry: JSON) -> str:
    """The key of its message. A completion without an answer has no id."""
    return f"message:{entry['message']['messageId'] or entry['index']}"


def _stream(artifact: JSON) -> str:
    return f"stream:{artifact['taskId']}/{artifact['artifactId']}"


def _made(artifact: JSON) -> str:
    return f"made:{artifact['taskId']}/{artifact['artifactId']}"


def _picked(entry: JSON, *names: str) -> JSON:
    return {name: entry[name] for name in names if name in entry}


def _without_none(item: JSON) -> JSON:
    return {name: value for name, value in item.items() if value is not None}


def _place(item: JSON) -> int:
    place: int = item["place"]
    return place


def _changes(before: JSON, now: JSON) -> JSON:
    changed: JSON = {name: now.get(name) for name in before.keys() | now.keys() if before.get(name) != now.get(name)}
    if (said := before.get("text")) and changed.get("text") and changed["text"].startswith(said):
        changed["more"] = changed.pop("text")[len(said) :]
    return changed
