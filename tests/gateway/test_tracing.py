"""The trace of whoever called goes on at a remote agent, with every call of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

import bridge
from apps.conversations.models import Run
from apps.runtime import sending
from tests.gateway.card_server import card
from tests.gateway.conversing import Talk, remote_agent, run_of

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("worker", "outward")]

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


class Working(BaseHTTPRequestHandler):
    """An agent that has a task at work when it is sent a message, and done when it is asked again."""

    heard: list[tuple[str, str]]

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.heard.append((asked["method"], self.headers.get("traceparent", "")))
        is_sent = asked["method"] == "SendMessage"
        status = {"state": "TASK_STATE_WORKING" if is_sent else "TASK_STATE_COMPLETED"}
        task = {"id": "t", "contextId": "c", "status": status}
        body = json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": {"task": task} if is_sent else task}).encode()
        self.send_response(200)
        for name, value in {"Content-Type": "application/json", "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def working() -> Iterator[ThreadingHTTPServer]:
    Working.heard = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), Working)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


async def test_every_call_is_in_the_callers_trace_as_a_span_below_the_run(ada, working, said):
    url = f"http://127.0.0.1:{working.server_address[1]}/a2a"
    agent = await bridge.run(remote_agent, card(url, capabilities={"streaming": False}))
    header = f"00-{TRACE}-00f067aa0ba902b7-01"
    sent = await sending.send(ada.principal, agent, said(), traceparent=header)
    await sending.settled(sent.context, sent.task, sent.index, lambda task: task)
    run = await bridge.run(Run.objects.get, task=sent.task)
    assert run.traceparent[3:35] == TRACE
    assert {"SendMessage", "GetTask"} <= {method for method, _ in Working.heard}
    spans = [told[36:52] for _, told in Working.heard]
    assert [told[:36] for _, told in Working.heard] == [f"00-{TRACE}-"] * len(spans)
    assert not {run.traceparent[36:52], "00f067aa0ba902b7"} & set(spans)


async def test_without_a_caller_that_traces_it_is_in_the_runs_own(ada, working):
    url = f"http://127.0.0.1:{working.server_address[1]}/a2a"
    task = await Talk(ada, await bridge.run(remote_agent, card(url, capabilities={"streaming": False}))).ask()
    run = await bridge.run(run_of, task)
    assert {told[:36] for _, told in Working.heard} == {run.traceparent[:36]}
