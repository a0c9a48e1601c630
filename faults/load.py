"""Clients under whom Parley is broken: journeys of two tenants, chosen by the seed, over every door.

A client does what a good client does: it repeats a call without an answer, with the same `messageId` or
`Idempotency-Key`, and resumes a broken stream where it was. What it is told goes into `history.Seen`.
"""

from __future__ import annotations

import json
import random
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import httpx

from faults.agents import lines
from faults.history import INTERRUPTED, TERMINAL, Acknowledged, Answered, Probed, Refused, Seen, Streamed
from faults.machine import machine
from faults.receiver import TURNED
from faults.stage import REMOTE

JSON = dict[str, Any]
PATIENCE = 240.0  # seconds without an answer until a client gives up, by the machine's clock
CALL_SECONDS = 20.0
BETWEEN = 0.25
AGAIN = frozenset({429, 502, 503, 504})
MARKUP = "<img src=x onerror=alert(1)>"
TRIP = {"data": {"city": "Lisbon", "departure": "Oslo", "arrival": "2027-05-01", "nights": 3}}


class GaveUp(Exception):
    """No answer within a client's patience."""


@dataclass(frozen=True)
class Tenant:
    """`session`: the browser's cookie. `mark`: a word in all that the tenant says."""

    name: str
    user: int
    key: str
    session: str

    @property
    def mark(self) -> str:
        return f"{self.name}-mark"


class Pace:
    """Lets so many calls a second begin, those of all clients together. 0: as many as they make."""

    def __init__(self, rate: float = 0.0) -> None:
        self._between = 1 / rate if rate else 0.0
        self._next = time.monotonic()
        self._lock = threading.Lock()

    def wait(self) -> None:
        with self._lock:
            now = time.monotonic()
            begin = max(now, self._next)
            self._next = begin + self._between
        time.sleep(begin - now)


class Client:
    """One client of a tenant: its calls go to any web server, and are repeated until one answers."""

    def __init__(
        self, tenant: Tenant, urls: list[str], seen: Seen, chance: random.Random, pace: Pace | None = None
    ) -> None:
        self.tenant, self.urls, self.seen, self.chance = tenant, urls, seen, chance
        self.pace = pace or Pace()
        self._http = httpx.Client(trust_env=False)
        self._headers = {"Authorization": f"Bearer {tenant.key}", "A2A-Version": "1.0"}

    def close(self) -> None:
        self._http.close()

    def call(self, method: str, path: str, body: JSON | None = None, **headers: str) -> httpx.Response:
        """The answer, other than to try again. Raises GaveUp."""
        deadline = machine.now() + PATIENCE
        while self._is_patient(deadline):
            self._begin()
            began = time.monotonic()
            try:
                url = self.chance.choice(self.urls) + path
                answer = self._http.request(
                    method, url, json=body, headers=self._headers | headers, timeout=machine.seconds(CALL_SECONDS)
                )
            except httpx.TransportError as error:
                why = type(error).__name__
            else:
                if answer.status_code < 500 and answer.status_code not in AGAIN:
                    if method == "GET":
                        self.seen.reads.append((began, time.monotonic() - began))
                    return answer
                self._note(path, answer.status_code, answer.text)
                why = str(answer.status_code)
            self.seen.count("calls repeated")
            self.seen.count(f"calls repeated after {why}")
            time.sleep(BETWEEN)
        self.seen.gave_up.append(f"{method} {path}")
        raise GaveUp(path)

    def _begin(self) -> None:
        self.pace.wait()
        self.seen.count("calls")

    def _is_patient(self, deadline: float) -> bool:
        return machine.now() < deadline and not self.seen.abandoned.is_set()

    def _note(self, path: str, status: int, body: str) -> None:
        """A server's error that does not say when to try again is an offense."""
        if status not in AGAIN:
            self.seen.refused.append(Refused(path, status, body[:500]))

    # A2A

    def rpc(self, agent: str, method: str, params: JSON) -> JSON:
        """The result, or {"error": …}."""
        request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        answer: JSON = self.call("POST", f"/a2a/{agent}", request).json()
        result: JSON = answer["result"] if "result" in answer else {"error": answer.get("error", answer)}
        return result

    def message(self, *parts: str | JSON, **fields: Any) -> JSON:
        content = [{"text": part} if isinstance(part, str) else part for part in parts]
        return {"messageId": str(uuid.UUID(int=self.chance.getrandbits(128), version=4)), "role": "ROLE_USER",
                "parts": content, **fields}  # fmt: skip

    def send(self, agent: str, said: JSON, door: str = "rpc", **configuration: Any) -> JSON:
        """The task that the message is in."""
        params = {"message": said, "configuration": {"returnImmediately": True, **configuration}}
        if door == "rest":
            result = self.call("POST", f"/a2a/{agent}/message:send", params).json()
        else:
            result = self.rpc(agent, "SendMessage", params)
        task: JSON = result.get("task", {})
        if not task:
            self.seen.refused.append(Refused(f"{door} {agent}", 0, json.dumps(result)[:500]))
            raise GaveUp(agent)
        return task

    def acknowledged(self, said: JSON, task: str, text: str = "", *, must_complete: bool = False) -> None:
        one = Acknowledged(self.tenant.name, said["messageId"], task, text, must_complete)
        self.seen.acknowledged.append(one)

    def settled(self, agent: str, task: str, states: frozenset[str] = TERMINAL | INTERRUPTED) -> JSON:
        """The task once it has such a state. Raises GaveUp."""
        deadline = machine.now() + PATIENCE
        while self._is_patient(deadline):
            found = self.read(agent, task)
            if state_of(found) in states:
                return found
            time.sleep(BETWEEN)
        self.seen.gave_up.append(f"task {task} of {agent} is {state_of(found)}")
        raise GaveUp(task)

    def read(self, agent: str, task: str) -> JSON:
        if self.chance.random() < 0.5:
            found: JSON = self.call("GET", f"/a2a/{agent}/tasks/{task}").json()
            return found
        return self.rpc(agent, "GetTask", {"id": task})

    def end(self, agent: str, task: str) -> JSON:
        """Wait for the task's end and note it."""
        ended = self.settled(agent, task, TERMINAL)
        self.seen.answered.append(answered(self.tenant.name, ended))
        return ended

    def stream(self, agent: str, said: JSON) -> Streamed:
        """Send a message and follow its task to the end, over as many connections as it takes."""
        heard = Streamed(self.tenant.name, "")
        deadline = machine.now() + PATIENCE
        while self._is_patient(deadline):
            with suppress(httpx.TransportError, httpx.StreamError):
                for event in self._events(agent, said, heard, deadline):
                    if not self._hear(heard, event):
                        break
                    if heard.states and heard.states[-1] in TERMINAL:
                        return heard
            if heard.task and state_of(self.read(agent, heard.task)) in TERMINAL and heard.connections > 20:
                heard.is_whole = False  # its end is read elsewhere
                return heard
            self.seen.count("streams resumed")
            heard.connections += 1
            time.sleep(BETWEEN)
        self.seen.gave_up.append(f"stream of {agent}")
        raise GaveUp(agent)

    def _events(self, agent: str, said: JSON, heard: Streamed, deadline: float) -> Iterator[JSON]:
        """Events of one connection, which begins where the last one ended."""
        headers = dict(self._headers)
        method, params = "SendStreamingMessage", dict[str, Any](message=said)
        if heard.task and heard.place:
            method, params, headers["Last-Event-ID"] = "SubscribeToTask", {"id": heard.task}, heard.place
        request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        url = f"{self.chance.choice(self.urls)}/a2a/{agent}"
        self._begin()
        patient = machine.seconds(CALL_SECONDS)
        with self._http.stream("POST", url, json=request, headers=headers, timeout=patient) as answer:
            if not answer.headers.get("Content-Type", "").startswith("text/event-stream"):
                answer.read()
                self._note(url, answer.status_code, answer.text)
                return
            for line in answer.iter_lines():
                if not self._is_patient(deadline):  # heartbeats alone
                    return
                if line.startswith("id: "):
                    heard.place = line.removeprefix("id: ")
                elif line.startswith("data: "):
                    yield json.loads(line.removeprefix("data: "))

    def _hear(self, heard: Streamed, event: JSON) -> bool:
        """Note an event; False for an error."""
        result = event.get("result")
        if result is None:
            self.seen.count("streams that ended with an error")
            return False
        if (task := result.get("task")) is not None:
            heard.task = task["id"]
            heard.states.append(state_of(task))
        elif (update := result.get("statusUpdate")) is not None:
            heard.states.append(state_of(update))
        elif (update := result.get("artifactUpdate")) is not None:
            artifact = update["artifact"]
            earlier = heard.texts.get(artifact["artifactId"], "") if update.get("append") else ""
            heard.texts[artifact["artifactId"]] = earlier + text_of(artifact)
        return True


def state_of(holder: JSON) -> str:
    """The state's name in the record, "" without one."""
    name = str(holder.get("status", {}).get("state", ""))
    return name.removeprefix("TASK_STATE_").lower().replace("_", "-")


def text_of(holder: JSON) -> str:
    return "".join(part.get("text", "") for part in holder["parts"])


def answered(tenant: str, task: JSON) -> Answered:
    return Answered(tenant, task["id"], state_of(task), tuple(text_of(one) for one in task.get("artifacts", [])))


# Journeys


class Journeys:
    """What one client does, one journey after the other. `others`: tasks of the other tenants, to ask for."""

    def __init__(self, client: Client, hook_url: str, others: dict[str, list[tuple[str, str]]]) -> None:
        self.client, self.seen, self.chance = client, client.seen, client.chance
        self.mark, self.hook_url, self.others = client.tenant.mark, hook_url, others
        self.all: dict[str, Callable[[], None]] = {
            "send": self.send,
            "stream": self.stream,
            "question": self.question,
            "cancel": self.cancel,
            "webhook": self.webhook,
            "session": self.session,
            "delegation": self.delegation,
            "plan": self.plan,
            "remote": self.remote,
            "probe": self.probe,
            "page": self.page,
        }
        self.weights = {"send": 3, "stream": 4, "question": 2, "webhook": 3, "session": 3}

    def one(self) -> None:
        names = list(self.all)
        [name] = self.chance.choices(names, [self.weights.get(name, 1) for name in names])
        with suppress(GaveUp):
            self.all[name]()
            self.seen.count(f"journeys: {name}")

    def _counting(self, number: int = 0) -> tuple[JSON, str]:
        """A message for the counter, and what it must deliver. 0: up to any number."""
        number = number or self.chance.randint(5, 60)
        return self.client.message(f"{number} {self.mark}"), lines(number, self.mark)

    def _is_mine(self, agent: str, task: str) -> None:
        self.others.setdefault(self.client.tenant.name, []).append((agent, task))

    def send(self) -> None:
        """A message whose caller waits, or asks again and again."""
        said, text = self._counting()
        waits = self.chance.random() < 0.4
        door = self.chance.choice(["rpc", "rest"])
        task = self.client.send("counter", said, door, returnImmediately=not waits)["id"]
        self.client.acknowledged(said, task, text, must_complete=True)
        self._is_mine("counter", task)
        self.client.end("counter", task)

    def stream(self, number: int = 0) -> None:
        said, text = self._counting(number)
        heard = self.client.stream("counter", said)
        self.client.acknowledged(said, heard.task, text, must_complete=True)
        self.seen.streamed.append(heard)
        self.client.end("counter", heard.task)

    def question(self) -> None:
        self.answer(self.ask())

    def ask(self) -> JSON:
        """A task that asks."""
        said = self.client.message(self.mark)
        task = self.client.send("asker", said)
        self.client.acknowledged(said, task["id"])
        return self.client.settled("asker", task["id"])

    def answer(self, task: JSON) -> None:
        number = self.chance.randint(3, 30)
        fields = {"taskId": task["id"], "contextId": task["contextId"]}
        reply = self.client.message(str(number), **fields)
        self.client.send("asker", reply)
        self.client.acknowledged(reply, task["id"], lines(number, self.mark), must_complete=True)
        self.client.end("asker", task["id"])

    def cancel(self) -> None:
        said = self.client.message(f"2000 {self.mark}")
        task = self.client.send("counter", said)["id"]
        self.client.acknowledged(said, task)
        time.sleep(self.chance.uniform(0, 2))
        self.client.rpc("counter", "CancelTask", {"id": task})
        self.client.end("counter", task)

    def webhook(self) -> None:
        said, text = self._counting()
        path = (TURNED if self.chance.random() < 0.2 else "/hook/") + said["messageId"]
        hook = {"url": self.hook_url + path}
        task = self.client.send("counter", said, taskPushNotificationConfig=hook)["id"]
        self.seen.hooks[path] = task
        self.client.acknowledged(said, task, text, must_complete=True)
        self.client.end("counter", task)

    def session(self) -> None:
        """A session by the client API, which goes on, is edited and is forked."""
        client = self.client
        opened = self.open()
        session = opened["session"]["id"]
        client.end("counter", opened["task"]["id"])
        self.go_on(session)
        if self.chance.random() < 0.5:
            edited, other = self._counting()
            path = f"/api/v1/sessions/{session}/messages/{opened['message']['id']}"
            self._say(path, edited, other, method="PUT", running="finish")
        if self.chance.random() < 0.5:
            key = str(uuid.UUID(int=self.chance.getrandbits(128)))
            forked = client.call("POST", f"/api/v1/sessions/{session}/fork", {}, **{"Idempotency-Key": key})
            assert forked.is_success, forked.text
            self.go_on(forked.json()["session"]["id"])

    def open(self) -> JSON:
        said, text = self._counting()
        return self._say("/api/v1/sessions", said, text, agent="counter")

    def go_on(self, session: str) -> None:
        said, text = self._counting()
        self._say(f"/api/v1/sessions/{session}/messages", said, text)

    def _say(self, path: str, said: JSON, text: str, *, method: str = "POST", agent: str = "", **how: str) -> JSON:
        content = {"text": said["parts"][0]["text"], **how}
        body = {"agent": agent, "message": content} if agent else content
        answer = self.client.call(method, path, body, **{"Idempotency-Key": said["messageId"]})
        assert answer.is_success, answer.text
        told: JSON = answer.json()
        self.client.acknowledged(said, told["task"]["id"], text, must_complete=True)
        return told

    def delegation(self) -> None:
        said = self.client.message(f"5,9 {self.mark}")
        task = self.client.send("lead", said)["id"]
        self.client.acknowledged(said, task, "5 9", must_complete=True)
        self.client.end("lead", task)

    def plan(self) -> None:
        said = self.client.message(TRIP)
        task = self.client.send("trip", said)["id"]
        self.client.acknowledged(said, task)
        self.client.end("trip", task)

    def remote(self) -> None:
        said = self.client.message(f"count {self.chance.randint(5, 100)}")
        task = self.client.send(REMOTE, said)["id"]
        self.client.acknowledged(said, task)
        self.client.end(REMOTE, task)

    def probe(self) -> None:
        """Ask for another tenant's task."""
        theirs = [one for name, tasks in self.others.items() if name != self.client.tenant.name for one in tasks]
        if not theirs:
            return
        agent, task = self.chance.choice(theirs)
        for path in (f"/a2a/{agent}/tasks/{task}", f"/api/v1/tasks/{task}"):
            answer = self.client.call("GET", path)
            told = any(mark in answer.text for name, mark in self.seen.marks.items() if name != self.client.tenant.name)
            self.seen.probed.append(Probed(self.client.tenant.name, path, answer.status_code, told))

    def page(self) -> None:
        """What a browser gets of a message with markup: the session's page, and the HTML that scripts insert."""
        said = self.client.message(f"{MARKUP} {self.mark}")
        task = self.client.send("echo", said)["id"]
        self.client.acknowledged(said, task)
        self.client.end("echo", task)
        session = self.client.call("GET", f"/api/v1/tasks/{task}").json()["sessionId"]
        cookie = f"sessionid={self.client.tenant.session}"
        page = self.client.call("GET", f"/sessions/{session}", Cookie=cookie, Accept="text/html", Authorization="").text
        messages = self.client.call("GET", f"/api/v1/sessions/{session}/messages").json()["items"]
        self.seen.count("pages read", int(self.mark in page))
        if any(MARKUP in html for html in (page, *(one.get("html", "") for one in messages))):
            self.seen.unsafe.append(f"/sessions/{session}")


class Load:
    """Clients in threads, until `stop`."""

    def __init__(
        self,
        tenants: list[Tenant],
        clients: int,
        urls: list[str],
        hook_url: str,
        seen: Seen,
        seed: int,
        pace: Pace | None = None,
    ) -> None:
        self._over = threading.Event()
        others: dict[str, list[tuple[str, str]]] = {}
        self.failures: list[str] = []
        self._threads = []
        for tenant in tenants:
            for number in range(clients):
                client = Client(tenant, urls, seen, random.Random(f"{seed} {tenant.name} {number}"), pace)
                work = Journeys(client, hook_url, others)
                self._threads.append(threading.Thread(target=self._work, args=[work], daemon=True))

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def _work(self, work: Journeys) -> None:
        while not self._over.is_set():
            try:
                work.one()
            except Exception as error:  # a client's own defect, or an answer that no client can read
                self.failures.append(f"{type(error).__name__}: {error}"[:500])
            self._over.wait(work.chance.uniform(0.1, 0.6))
        work.client.close()

    def stop(self) -> None:
        """Begin no journey any more."""
        self._over.set()

    def join(self) -> None:
        for thread in self._threads:
            thread.join(machine.seconds(2 * CALL_SECONDS))

    @property
    def is_busy(self) -> bool:
        return any(thread.is_alive() for thread in self._threads)
