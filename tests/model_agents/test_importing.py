"""The model library's slow import happens only at use."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow("processes of its own, which import all of Parley")

HEAVY = ("pydantic_ai", "openai", "fastmcp", "mcp")


def printed(program: str) -> str:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    return done.stdout.strip()


def test_a_server_does_not_import_it():
    begins = "import sys, django\ndjango.setup()\nimport parley.asgi"
    program = f"{begins}\nprint(*(name for name in {HEAVY} if name in sys.modules))"
    assert printed(program) == ""


def test_importing_does_not_block_the_event_loop():
    program = """
import asyncio, sys, time
from agentkit.llm import LlmWorker, scripted
assert "pydantic_ai" not in sys.modules

async def main():
    asked = asyncio.ensure_future(LlmWorker("Help.", model=scripted(lambda asked: "ok")).run(message="x"))
    turns = 0
    while "pydantic_ai.models.openai" not in sys.modules:
        await asyncio.sleep(0)
        turns += 1
    print(turns > 10, await asked)

asyncio.run(main())
"""
    assert printed(program) == "True ok"
