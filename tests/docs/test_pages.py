"""Code in the README, tutorials, guides and agentkit's reference works."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.pages import PAGES, Page, page_at
from tests.docs.reading import Reader
from tests.generated_client import PACKAGE, generate
from tests.stack import ROOT
from tests.type_checking import TypeChecked

pytestmark = pytest.mark.slow("documentation is executed")
NOT_RUN = {
    ("docs/how-to/approve-tools.md", "mcp:*=ask"),
    (
        "docs/how-to/approve-tools.md",
        '{"decision": "approve", "arguments": {"to": "ada@example.com", "body": "Hello"}, "for_session": false}',
    ),
    (
        "docs/how-to/approve-tools.md",
        '{"tool": "send_mail", "kind": "function", "description": "Sends a mail.", "arguments": '
        '{"to": "ada@example.org", "body": "Hello"}, "why": "I will greet her."}',
    ),
    ("docs/doors/openai.md", "from pydantic import BaseModel"),
    (
        "docs/how-to/notifications.md",
        "curl -s http://127.0.0.1:8000/api/v1/notifications/channels -H 'Authorization: Bearer YOUR-KEY' "
        "-H 'Content-Type: application/json' \\",
    ),
    ("docs/how-to/notifications.md", "{"),
    (
        "docs/how-to/payments.md",
        '{"x402Version": 1, "paymentRequirements": {"scheme": "exact", "network": "base", '
        '"maxAmountRequired": "10000"}, "idempotencyKey": "…"}',
    ),
    ("docs/how-to/federation.md", "./manage.py peer share report      # here"),
    ("README.md", "make run"),
    ("README.md", "PYTHONPATH=~/agents make run"),
    ("docs/doors/ag-ui.md", 'import { HttpAgent } from "@ag-ui/client";'),
    ("docs/reference/conformance.md", 'make test TESTS="tests/conformance tests/a2a"'),
    ("docs/tutorials/first-agent.md", "export PYTHONPATH=~/agents"),
    ("docs/how-to/archives.md", "zcat SESSION.jsonl.gz | head -n 1 | python3 -m json.tool"),
    (
        "docs/how-to/remote-agents.md",
        "./manage.py register_agent translator --card https://agents.example.org/translator --access public",
    ),
}
"""Blocks that are not executed, each with a comment that says why: by page and first line."""


@pytest.mark.timeout(400)
@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_page_does_what_it_says(path: Path, reader: Reader) -> None:
    reader.follow(page_at(path))


def test_blocks_that_are_not_executed_are_few_and_known(pages: list[Page]) -> None:
    found = {(page.name, block.code.splitlines()[0]) for page in pages for block in page.blocks if block.why_not}
    assert found == NOT_RUN


def test_what_curl_answers_is_shown(pages: list[Page]) -> None:
    """curl succeeds for a JSON-RPC error, so only the comparison finds it."""
    silent = [
        block.where
        for page in pages
        for block in page.blocks
        if "curl " in block.code and block.language == "sh" and not (block.why_not or block.output)
    ]
    assert silent == []


@pytest.mark.timeout(400)
def test_all_python_of_the_pages_is_clean_under_strict_mypy(
    pages: list[Page], tmp_path: Path, type_checked: TypeChecked
) -> None:
    generate(tmp_path)  # a page imports it
    for path in (tmp_path / PACKAGE).rglob("*.py"):
        path.write_text(f"# mypy: ignore-errors\n{path.read_text()}")  # it is typed, but generated
    code, told = type_checked(tmp_path, write_python(pages, tmp_path))
    assert code == 0, told


def write_python(pages: list[Page], folder: Path) -> list[str]:
    sources = {f"{page.module}.py": page.python for page in pages if page.python}
    sources |= {
        block.file: block.code for page in pages for block in page.blocks if block.file and block.file.endswith(".py")
    }
    for name, source in sources.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(source)
    return list(sources)


def test_the_readmes_pictures_are_there_and_small() -> None:
    pictures = re.findall(r'(?:src|srcset)="([^"]+)"', (ROOT / "README.md").read_text())
    assert len(pictures) == 4
    assert [name for name in pictures if (ROOT / name).stat().st_size > 150_000] == []
