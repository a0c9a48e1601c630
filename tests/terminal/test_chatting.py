"""A conversation in a terminal: streaming, cancellation, lost connections, questions, files."""

import json

import httpx2

from parley.terminal import client
from tests.terminal.fake import SESSION, TASK, event, sent, status, task, token

DONE = status(9, "completed", "Hello there")


def test_streamed_words_are_printed_once(parley, fake):
    call = event(2, "agent_tool_call", callId="1", name="look", arguments={"for": "you"})
    progress = status(3, "working", progress={"text": "Half\nway", "done": 1, "total": 2})
    others = event(4, "agent_token", task_id="another", artifactId="x", name="", text="not mine")
    fake.answers([call, progress, others, token(5, "Hello "), token(6, "there"), DONE])
    done = parley("chat", "bot", "hi")
    assert (done.code, done.said) == (0, "Hello there\n")
    assert done.happened == '… look {"for": "you"}\n… Half way (1 of 2)\n'


def test_message_may_come_from_a_pipe(parley, fake):
    fake.answers([DONE])
    assert parley("chat", "bot", typed="piped words\n").said == "Hello there\n"
    assert fake.bodies("POST", "/sessions")[0]["message"]["text"] == "piped words\n"
    assert parley("chat", "bot").code == 2


def test_the_newest_session_is_continued(parley, fake):
    fake.answers([DONE])
    fake.on("GET", "/sessions", {"items": [{"id": SESSION}]}, {"items": []})
    fake.on("GET", f"/sessions/{SESSION}", {"session": {"metadata": {"agent": "bot"}}})
    fake.on("GET", "/tasks", {"items": []})
    fake.on("POST", f"/sessions/{SESSION}/messages", sent())
    assert parley("chat", "bot", "and then?", "--continue").code == 0
    assert fake.asked("GET", "/sessions")[0].url.params["agent"] == "bot"
    assert fake.bodies("POST", f"/sessions/{SESSION}/messages") == [{"text": "and then?"}]
    assert parley("chat", "bot", "hi", "-c").code == 1, "there is none"


def test_lost_connection_continues_and_repeats_nothing(parley, fake):
    cut = [token(2, "Hello "), httpx2.ReadError("cut")]
    ended = [token(2, "Hello "), token(3, "the")]
    fake.answers(cut, ended, [token(4, "re"), DONE])
    assert parley("chat", "bot", "hi").said == "Hello there\n"
    places = [one.headers.get("last-event-id") for one in fake.asked("GET", "/events")]
    assert places == [None, "place-2", "place-3"]


def test_lost_answer_repeats_message_with_its_key(parley, fake):
    fake.on("POST", "/sessions", httpx2.ReadError("cut"))
    fake.answers([DONE])
    assert parley("chat", "bot", "hi").code == 0
    first, second = fake.asked("POST", "/sessions")
    assert first.headers["idempotency-key"] == second.headers["idempotency-key"]


def test_ctrl_c_cancels_and_follows_to_the_end(parley, fake):
    fake.answers([token(2, "Hel"), KeyboardInterrupt()], [status(3, "canceled")], state="canceled")
    fake.on("POST", f"/tasks/{TASK}/cancel", task("canceled"))
    done = parley("chat", "bot", "hi")
    assert (done.code, done.said) == (130, "Hel\n")
    assert [one.url.params["since"] for one in fake.asked("GET", "/events")] == ["1", "2"]


def test_failed_task_has_its_words_and_exit_code(parley, fake):
    fake.answers([status(2, "failed", "Too much.")], state="failed")
    done = parley("chat", "bot", "hi")
    assert (done.code, done.said) == (1, "")
    assert "Too much." in done.happened


QUESTION = {"name": "city", "schema": {"type": "object", "properties": {"city": {"enum": ["Ulm", "Bonn"]}}}}


def test_question_is_asked_until_the_answer_fits(parley, fake):
    fake.on("GET", f"/tasks/{TASK}", task("input-required", QUESTION))
    fake.answers([status(2, "input-required", "Which city?", slot=QUESTION)], [status(5, "completed", "Fine")])
    fake.on("POST", f"/tasks/{TASK}/answer", 422, sent(index=4))
    done = parley("chat", "bot", "hi", "--answers", typed="Rome\nUlm\n2\n")
    assert (done.code, done.said) == (0, "Which city?\nFine\n")
    assert fake.bodies("POST", f"/tasks/{TASK}/answer") == [{"data": {"city": "Ulm"}}, {"data": {"city": "Bonn"}}]
    assert fake.asked("GET", "/events")[1].url.params["since"] == "4"


def test_unanswered_question_waits_for_the_session(parley, fake):
    fake.answers([status(2, "input-required", "Which?", slot=QUESTION)], state="input-required", question=QUESTION)
    done = parley("chat", "bot", "hi")
    assert done.code == 3
    assert f"--session {SESSION}" in done.happened
    fake.on("GET", f"/sessions/{SESSION}", {"session": {"metadata": {"agent": "bot"}}})
    fake.on("GET", "/tasks", {"items": [task("input-required")]})
    fake.on("POST", f"/sessions/{SESSION}/messages", sent())
    parley("chat", "bot", "Ulm", "--session", SESSION)
    assert fake.bodies("POST", f"/sessions/{SESSION}/messages") == [{"text": "Ulm", "task": TASK}]


def test_waiting_plan_run_is_joined(parley, fake):
    steps = [{"key": "a", "item": 1, "round": 2, "state": state, "title": "Ask", "agent": "bot", "why": ""}
             for state in ("asking", "done")]  # fmt: skip
    run = {"id": TASK, "plan": "trip", "sessionId": SESSION}
    fake.on("GET", f"/plans/runs/{TASK}", *[run | {"steps": [step]} for step in (steps[0], *steps)])
    asking = task("input-required", QUESTION) | {"status": {"message": {"parts": [{"text": "Which city?"}]}}}
    fake.on("GET", f"/sessions/{SESSION}", {"session": {"revision": 8}, "tasks": [asking]})
    fake.on("POST", f"/tasks/{TASK}/answer", sent(index=9))
    fake.answers([status(10, "completed", "Fine")])
    done = parley("plans", "run", TASK, typed="Ulm\n")
    assert (done.code, done.said) == (0, "Which city?\nFine\n")
    assert "Ask 2 (round 2): asking\n" in done.happened
    assert "Ask 2 (round 2): done\n" in done.happened


def test_scripts_get_json_lines_and_no_prompts(parley, fake):
    fake.answers([token(2, "\x1b[31m")], [DONE])
    lines = [json.loads(line) for line in parley("chat", "bot", "hi", "--json").said.splitlines()]
    assert [line["type"] for line in lines] == ["session", "agent_token", "agent_status", "task"]


def delivered(**part: object) -> dict[str, object]:
    artifact = {"taskId": TASK, "artifactId": "a", "name": "", "parts": [part]}
    return {"items": [artifact], "nextCursor": None}


def test_saved_files_overwrite_nothing_outside_or_inside(parley, fake, tmp_path):
    file = delivered(raw="", filename="../../\x1b[2Jevil.txt")
    fake.on("GET", "/artifacts", file, file, file)
    fake.on("GET", f"/artifacts/{TASK}/a/content", b"content")
    fake.answers([DONE])
    for _ in range(2):
        assert parley("chat", "bot", "hi", "--save", "out").code == 0
    assert {one.name: one.read_bytes() for one in (tmp_path / "out").iterdir()} == {
        "evil.txt": b"content",
        "evil-2.txt": b"content",
    }
    assert "evil.txt" in parley("chat", "bot", "hi").happened  # named, where nobody can be asked


def test_the_key_never_goes_to_another_server(parley, fake):
    fake.on("POST", "/sessions", sent() | {"task": None, "answer": {"parts": [{"url": "https://evil.example/x.pdf"}]}})
    fake.agent()
    assert parley("chat", "bot", "hi", "--save", "out").said == "https://evil.example/x.pdf\n"
    assert {one.url.host for one in fake.requests} == {"parley.example"}


def test_file_is_uploaded_in_pieces(parley, fake, tmp_path, monkeypatch):
    monkeypatch.setattr(client, "PIECE", 4)
    (tmp_path / "a.txt").write_bytes(b"0123456789")
    fake.answers([DONE])
    fake.on("POST", "/uploads", {"id": "u", "offset": 0})
    fake.on("PATCH", "/uploads/u", {"id": "u", "offset": 4}, httpx2.WriteError("cut"), {"id": "u", "offset": 10})
    fake.on("GET", "/uploads/u", {"id": "u", "offset": 6})
    assert parley("chat", "bot", "hi", "--file", "a.txt").code == 0
    assert [one.content for one in fake.asked("PATCH", "/uploads/u")] == [b"0123", b"4567", b"6789"]
    assert fake.bodies("POST", "/sessions")[0]["message"]["parts"] == [{"uploadId": "u"}]
    assert "no file" in parley("chat", "bot", "hi", "--file", "gone.txt").happened


def test_a_file_that_never_arrives_is_given_up(parley, fake, tmp_path):
    (tmp_path / "a.txt").write_bytes(b"0123456789")
    fake.agent()
    fake.on("POST", "/uploads", {"id": "u", "offset": 0})
    fake.on("GET", "/uploads/u", {"id": "u", "offset": 0})
    fake.on("PATCH", "/uploads/u", httpx2.WriteError("cut"))
    assert parley("chat", "bot", "hi", "--file", "a.txt").code == client.UNREACHABLE


def test_second_ctrl_c_leaves(parley, fake):
    fake.answers([KeyboardInterrupt()])
    fake.on("POST", f"/tasks/{TASK}/cancel", 409)
    assert parley("chat", "bot", "hi").code == 130
    assert len(fake.asked("POST", f"/tasks/{TASK}/cancel")) == 1
    fake.answers([httpx2.ReadError("cut")])
    assert parley("chat", "bot", "hi").code == client.UNREACHABLE
