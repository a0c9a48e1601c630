"""The model library's slow import happens only at use."""

import subprocess
import sys

HEAVY = ("pydantic_ai", "openai", "fastmcp", "mcp")


def test_a_server_does_not_import_it():
    begins = "import sys, django\ndjango.setup()\nimport config.asgi"
    program = f"{begins}\nprint(*(name for name in {HEAVY} if name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_the_event_loop_goes_on_while_it_is_imported():
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
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "True ok"
