"""The program in `docs/extensions/signature-v1.md` verifies artifacts without our code."""

import json
import re
import subprocess
import sys

import httpx
import pytest

from tests.a2a.calling import message
from tests.stack import ROOT, Stack

pytestmark = pytest.mark.slow("a page's program, in processes of its own")

PAGE = ROOT / "docs" / "extensions" / "signature-v1.md"
HANDLER = "examples.agents.echo:Echo"
LONG = "long " * 100_000
MORE = [{"data": {"n": [1, 2.5]}}, {"raw": "aGVsbG8=", "filename": "a.bin"}]


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """The page's program, as a file outside the repository."""
    [code] = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    path = tmp_path_factory.mktemp("elsewhere") / "verify.py"
    path.write_text(code)
    return path


@pytest.fixture(scope="module")
def signing(server):
    server.manage("register_agent", "notary", "--handler", HANDLER, "--sign-artifacts")
    return server


def ask(server: Stack, method: str, **params) -> dict:
    """The task of the answer."""
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    headers = {"Authorization": f"Bearer {server.demo_key}", "A2A-Version": "1.0"}
    result = httpx.post(f"{server.url}/a2a/notary", json=body, headers=headers, timeout=60).json()["result"]
    return result.get("task", result)


def delivered(server: Stack, text: str) -> dict:
    task = ask(server, "SendMessage", message=message(parts=[{"text": text}, *MORE]))
    assert task["status"]["state"] == "TASK_STATE_COMPLETED"
    return task


def verified(program, server: Stack, task: dict) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-I", str(program), server.url, server.demo_key]
    how = {"capture_output": True, "text": True, "cwd": program.parent, "check": False}
    return subprocess.run(words, input=json.dumps(task), **how)


@pytest.mark.parametrize("text", ["hello", LONG], ids=["short", "long"])
def test_documented_program_verifies_artifacts(program, signing, text):
    task = delivered(signing, text)
    found = verified(program, signing, task)
    assert found.returncode == 0, found.stderr
    assert found.stdout.splitlines() == [f"{one['artifactId']}: good" for one in task["artifacts"]]
    assert verified(program, signing, ask(signing, "GetTask", id=task["id"])).returncode == 0
    part = task["artifacts"][0]["parts"][0]
    part["text"] = part["text"][:-1] + "!"
    assert "InvalidSignatureError" in verified(program, signing, task).stderr
    del task["artifacts"][0]["metadata"]
    assert verified(program, signing, task).returncode == 1
