"""MkDocs hooks: the site also has agentkit's README, which stays beside its package in the repository."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

README = Path(__file__).parents[1] / "platform" / "agentkit" / "README.md"
PAGE = "how-to/agentkit.md"
LINK = re.compile(r"\((?:\.\./)+platform/agentkit/README\.md")


def on_files(files: Files, config: Any) -> Files:
    """Add the README as a page."""
    files.append(File.generated(config, PAGE, abs_src_path=str(README)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Let links to the README lead to that page."""
    folder = posixpath.dirname(page.file.src_uri)
    return LINK.sub(f"({posixpath.relpath(PAGE, folder or '.')}", markdown)
