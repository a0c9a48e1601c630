"""A conversation with an agent: messages, the work on them, questions and answers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from parley.terminal.client import JSON, Failure, Parley, path_of
from parley.terminal.questions import Form, attach, joined, read_message
from parley.terminal.screen import Screen

CONFLICT, INVALID, NOT_FOUND = 409, 422, 404
WAITING = ("input-required", "auth-required")
ENDED = ("completed", "failed", "rejected", "canceled")
FAILED, ASKS, INTERRUPTED = 1, 3, 130
"""Exit codes. 130 is what shells report for a program ended by Ctrl-C."""
CODES = {"completed": 0, "canceled": INTERRUPTED, "input-required": ASKS, "auth-required": ASKS}
HELP = "A line is a message. /file PATH attaches a file to the next one; /quit, Ctrl-D or Ctrl-C leaves."


class Work:
    """Follows tasks until they end, and asks their questions. `watch` sees each event, and None now and then."""

    def __init__(self, parley: Parley, screen: Screen, watch: Callable[[JSON | None], None] = lambda _: None) -> None:
        self.parley, self.screen, self.watch = parley, screen, watch
        self._form = Form(parley, screen)

    def settle(self, session: str, task: str, since: int) -> JSON:
        """The task once it has ended, or waits for an answer that nobody gives here."""
        return self._resume(self._follow(session, task, since))

    def join(self, session: str, task: str) -> JSON:
        """Like `settle`, from how things are now, for a task whose beginning was not followed here."""
        now = self.parley.get(path_of("sessions", session), include="tasks")
        told: JSON = next((one for one in now["tasks"] if one["id"] == task), {}) or self._task(task)
        if not _is_settled(told["state"], told["question"]):
            return self.settle(session, task, now["session"]["revision"])
        self.screen.deliver_parts(self.parley, (told["status"]["message"] or {}).get("parts", []))
        return self._resume(told)

    def _resume(self, task: JSON) -> JSON:
        while task["state"] in WAITING:
            sent = None if self.screen.as_json else self._answer(task)
            if sent is None:
                self._point_to(task)
                return task
            task = self._follow(task["sessionId"], task["id"], sent["message"]["index"])
        self._deliver(task)
        return task

    def _follow(self, session: str, task: str, since: int) -> JSON:
        """Ctrl-C cancels the task; a second one leaves."""
        is_canceling = False
        while True:
            try:
                for event in self.parley.follow(session, since, lambda: self.screen.note("Connecting again…")):
                    since = event["index"] if event else since
                    self.watch(event)
                    if event and event["taskId"] == task:
                        self.screen.show(event)
                    if event and event["taskId"] == task and _settles(event):
                        return self._task(task)
            except KeyboardInterrupt:
                if is_canceling:
                    raise
                is_canceling = True
                self.screen.note("Canceling… Ctrl-C again leaves.")
                self.cancel(task)

    def _task(self, task: str) -> JSON:
        told: JSON = self.parley.get(path_of("tasks", task))
        return told

    def cancel(self, task: str) -> None:
        """A task that has ended stays as it is."""
        try:
            self.parley.post(path_of("tasks", task) + "/cancel")
        except Failure as failure:
            if failure.status != CONFLICT:
                raise

    def _answer(self, task: JSON) -> JSON | None:
        """None if nobody answers."""
        while True:
            try:
                given = self._form.answer(task.get("question") or {})
            except EOFError:
                return None
            except KeyboardInterrupt:
                self.screen.note("")
                return None
            try:
                sent: JSON = self.parley.post(path_of("tasks", task["id"]) + "/answer", given)
                return sent
            except Failure as failure:
                if failure.status != INVALID:
                    raise
                self.screen.note(str(failure))

    def _deliver(self, task: JSON) -> None:
        if self.screen.as_json and self.screen.save is None:
            artifacts = []
        else:
            artifacts = self.parley.items("/artifacts", 1000, session=task["sessionId"], task=task["id"])
        if task["state"] == "completed":  # its words were shown, but files may be beside them
            self.screen.deliver_parts(self.parley, (task["status"]["message"] or {}).get("parts", []))
        self.screen.deliver(self.parley, artifacts)
        if task["state"] != "completed" and not self.screen.as_json:
            self.screen.note(f"The task ended as {task['state']}.")
        self.screen.record({"type": "task", "task": task})

    def _point_to(self, task: JSON) -> None:
        self.screen.record({"type": "task", "task": task})
        if not self.screen.as_json:
            way = f"parley chat {task['agent']} --session {task['sessionId']}"
            self.screen.note(f"The agent waits for an answer. Give it with: {way}")


def _settles(event: JSON) -> bool:
    payload = event["payload"]
    is_change = event["type"] == "agent_status" and not payload.get("progress")
    return is_change and _is_settled(payload["state"], payload.get("slot"))


def _is_settled(state: str, question: JSON | None) -> bool:
    """Has the task ended, or does it ask? A credential comes by a link: then the task continues by itself."""
    return state in ENDED or (state in WAITING and not (question or {}).get("service"))


class Chat:
    """A session with an agent; `session` continues one."""

    def __init__(self, parley: Parley, screen: Screen, slug: str, session: str = "") -> None:
        self.parley, self.screen, self.slug, self.session = parley, screen, slug, session
        self._work = Work(parley, screen)

    def open(self) -> None:
        """Find the agent and the session. Raises Failure."""
        self.agent = find(self.parley, "agents", self.slug, "agent", "parley agents")
        if self.session:
            told = find(self.parley, "sessions", self.session, "session", "parley tasks", include="tasks")["session"]
            if told["metadata"]["agent"] != self.slug:
                raise Failure(f"This session is with {told['metadata']['agent']}. Give that name instead.")

    def say(self, text: str, parts: list[JSON]) -> str:
        """Send a message, or the answer to the task that waits in the session. Returns the state that it leads to."""
        self.screen.begin()
        content: JSON = ({"text": text} if text else {}) | ({"parts": parts} if parts else {})
        if not self.session:
            return self._settle(self.parley.post("/sessions", {"agent": self.slug, "message": content}))
        if asking := self._asking():
            content["task"] = asking["id"]
        return self._settle(self.parley.post(path_of("sessions", self.session) + "/messages", content))

    def _asking(self) -> JSON | None:
        """The task that waits in the session."""
        found = self.parley.get("/tasks", session=self.session, state=list(WAITING), limit=1)["items"]
        return found[0] if found else None

    def _settle(self, sent: JSON) -> str:
        self.session = sent["session"]["id"]
        self.screen.record({"type": "session", "id": self.session})
        if sent["task"] is None:
            self.screen.record({"type": "answer", "message": sent["answer"]})
            self.screen.deliver_parts(self.parley, (sent["answer"] or {}).get("parts", []))
            return "completed"
        told = self._work.settle(self.session, sent["task"]["id"], sent["message"]["index"])
        return str(told["state"])

    def talk(self, parts: list[JSON]) -> int:
        """The loop, until the person leaves. Returns the exit code."""
        self.screen.note(f"{self.agent['name']}. {HELP}")
        asking = self._asking() if self.session else None
        if asking and self._work.join(self.session, asking["id"])["state"] in WAITING:
            return ASKS
        while True:
            try:
                text, more = read_message(self.parley, self.screen)
            except (EOFError, KeyboardInterrupt):
                self.screen.note("")
                text, more = "/quit", []
            if text == "/quit":
                if self.session:
                    self.screen.note(f"Continue with: parley chat {self.slug} --session {self.session}")
                return 0
            parts += more
            if not (text or parts):
                continue
            try:
                if self.say(text, parts) in WAITING:
                    return ASKS
                parts = []
            except Failure as failure:
                self.screen.note(str(failure))


def chat(parley: Parley, screen: Screen, options: Any, piped: str) -> int:
    """`options`: slug, text, file, session, latest. `piped`: what is added to the text. Returns the exit code."""
    session = _newest(parley, options.slug) if options.latest else options.session
    conversation = Chat(parley, screen, options.slug, session)
    conversation.open()
    parts = [attach(parley, Path(path)) for path in options.file]
    text = joined(options.text or "", piped)
    if options.text is None and screen.is_interactive:
        return conversation.talk(parts)
    if not (text.strip() or parts):
        raise Failure("There is no message. Give one as text, by --file, or on standard input.", code=2)
    state = conversation.say(text, parts)
    if screen.is_interactive:
        screen.note(f"Continue with: parley chat {options.slug} --session {conversation.session}")
    return CODES.get(state, FAILED)


def _newest(parley: Parley, slug: str) -> str:
    """Raises Failure if there is no session with the agent."""
    found = parley.get("/sessions", agent=slug, limit=1)["items"]
    if not found:
        raise Failure(f"You have no session with {slug!r} yet. Leave out --continue to begin one.")
    return str(found[0]["id"])


def find(parley: Parley, kind: str, name: str, noun: str, way: str, **query: str) -> JSON:
    """Raises Failure, with the command that lists what there is."""
    try:
        told: JSON = parley.get(f"/{kind}{path_of(name)}", **query)
        return told
    except Failure as failure:
        if failure.status not in (NOT_FOUND, INVALID) or failure.code != FAILED:
            raise
        raise Failure(f"There is no {noun} {name!r} for you. List yours with: {way}", status=NOT_FOUND) from None
