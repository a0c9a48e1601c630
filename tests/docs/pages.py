"""Documentation pages as fenced blocks, with the comments before them.

<!-- file: my_agents/packer.py -->         it is that file, in the reader's folder
<!-- output -->                            what the block before prints; `…` stands for anything
<!-- not run: it installs things -->       it is not executed, for that reason
"""

import re
from dataclasses import dataclass, field, replace
from pathlib import Path

from markdown_it import MarkdownIt

from tests.stack import ROOT

COMMENT = re.compile(r"<!--\s*(file|output|not run)(?::\s*(.+?))?\s*-->\s*$", re.DOTALL)
EXECUTED = ("python", "sh", "console")
PAGES = (
    ROOT / "README.md",
    ROOT / "platform" / "agentkit" / "README.md",
    ROOT / "docs" / "reference" / "agentkit.md",
    ROOT / "docs" / "reference" / "conformance.md",
    *sorted((ROOT / "docs" / "doors").glob("*.md")),
    *sorted((ROOT / "docs" / "tutorials").glob("*.md")),
    *sorted((ROOT / "docs" / "how-to").rglob("*.md")),
)


class PageError(AssertionError):
    """A page shows something untested."""


@dataclass(frozen=True)
class Block:
    """A fenced block. `line` is its first line, from 1; `output` is expected."""

    page: str
    line: int
    language: str
    code: str
    file: str | None = None
    why_not: str | None = None
    output: str | None = None

    @property
    def is_module(self) -> bool:
        """Is it a module of the reader's own environment, and not of an agent's folder?"""
        return (self.file or "").endswith(".py") and not self.page.startswith("docs/how-to/bring-your-agent/")

    @property
    def where(self) -> str:
        return f"{self.page}:{self.line}"


@dataclass(frozen=True)
class Page:
    """A page; `name` is its path in the repository."""

    name: str
    blocks: list[Block] = field(default_factory=list)

    @property
    def module(self) -> str:
        return re.sub(r"\W+", "_", self.name.removesuffix(".md")).lower()

    @property
    def python(self) -> str:
        """The Python blocks that are no files, as one module."""
        return "\n\n".join(
            block.code for block in self.blocks if block.language == "python" and not (block.file or block.why_not)
        )


def page_at(path: Path, root: Path = ROOT) -> Page:
    """Raises PageError if a block is not executed, not a file, and has no reason."""
    return page_of(path.read_text(), str(path.relative_to(root)))


def page_of(text: str, name: str) -> Page:
    """A page from its Markdown. Raises PageError as `page_at` does."""
    page, mark = Page(name), None
    for token in MarkdownIt("commonmark").parse(text):
        if token.type == "html_block":
            mark = COMMENT.match(token.content)
        elif token.type == "fence":
            assert token.map
            _take(page, token.info.split(" ")[0], token.content, token.map[0] + 2, mark)
            mark = None
        elif token.content:
            mark = None
    return page


def _take(page: Page, language: str, code: str, line: int, mark: re.Match[str] | None) -> None:
    kind, said = mark.groups() if mark else (None, None)
    where = f"{page.name}:{line}"
    if (kind in ("file", "not run")) != bool(said):
        raise PageError(f"{where}: <!-- {kind}: --> needs a word more, <!-- output --> needs none.")
    if kind == "output":
        if not page.blocks or page.blocks[-1].language not in ("python", "sh"):
            raise PageError(f"{where}: there is nothing before it that prints.")
        page.blocks[-1] = replace(page.blocks[-1], output=code)
        return
    if kind is None and language not in EXECUTED:
        raise PageError(f"{where}: nothing executes {language or 'this'}; say what it is in a comment before it.")
    file, why_not = (said, None) if kind == "file" else (None, said)
    page.blocks.append(Block(page.name, line, language, code, file, why_not))
