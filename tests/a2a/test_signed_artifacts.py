"""The program in `docs/extensions/signature-v1.md` verifies artifacts without our code."""

import json
import re
import subprocess
import sys
import uuid

import httpx
import pytest

from tests.stack import ROOT, Stack

pytestmark = pytest.mark.slow("a page's program, in processes of its own")

PAGE = ROOT / "docs" / "extensions" / "signature-v1.md"
HANDLER = "examples.agents.echo:Echo"
LONG = "long " * 100_000


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """The page's program, as a file outside the repository."""
    [code] = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    path = tmp_path_factory.mktemp("elsewhere") / "verify.py"
    path.write_text(code)
    return path


@pytest.fixture(scope="module")
def signing(server: Stack) -> Stack:
    for slug in ("notary", "careless-notary"):
        server.manage("register_agent", slug, "--handler", HANDLER, "--sign-artifacts")
    return server


def ask(server: Stack, method: str, slug: str = "notary", **params) -> dict:
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    headers = {"Authorization": f"Bearer {server.demo_key}", "A2A-Version": "1.0"}
    return httpx.post(f"{server.url}/a2a/{slug}", json=body, headers=headers, timeout=60).json()


def delivered(server: Stack, text: str = "hello", slug: str = "notary") -> dict:
    parts = [{"text": text}, {"data": {"n": [1, 2.5]}}, {"raw": "aGVsbG8=", "filename": "a.bin"}]
    message = {"messageId": str(uuid.uuid4()), "role": "ROLE_USER", "parts": parts}
    answer = ask(server, "SendMessage", slug, message=message)
    assert answer["result"]["task"]["status"]["state"] == "TASK_STATE_COMPLETED"
    return answer


def task_of(answer: dict) -> dict:
    return answer["result"].get("task", answer["result"])


def verified(program, server: Stack, answer: dict) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-I", str(program), server.url, server.demo_key],
        input=json.dumps(task_of(answer)), capture_output=True, text=True, cwd=program.parent, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("text", ["hello", LONG], ids=["short", "long"])
def test_the_pages_program_verifies_what_was_delivered(program, signing, text):
    answer = delivered(signing, text)
    task = answer["result"]["task"]
    found = verified(program, signing, answer)
    assert found.returncode == 0, found.stderr
    assert found.stdout.splitlines() == [f"{one['artifactId']}: good" for one in task["artifacts"]]
    assert verified(program, signing, ask(signing, "GetTask", id=task["id"])).returncode == 0
    part = task["artifacts"][0]["parts"][0]
    part["text"] = part["text"][:-1] + "!"
    assert "InvalidSignatureError" in verified(program, signing, answer).stderr
    del task["artifacts"][0]["metadata"]
    assert verified(program, signing, answer).returncode == 1


def test_the_pages_program_trusts_retired_keys_and_no_revoked_ones(program, signing):
    answer = delivered(signing)
    signing.manage("rotate_signing_key", "notary", "--algorithm", "ES256")
    assert verified(program, signing, answer).returncode == 0
    lost = delivered(signing, slug="careless-notary")
    signing.manage("rotate_signing_key", "careless-notary", "--revoke")
    assert "KeyError" in verified(program, signing, lost).stderr
    assert signing.manage("verify_artifact", lost["result"]["task"]["id"], check=False).returncode == 5
