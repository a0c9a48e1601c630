"""Code in the README, tutorials, guides and agentkit's reference works."""

import re
from pathlib import Path

import pytest

from tests.docs.pages import PAGES, Page, page_at
from tests.generated_client import PACKAGE, generate
from tests.stack import ROOT

pytestmark = pytest.mark.slow("documentation is executed")


@pytest.mark.timeout(400)
@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_page_does_what_it_says(path, reader):
    reader.follow(page_at(path))


def test_few_blocks_are_not_executed(pages):
    found = [block.where for page in pages for block in page.blocks if block.why_not]
    assert len(found) == 35, f"Lower the number, or have them executed: {found}"


def test_what_curl_answers_is_shown(pages):
    """curl succeeds for a JSON-RPC error, so only the comparison finds it."""
    silent = [
        block.where
        for page in pages
        for block in page.blocks
        if "curl " in block.code and block.language == "sh" and not (block.why_not or block.output or block.file)
    ]
    assert silent == []


@pytest.mark.timeout(400)
def test_python_of_pages_passes_strict_mypy(pages, tmp_path, type_checked):
    generate(tmp_path)  # a page imports it
    for path in (tmp_path / PACKAGE).rglob("*.py"):
        path.write_text(f"# mypy: ignore-errors\n{path.read_text()}")  # it is typed, but generated
    code, told = type_checked(tmp_path, write_python(pages, tmp_path))
    assert code == 0, told


def write_python(pages: list[Page], folder: Path) -> list[str]:
    sources = {f"{page.module}.py": page.python for page in pages if page.python}
    sources |= {block.file: block.code for page in pages for block in page.blocks if block.file and block.is_module}
    for name, source in sources.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(source)
    return list(sources)


def test_the_readmes_pictures_are_there_and_small():
    pictures = re.findall(r'(?:src|srcset)="([^"]+)"', (ROOT / "README.md").read_text())
    assert len(pictures) == 4
    assert [name for name in pictures if (ROOT / name).stat().st_size > 150_000] == []
