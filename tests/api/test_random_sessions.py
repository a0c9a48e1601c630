"""Random operations on sessions match a simple model."""

import asyncio
import time
import uuid
from dataclasses import dataclass, field

import pytest
from hypothesis import HealthCheck, Phase
from hypothesis import settings as Settings  # noqa: N812 - a fixture has its name
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from apps.accounts.models import ApiKey, User
from apps.record import projection
from apps.record.models import Event, Task
from tests.api.calling import Answer, Caller

PICK = st.integers(min_value=0, max_value=1000)
WORDS = st.sampled_from(["one", "two", "three"])
SOON = 120


@dataclass(frozen=True)
class Line:
    """A message by its id, which forks share with their origin."""

    id: str
    index: int
    role: str
    words: str


@dataclass
class Model:
    id: str
    tree: str
    lines: list[Line]
    is_deleted: bool = False
    seen: dict[int, bytes] = field(default_factory=dict)

    @property
    def said(self) -> list[tuple[str, str]]:
        return [(line.role, line.words) for line in self.lines]


@dataclass(frozen=True)
class Asked:
    """A request that made a session, to be repeated."""

    method: str
    path: str
    body: dict
    key: str
    parent: Model
    child: Model


class Sessions(RuleBasedStateMachine):
    """A person who talks, edits, retries, forks and deletes, with an agent that repeats everything."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.calls = Caller(ApiKey.issue(User.objects.get(email="ada@example.org"), "random")[1])
        self.sessions: list[Model] = []
        self.asked: list[Asked] = []

    def teardown(self) -> None:
        for model in self.living:
            assert projection.differences(uuid.UUID(model.id)) == []
            indexes = [event["index"] for event in self.whole(model, "events")["events"]]
            assert indexes == list(range(1, len(indexes) + 1))
        self.runner.close()

    @property
    def living(self) -> list[Model]:
        return [model for model in self.sessions if not model.is_deleted]

    def ask(self, method: str, path: str, body: object = None, key: str = "") -> Answer:
        headers = {"Idempotency-Key": key} if key else {}
        return self.runner.run(self.calls.ask(method, path, body, headers))

    def whole(self, model: Model, *sections: str) -> dict:
        answer = self.ask("GET", f"/sessions/{model.id}?include={','.join(sections)}&events_limit=10000")
        assert answer.status == 200, answer.body
        return answer.body

    def one(self, pick: int) -> Model:
        return self.living[pick % len(self.living)]

    @rule(words=WORDS)
    def begin(self, words: str) -> None:
        answer = self.ask("POST", "/sessions", {"agent": "echo", "message": {"text": words}, "wait": True})
        assert answer.status == 201, answer.body
        key = answer.body["session"]["id"]
        self.sessions.append(model := Model(key, key, []))
        self.take(model, [("user", words), ("agent", words)])

    @precondition(lambda self: self.living)
    @rule(pick=PICK, words=WORDS)
    def say(self, pick: int, words: str) -> None:
        model = self.one(pick)
        answer = self.ask("POST", f"/sessions/{model.id}/messages", {"text": words, "wait": True})
        assert answer.status == 200, answer.body
        self.take(model, [*model.said, ("user", words), ("agent", words)])

    @precondition(lambda self: self.living)
    @rule(pick=PICK, which=PICK, words=WORDS)
    def edit(self, pick: int, which: int, words: str) -> None:
        model = self.one(pick)
        if not model.lines:
            return
        line = model.lines[which % len(model.lines)]
        path = f"/sessions/{model.id}/messages/{line.id}"
        if line.role == "agent":
            assert self.ask("PUT", path, {"text": words}).status == 409
        else:
            self.fork_by("PUT", path, {"text": words}, model, self.before(model, line), words)

    @precondition(lambda self: self.living)
    @rule(pick=PICK, which=PICK, newest=st.booleans())
    def retry(self, pick: int, which: int, newest: bool) -> None:
        model = self.one(pick)
        users = [line for line in model.lines if line.role == "user"]
        if not users:
            assert self.ask("POST", f"/sessions/{model.id}/fork", {"retry": True}).status == 409
            return
        line = users[-1] if newest else users[which % len(users)]
        body = {"retry": True} | ({} if newest else {"messageId": line.id})
        self.fork_by("POST", f"/sessions/{model.id}/fork", body, model, self.before(model, line), line.words)

    @precondition(lambda self: self.living)
    @rule(pick=PICK, at=PICK, newest=st.booleans())
    def fork(self, pick: int, at: int, newest: bool) -> None:
        model = self.one(pick)
        at %= max(model.seen) + 1
        shared = [line for line in model.lines if newest or line.index <= at]
        self.fork_by("POST", f"/sessions/{model.id}/fork", {} if newest else {"at": at}, model, shared)

    def before(self, model: Model, line: Line) -> list[Line]:
        return model.lines[: model.lines.index(line)]

    def fork_by(
        self, method: str, path: str, body: dict, parent: Model, shared: list[Line], words: str | None = None
    ) -> None:
        key = uuid.uuid4().hex
        answer = self.ask(method, path, body, key)
        assert answer.status == 201, answer.body
        child = Model(answer.body["session"]["id"], parent.tree, shared)
        if words is not None:
            self.settle(answer.body["task"]["id"])
        self.sessions.append(child)
        self.asked.append(Asked(method, path, body, key, parent, child))
        more = [("user", words), ("agent", words)] if words is not None else []
        self.take(child, [*child.said, *more])

    def settle(self, task: str) -> None:
        until = time.monotonic() + SOON
        while Task.objects.get(pk=task).state != "completed":
            assert time.monotonic() < until
            time.sleep(0.01)

    def take(self, model: Model, said: list[tuple[str, str]]) -> None:
        """Compare the session with the model, and keep the content for later."""
        shown = self.ask("GET", f"/sessions/{model.id}?include=messages,tasks,artifacts")
        told = shown.body
        lines = [Line(one["id"], one["index"], one["role"], one["content"]) for one in told["messages"]]
        assert lines[: len(model.lines)] == model.lines, "what was shared, or there before, is the same"
        model.lines = lines
        assert model.said == said
        assert told["session"]["metadata"]["messageCount"] == len(lines)
        self.check_tasks(model, told["tasks"])
        model.seen[told["session"]["revision"]] = shown.content

    def check_tasks(self, model: Model, tasks: list[dict]) -> None:
        """Each message has one task: completed if answered here, else canceled and without artifacts."""
        states = [task["state"] for task in tasks]
        answers = sum(line.role == "agent" for line in model.lines)
        assert states.count("completed") == answers
        assert states.count("canceled") == len(tasks) - answers
        assert len(tasks) + answers == len(model.lines)
        for task in tasks:
            assert bool(task["artifacts"]) == (task["state"] == "completed")

    @precondition(lambda self: self.asked)
    @rule(pick=PICK)
    def repeat(self, pick: int) -> None:
        """A repeated request creates nothing and returns the existing session."""
        asked = self.asked[pick % len(self.asked)]
        answer = self.ask(asked.method, asked.path, asked.body, asked.key)
        if asked.parent.is_deleted:
            assert answer.status == 404
        elif asked.child.is_deleted:
            assert answer.status == 422
        else:
            assert (answer.status, answer.body["repeated"]) == (200, True)
            assert answer.body["session"]["id"] == asked.child.id
            self.take(asked.child, asked.child.said)

    @precondition(lambda self: self.living)
    @rule(pick=PICK)
    def delete(self, pick: int) -> None:
        model = self.one(pick)
        assert self.ask("DELETE", f"/sessions/{model.id}").status == 204
        assert self.ask("GET", f"/sessions/{model.id}").status == 404
        model.is_deleted = True

    @precondition(lambda self: self.living)
    @rule(pick=PICK, which=PICK)
    def look_back(self, pick: int, which: int) -> None:
        """A session at an earlier event is byte for byte unchanged."""
        model = self.one(pick)
        at = sorted(model.seen)[which % len(model.seen)]
        then = self.ask("GET", f"/sessions/{model.id}?include=messages,tasks,artifacts&at={at}")
        assert then.content == model.seen[at]

    @precondition(lambda self: self.living)
    @rule(pick=PICK)
    def look_at_the_tree(self, pick: int) -> None:
        model = self.one(pick)
        tree = self.ask("GET", f"/sessions/{model.id}/tree").body
        shown = {node["id"]: node["messageCount"] for node in tree["items"] if not node["isDeleted"]}
        assert shown == {one.id: len(one.lines) for one in self.living if one.tree == model.tree}
        told = {None}
        for node in tree["items"]:
            assert node["parentId"] in told
            told.add(node["id"])

    @precondition(lambda self: self.living)
    @rule(pick=PICK, which=PICK)
    def look_at_siblings(self, pick: int, which: int) -> None:
        """Sessions that branch at one place share the past and list the same siblings."""
        model = self.one(pick)
        if not model.lines:
            return
        place = which % len(model.lines)
        told = self.ask("GET", f"/sessions/{model.id}/messages/{model.lines[place].id}/siblings").body
        assert told["items"][told["position"] - 1]["messageId"] == model.lines[place].id
        assert told["count"] == len(told["items"])
        by_id = {one.id: one for one in self.living}
        for sibling in told["items"]:
            other = by_id[sibling["sessionId"]]
            assert other.lines[:place] == model.lines[:place]
            assert other.lines[place].id == sibling["messageId"]
            path = f"/sessions/{other.id}/messages/{sibling['messageId']}/siblings"
            assert self.ask("GET", path).body["items"] == told["items"]

    @invariant()
    def nothing_is_at_work(self) -> None:
        assert not Task.objects.unfinished().exists()

    @invariant()
    def no_line_of_a_log_is_there_twice(self) -> None:
        ids = Event.objects.values_list("context", "index")
        assert len(set(ids)) == len(ids)


FEW = {"max_examples": 3, "stateful_step_count": 20, "phases": [Phase.generate]}  # each history takes a second
MANY = {"max_examples": 20, "stateful_step_count": 40}


@pytest.mark.timeout(1800)
@pytest.mark.usefixtures("echo", "worker")
@pytest.mark.parametrize(
    "histories", [FEW, pytest.param(MANY, marks=pytest.mark.slow("many long histories"))], ids=["few", "many"]
)
def test_sessions_hold_whatever_clients_do(ada, settings, histories):
    settings.REQUESTS_PER_MINUTE = settings.ACTS_PER_MINUTE = settings.FORKS_PER_MINUTE = 1_000_000
    run_state_machine_as_test(Sessions, settings=Settings(**histories, suppress_health_check=list(HealthCheck)))
