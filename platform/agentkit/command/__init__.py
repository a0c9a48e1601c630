"""The command `agentkit`: begin an agent, try it, test it, serve it, deploy it.

An agent's folder has an `agent.yaml` (see `agentkit.command.folders`).
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from agentkit.errors import HandlerError

TARGET, URL, TOKEN, PAGE, HOSTS = (f"AGENTKIT_{name}" for name in ("AGENT", "URL", "TOKEN", "PAGE", "HOSTS"))

NEW_FILES = {
    "agent.yaml": """handler: agent:{kind}
name: "{name}"
description: Repeats what you say, louder.
""",
    "agent.py": '''"""An agent. `agentkit dev` tries it; https://a2a-protocol.org says what others see of it."""

from agentkit import Completed, InputRequired, SkillHandler, TaskContext


class {kind}(SkillHandler):
    """Repeats what you say, louder."""

    async def on_request(self, task: TaskContext) -> Completed | InputRequired:
        if not task.message.text:
            return InputRequired("What shall I say?")
        await task.progress("Breathing in…")
        return Completed(task.message.text.upper())
''',
    "test_agent.py": """import unittest

from agent import {kind}
from agentkit import testing


class {kind}Test(unittest.IsolatedAsyncioTestCase):
    async def test_it_is_louder(self) -> None:
        run = await testing.run({kind}, "hello")
        self.assertEqual(run.said, "HELLO")
""",
    "pyproject.toml": """[project]
name = "{slug}"
version = "0.1.0"
requires-python = ">=3.12"
dependencies = ["parley-agentkit[serve]"]
""",
}


def main(arguments: list[str] | None = None) -> None:
    """Runs the command; exits with 2 and one sentence for a mistake, and with 1 for what failed on a server."""
    asked = _parser().parse_args(arguments)
    try:
        asked.run(asked)
    except HandlerError as mistake:
        sys.exit(_say(str(mistake)))
    except KeyboardInterrupt:
        sys.exit(130)


def _say(mistake: str, code: int = 2) -> int:
    print(f"agentkit: {mistake}", file=sys.stderr)
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="agentkit", description="Write an agent, try it, and serve it over A2A.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    new = commands.add_parser("new", help="make a folder with an agent that works")
    new.add_argument("folder", type=Path)
    new.set_defaults(run=_new)
    for name, run, said in (
        ("dev", _dev, "serve it with a page to talk to it, and again whenever a file changes"),
        ("serve", _serve, "serve it"),
    ):
        command = commands.add_parser(name, help=said)
        command.add_argument("agent", nargs="?", default=".", help="a folder with agent.yaml, or module:Name")
        command.add_argument("--host", default="127.0.0.1")
        command.add_argument("--port", type=int, default=8080)
        command.add_argument("--url", default="", help="its address for others, if that is another one")
        command.add_argument("--uds", default="", help="a Unix socket to listen on, instead of host and port")
        command.set_defaults(run=run)
    test = commands.add_parser("test", help="run the folder's tests, by pytest if it is installed")
    test.add_argument("folder", type=Path, nargs="?", default=Path())
    test.set_defaults(run=_test)
    deploy = commands.add_parser("deploy", help="send the folder to a Parley, which runs it")
    deploy.add_argument("url", help="where Parley is, such as https://parley.example")
    deploy.add_argument("folder", type=Path, nargs="?", default=Path())
    deploy.add_argument("--slug", default="", help="the agent's name in addresses; default: the folder's")
    deploy.add_argument("--access", choices=("public", "authenticated", "groups"), default="", help="who may use it")
    deploy.add_argument(
        "--secret",
        action="append",
        default=[],
        metavar="NAME[=VALUE]",
        help="a secret that agent.yaml names; without a value, the variable of this environment",
    )
    deploy.add_argument(
        "--candidate", action="store_true", help="a new version is not current yet: a rollout can try it with sessions"
    )
    deploy.add_argument("--token", default="", help="an operator's API key; better in the variable PARLEY_TOKEN")
    deploy.set_defaults(run=_deploy)
    return parser


def _new(asked: argparse.Namespace) -> None:
    folder: Path = asked.folder
    words = re.findall(r"[A-Za-z0-9]+", folder.resolve().name)
    if not words or not words[0][0].isalpha():
        raise HandlerError("The folder's name becomes the agent's: begin it with a letter.")
    if folder.exists() and any(folder.iterdir() if folder.is_dir() else [folder]):
        raise HandlerError(f"{folder} has something in it: name a new folder.")
    names = {"name": " ".join(words).capitalize(), "slug": "-".join(words).lower()}
    names["kind"] = "".join(word[0].upper() + word[1:] for word in words) + "Agent"
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in NEW_FILES.items():
        (folder / name).write_text(text.format(**names), encoding="utf-8")
    print(f"{folder} has an agent. Try it:\n\n    cd {folder}\n    agentkit test\n    agentkit dev\n")
    print("Then send it to a Parley: agentkit deploy URL")


def _serve(asked: argparse.Namespace, *, page: bool = False) -> None:
    try:
        import uvicorn

        from agentkit.command.folders import agent_at
        from agentkit.serving import allowed_hosts
    except ModuleNotFoundError as missing:
        raise HandlerError(f'{missing.name} is missing: pip install "parley-agentkit[serve]".') from None
    handler = agent_at(asked.agent)
    url = asked.url or f"http://{asked.host}:{asked.port}/"
    hosts = None if asked.uds else allowed_hosts(asked.host, url, os.environ.get(TOKEN, ""))
    os.environ |= {TARGET: asked.agent, URL: url, PAGE: "1" if page else "", HOSTS: " ".join(hosts or ())}
    print(f"{handler.name} answers at {asked.uds or url}", flush=True)
    uvicorn.run(
        "agentkit.command:application",
        factory=True,
        host=asked.host,
        port=asked.port,
        uds=asked.uds or None,
        reload=page,
        reload_dirs=[asked.agent if Path(asked.agent).is_dir() else "."] if page else None,
        log_level="warning",
    )


def _dev(asked: argparse.Namespace) -> None:
    _serve(asked, page=True)


def application() -> Any:
    """What uvicorn serves, by the environment; called again after a file changed."""
    from agentkit.command.folders import agent_at
    from agentkit.serving import application as serve

    url, token, page = os.environ[URL], os.environ.get(TOKEN, ""), bool(os.environ[PAGE])
    try:
        agent: object = agent_at(os.environ[TARGET])
    except HandlerError as mistake:  # a file is written just now
        if not page:
            raise
        _say(str(mistake))
        agent = _broken(str(mistake))
    return serve(agent, url, token=token, page=page, hosts=os.environ[HOSTS].split() or None)


def _broken(mistake: str) -> object:
    """An agent that says why the folder's cannot be loaded."""
    from agentkit import Failed, agent

    @agent(name="This agent cannot be loaded", description="It answers again once its files are right.")
    def answer(text: str) -> Failed:
        return Failed(mistake)

    return answer


def _test(asked: argparse.Namespace) -> None:
    by_pytest = importlib.util.find_spec("pytest") is not None
    command = ["pytest", "-q"] if by_pytest else ["unittest", "discover", "-p", "test_*.py"]
    sys.exit(subprocess.run([sys.executable, "-m", *command], cwd=asked.folder, check=False).returncode)  # noqa: S603


def _deploy(asked: argparse.Namespace) -> None:
    from agentkit.command import deploying

    try:
        deploying.run(asked)
    except deploying.DeployFailed as failure:
        if failure.log:
            print(f"\n{failure.log}\n", file=sys.stderr)
        sys.exit(_say(str(failure), 1))
