"""How an agent's folder becomes a process: the commands that make its environment, and the one that runs it."""

from __future__ import annotations

import os
import re
import shutil
import sys
import tomllib
from pathlib import Path
from typing import Any

import agentkit
from agentkit import HandlerError
from agentkit.command.folders import Description

KIT_NEEDS = ("httpx2>=2.16", "markdown-it-py>=4.0", "pydantic>=2.12", "pyyaml>=6.0", "starlette>=1", "uvicorn>=0.54")
"""What `agentkit serve` needs. The kit itself is this installation's."""
FAST = ("httptools>=0.8", "uvloop>=0.22")
"""What makes it fast: uvicorn uses them where they are."""
OF_INSTALLERS = re.compile(r"(UV|PIP|NPM_CONFIG|SSL_CERT)_|(HTTPS?|ALL|NO)_PROXY\Z|NODE_EXTRA_CA_CERTS\Z", re.I)
"""Variables of this process that programs get which install packages, and agents do not: mirrors, proxies, CAs."""
PATH = "/usr/local/bin:/usr/bin:/bin"

type Json = dict[str, Any]


def plan(code: Path, home: Path, kit: Path, secrets: dict[str, str], socket: Path) -> Json:
    """What the keeper is asked for: `folder`, `home`, `setup`, `run`, `environment`, `limits`.

    Args:
        code: the unpacked folder.
        home: a folder for what its process writes.
        kit: a folder of which the agentkit package is imported.
        socket: where it listens.

    Raises:
        HandlerError: its description is wrong, or this machine lacks a program.
    """
    described = Description.read(code)
    environment = {"PATH": PATH, "LANG": "C.UTF-8", "PYTHONUNBUFFERED": "1", "A2A_SOCKET": str(socket)}
    setup, run = [], described.serve
    if (code / "package.json").exists():
        npm = _program("npm", "Node.js")
        setup.append([npm, "ci" if (code / "package-lock.json").exists() else "install", "--no-audit", "--no-fund"])
        environment["PATH"] = f"{Path(npm).parent}:{PATH}"
    else:
        python = home / "env" / "bin" / "python"
        setup += _python_setup(code, home / "env", serves_itself=bool(run))
        environment |= {"PATH": f"{python.parent}:{environment['PATH']}", "VIRTUAL_ENV": str(home / "env")}
        if not run:
            environment["PYTHONPATH"] = str(kit)
            run = [str(python), "-m", "agentkit", "serve", ".", "--uds", str(socket)]
    if not run:
        raise HandlerError("agent.yaml says no `serve`: the command that starts its A2A server at $A2A_SOCKET.")
    run = [word.replace("$A2A_SOCKET", str(socket)) for word in run]
    limits = {"memory": described.memory, "start": described.start_seconds}
    named = {name: value for name, value in secrets.items() if name in described.secrets}
    installing = {name: value for name, value in os.environ.items() if OF_INSTALLERS.match(name)}
    installing["UV_NO_CONFIG"] = "1"  # which uv looks for in all folders above: DATA_DIR may be in Parley's checkout
    return {
        "setup_environment": installing,
        "folder": str(code), "home": str(home), "setup": setup, "run": run, "environment": {**named, **environment},
        "limits": limits,
    }  # fmt: skip


def _python_setup(code: Path, env: Path, *, serves_itself: bool) -> list[list[str]]:
    """Commands that make a virtual environment and install what the folder asks for. Raises HandlerError."""
    python, uv = str(env / "bin" / "python"), _uv()
    base = os.path.realpath(sys.executable)  # by one name in all processes: other commands make it again
    wanted: list[str] = [] if serves_itself else [*KIT_NEEDS, *FAST]
    make = [uv, "venv", "--quiet", "--clear", "--no-project", "--python", base, str(env)] if uv else []
    install = (
        [uv, "pip", "install", "--quiet", "--python", python] if uv else [python, "-m", "pip", "install", "--quiet"]
    )
    more: list[list[str]] = []
    if (code / "requirements.txt").exists():
        wanted += ["-r", "requirements.txt"]
    elif uv and (code / "uv.lock").exists():
        more = [[uv, "sync", "--quiet", "--active", "--frozen", "--inexact", "--no-dev", "--no-install-project"]]
    elif (code / "pyproject.toml").exists():
        wanted += _dependencies(code / "pyproject.toml")
    setup = [make or [base, "-m", "venv", "--clear", str(env)], *more]
    return [*setup, [*install, *wanted]] if wanted else setup


def _dependencies(project: Path) -> list[str]:
    """Of a pyproject.toml, without agentkit, which is this installation's. Raises HandlerError."""
    try:
        stated = tomllib.loads(project.read_text(encoding="utf-8")).get("project", {}).get("dependencies", [])
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise HandlerError(f"pyproject.toml cannot be read: {error}.") from None
    return [one for one in stated if not one.startswith("parley-agentkit")]


def _uv() -> str | None:
    """uv, which is much faster than pip. The path is asked last, because it differs between processes."""
    places = (Path(sys.executable).parent, Path(sys.prefix).parent / ".tools" / "bin", None)
    return next((found for place in places if (found := shutil.which("uv", path=place and str(place)))), None)


def _program(name: str, what: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise HandlerError(f"{name} is missing on this machine: install {what}.")
    return found


def link_kit(at: Path) -> Path:
    """A folder in which nothing but the agentkit package of this installation can be imported."""
    at.mkdir(parents=True, exist_ok=True)
    link, package = at / "agentkit", Path(agentkit.__file__).parent
    if not link.is_symlink() or link.readlink() != package:
        link.unlink(missing_ok=True)
        link.symlink_to(package)
    return at
