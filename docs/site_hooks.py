"""MkDocs hooks: what leads out of this folder.

The site also has agentkit's README, which stays beside its package in the repository. It has no other file from there.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

README = Path(__file__).parents[1] / "platform" / "agentkit" / "README.md"
PAGE = "how-to/agentkit.md"
LINK = re.compile(r"\((?:\.\./)+platform/agentkit/README\.md")
UPWARD = re.compile(r"\[([^\]]+)\]\(((?:\.\./)+[^)]*)\)")


def on_files(files: Files, config: Any) -> Files:
    """Add the README as a page."""
    files.append(File.generated(config, PAGE, abs_src_path=str(README)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Let links to the README lead to that page, and leave of other links out of `docs` only their words."""
    folder = posixpath.dirname(page.file.src_uri)

    def within(link: re.Match[str]) -> str:
        return link[1] if posixpath.normpath(posixpath.join(folder, link[2])).startswith("..") else link[0]

    return UPWARD.sub(within, LINK.sub(f"({posixpath.relpath(PAGE, folder or '.')}", markdown))
