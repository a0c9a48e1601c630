"""Agents with a folder, called by people through Parley."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from agentkit.command.packing import pack_folder
from apps.agents.models import Agent
from apps.deployments import environments, processes, registering
from apps.engine import cancel
from apps.engine import worker as engine_worker
from apps.record.models import Event
from apps.remote.execution import cancellation, runs
from apps.remote.models import OpenWork
from parley import db
from tests.deployments import folder
from tests.remote.conversing import Talk, run_of, until, words

pytestmark = pytest.mark.django_db(transaction=True)
SERVER = """
import json, os, socketserver, time
from http.server import BaseHTTPRequestHandler
CARD = {"name": "Frail", "description": "Ends when told to.", "version": "1", "skills": [],
    "supportedInterfaces": [{"url": "http://its.invalid/", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}],
    "capabilities": {"streaming": True}, "defaultInputModes": ["text/plain"], "defaultOutputModes": ["text/plain"]}
class Answering(BaseHTTPRequestHandler):
    def address_string(self):
        return "parley"
    def do_GET(self):
        self.begin("application/json")
        self.wfile.write(json.dumps(CARD).encode())
    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if "Stream" not in asked["method"]:
            self.begin("application/json")
            error = {"code": -32001, "message": "Task not found"}
            self.wfile.write(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "error": error}).encode())
            return
        self.begin("text/event-stream")
        text = asked["params"]["message"]["parts"][0]["text"]
        ids = {"taskId": "t", "contextId": "c"}
        self.say(asked, {"task": {"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_WORKING"}}})
        if text == "end":
            print("MemoryError: no more", flush=True)
            os._exit(3)
        if text == "wait":
            time.sleep(60)
        said = {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": text}]}
        self.say(asked, {"statusUpdate": {**ids, "status": {"state": "TASK_STATE_COMPLETED", "message": said}}})
    def begin(self, kind):
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.end_headers()
    def say(self, asked, event):
        line = json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": event})
        self.wfile.write(f"data: {line}\\n\\n".encode())
        self.wfile.flush()
socketserver.ThreadingUnixStreamServer(os.environ["A2A_SOCKET"], Answering).serve_forever()
"""


@pytest.fixture(autouse=True)
def quick(settings, monkeypatch, kept):
    """Agents run in this environment: making one takes seconds."""
    plan = environments.plan
    monkeypatch.setattr(environments, "plan", lambda *given: {**plan(*given), "setup": []})
    monkeypatch.setattr(processes, "keeper_folder", lambda: kept.folder)
    settings.REMOTE_POLL_SECONDS = (0.02, 0.1)
    settings.REMOTE_CONFIRM_SECONDS = 0.3
    settings.REMOTE_RETRY_SECONDS = 0.5


async def added(slug: str, tmp_path: Path) -> Agent:
    at = tmp_path / slug
    at.mkdir()
    (at / "agent.yaml").write_text(f"serve: {sys.executable} -S server.py\nname: {slug}\naccess: authenticated\n")
    (at / "server.py").write_text(SERVER)

    def deploy() -> Agent:
        asyncio.run(registering.deploy(registering.begin(slug, pack_folder(at)).pk))
        return Agent.objects.select_related("current_version").get(slug=slug)

    return await db.run(deploy)


async def test_ending_process_fails_its_task_alone(worker, ada, tmp_path):
    frail, well = await added("frail", tmp_path), await added("well", tmp_path)
    broken, answered = await asyncio.gather(Talk(ada, frail).ask("end"), Talk(ada, well).ask("hello"))
    assert broken.state == "failed", broken.state
    assert words(broken).endswith("Its process ended (exit code 3). Its last line: MemoryError: no more")
    assert words(answered) == "hello"


async def test_message_after_the_end_starts_it_again(worker, ada, tmp_path):
    agent = await added("frail", tmp_path)
    await Talk(ada, agent).ask("end")
    assert words(await Talk(ada, agent).ask("hello")) == "hello"


async def test_message_after_the_keepers_end_starts_both_again(worker, ada, kept, tmp_path):
    agent = await added("well", tmp_path)
    assert words(await Talk(ada, agent).ask("hello")) == "hello"
    os.kill(kept.pid, signal.SIGKILL)
    kept.guard.wait()
    assert words(await Talk(ada, agent).ask("hello")) == "hello"


async def test_turn_does_not_move_to_another_machine(worker, ada, tmp_path, monkeypatch):
    agent = await added("frail", tmp_path)
    monkeypatch.setattr(runs, "this_machine", lambda: "first")
    sent = await Talk(ada, agent).say("wait")
    await until(lambda: OpenWork.objects.exists())
    monkeypatch.setattr(runs, "this_machine", lambda: "second")
    await asyncio.to_thread(engine_worker.close_current_worker, 0.0)  # as SIGTERM does; the run is given back
    done = await Talk(ada, agent).settled(sent)
    assert (done.state, (await db.run(run_of, done)).error["code"]) == ("failed", "agent_moved")
    work = await db.run(OpenWork.objects.get)
    assert (work.machine, work.is_unwanted) == ("first", True)
    assert not await db.run(cancellation.claim_unwanted, 1)
    monkeypatch.setattr(runs, "this_machine", lambda: "first")
    await db.run(lambda: OpenWork.objects.update(lease_until=None))
    assert await db.run(cancellation.claim_unwanted, 1) == [work]


LISTENER = """
from agentkit import Completed, SkillHandler


class Loud(SkillHandler):
    steerable = True

    async def on_request(self, task):
        heard = [message.text async for message in task.inbox]
        return Completed(" ".join([task.message.text, *heard]))
"""


async def test_folders_agent_reads_and_stops_in_its_turn(worker, ada, tmp_path):
    at = folder.write(tmp_path / "listener")
    (at / "agent.py").write_text(LISTENER)
    deployment = await db.run(lambda: registering.begin("listener", pack_folder(at), access="authenticated"))
    await registering.deploy(deployment.pk)
    talk = Talk(ada, await db.run(Agent.objects.select_related("current_version").get, slug="listener"))
    sent = await talk.say("one")
    await talk.say("two", task=sent)
    await until(lambda: Event.objects.filter(task=sent.pk, type="agent_read").exists())
    assert await db.run(cancel.stop_after_step, sent, ada.pk)
    done = await talk.settled(sent)
    assert (done.state, words(done), await db.run(done.runs.count)) == ("completed", "one two", 1)
