"""Names that the shell completes, with nothing said about what fails: a person is typing."""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from parley.terminal.client import Failure, Login, Parley, find_login

FRESH = 30.0  # seconds for which names count, also those of a server that is away
PATIENCE = 1.0  # seconds
MOST = 100
SLUG = re.compile(r"[\w-]+", re.ASCII)


def agent_slugs(**_: Any) -> list[str]:
    """The agents that the stored key may use."""
    with suppress(Failure, OSError):
        login = find_login()
        kept = _cache_file(login)
        names, age = _read(kept)
        if age > FRESH:
            with suppress(Failure):
                names = _ask(login)
            _write(kept, names)
        return names
    return []


def _ask(login: Login) -> list[str]:
    """Raises Failure."""
    found = Parley(login).glance("/agents", PATIENCE, limit=MOST)
    rows = found.get("items") if isinstance(found, dict) else None
    slugs = [one.get("slug") for one in rows or [] if isinstance(one, dict)]
    return [one for one in slugs if isinstance(one, str) and SLUG.fullmatch(one)]


def _cache_file(login: Login) -> Path:
    home = os.environ.get("XDG_CACHE_HOME") or (os.environ.get("LOCALAPPDATA") if os.name == "nt" else "")
    key = hashlib.sha256(f"{login.url} {login.key}".encode()).hexdigest()[:16]
    return Path(home or Path.home() / ".cache") / "parley" / f"agents-{key}.json"


def _read(path: Path) -> tuple[list[str], float]:
    """The names, and their age in seconds."""
    with suppress(OSError, ValueError, TypeError):
        names = [one for one in json.loads(path.read_text(encoding="utf-8")) if SLUG.fullmatch(one)]
        return names, time.time() - path.stat().st_mtime
    return [], FRESH + 1


def _write(path: Path, names: list[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    new = path.with_name(f"{path.name}.{os.getpid()}")
    new.write_text(json.dumps(names), encoding="utf-8")
    new.replace(path)
