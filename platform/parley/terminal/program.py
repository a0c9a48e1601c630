"""The client's command line: arguments, exit codes, and errors as one sentence."""

from __future__ import annotations

import argparse
import contextlib
import getpass
import os
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import httpx2

from parley.terminal import COMMANDS, chat, work
from parley.terminal.client import (
    DEFAULT_URL,
    JSON,
    UNREACHABLE,
    Failure,
    Login,
    Parley,
    checked_url,
    find_login,
    login_file,
    store_login,
)
from parley.terminal.completing import agent_slugs
from parley.terminal.questions import read_pipe
from parley.terminal.screen import Screen, one_line

SHELLS = ("bash", "zsh", "fish")
EXIT_CODES = f"""exit codes:
  0    done
  1    refused, or the task failed or was rejected
  2    wrong arguments
  {chat.ASKS}    the agent waits for an answer; go on with --continue
  {UNREACHABLE}    no connection, no key or a wrong one, or no Parley of this version
  {chat.INTERRUPTED}  canceled, or left with Ctrl-C

PARLEY_URL and PARLEY_API_KEY override
what `parley login` has stored.
NO_COLOR turns colors off."""


def main() -> None:
    """The program `parley` of a machine that has this client alone."""
    sys.exit(run(sys.argv[1:]))


def run(words: list[str], transport: httpx2.BaseTransport | None = None) -> int:
    """The exit code of a command. `words`: what people typed after the program's name."""
    for stream in (sys.stdin, sys.stdout, sys.stderr):  # bytes that are no text end no conversation
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    try:
        return _run(_parse(words), transport)
    except Failure as failure:
        print(f"parley: {one_line(str(failure), most=1000)}", file=sys.stderr)
        return failure.code
    except EOFError:
        print("parley: The input ended before an answer.", file=sys.stderr)
        return chat.ASKS
    except KeyboardInterrupt:
        return chat.INTERRUPTED
    except BrokenPipeError:  # who reads has left
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return chat.FAILED


def _parse(words: list[str]) -> argparse.Namespace:
    parser = _parser()
    if "_ARGCOMPLETE" in os.environ:  # the shell asks what may come next
        import argcomplete

        argcomplete.autocomplete(parser)
    return parser.parse_args(words)


def _run(options: argparse.Namespace, transport: httpx2.BaseTransport | None) -> int:
    if options.command == "completion":
        return _print_completion(options.shell)
    if options.command == "login":
        return _login(options.address, transport)
    if options.command == "logout":
        login_file().unlink(missing_ok=True)
        print(f"Forgot the key. It is valid until somebody revokes it. {login_file()} is gone.", file=sys.stderr)
        return 0
    screen = Screen(as_json=options.json, save=getattr(options, "save", None))
    parley = Parley(find_login(), transport)
    if options.command in ("chat", "ask"):
        return chat.chat(parley, screen, options, read_pipe(with_answers=options.answers))
    commands = {"agents": work.agents, "tasks": work.tasks, "plans": work.plans}
    return commands[options.command](parley, screen, options)


def _print_completion(shell: str) -> int:
    from argcomplete.shell_integration import shellcode

    print(shellcode(["parley"], shell=shell))
    return 0


def _login(address: str | None, transport: httpx2.BaseTransport | None) -> int:
    """The key is typed or piped, so that no list of processes shows it. It is tried before it is stored."""
    is_person = sys.stdin.isatty()
    if address is None:
        address = os.environ.get("PARLEY_URL") or (input(f"Address [{DEFAULT_URL}]: ") if is_person else "")
    url = checked_url(address or DEFAULT_URL)
    key = os.environ.get("PARLEY_API_KEY", "")
    if not key:
        prompt = f"API key, from {url}/settings/keys: "
        key = getpass.getpass(prompt) if is_person else sys.stdin.readline()
    if not key.strip():
        raise Failure("There is no key. Type it, or pipe it: parley login ADDRESS < FILE", code=2)
    login = Login(url, key.strip())
    found: JSON = Parley(login, transport).get("/agents", limit=1)
    if "items" not in (found or {}):
        raise Failure(f"{url} is no Parley. Check the address.", code=UNREACHABLE)
    try:
        path = store_login(login)
    except OSError as error:
        raise Failure(
            f"{login_file()} cannot be written: {error.strerror}. Set XDG_CONFIG_HOME to a folder of yours."
        ) from None
    if httpx2.URL(url).scheme == "http" and httpx2.URL(url).host not in ("localhost", "127.0.0.1", "::1"):
        print("Warning: the key travels unencrypted. Prefer https.", file=sys.stderr)
    print(f"Logged in to {one_line(url)}. The key is in {path}. Try: parley agents", file=sys.stderr)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="parley",
        description="Talk to the agents of a Parley from a terminal.",
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"Parley {_version()}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def command(name: str, *aliases: str, is_json: bool = True) -> argparse.ArgumentParser:
        text, form = COMMANDS[name], argparse.RawDescriptionHelpFormatter
        added = commands.add_parser(
            name, aliases=aliases, help=text, description=text, epilog=EXIT_CODES, formatter_class=form
        )
        if is_json:
            _add_json(added)
        return added

    login = command("login", is_json=False)
    login.add_argument("address", nargs="?", help=f"address of the installation, such as {DEFAULT_URL}")
    command("logout", is_json=False)
    listed = command("agents")
    listed.add_argument("--all", action="store_true", help="also those that only agents and plans use")
    _add_limit(listed)
    _add_chat(command("chat", "ask"))
    _add_tasks(command("tasks"))
    _add_plans(command("plans"))
    command("completion", is_json=False).add_argument(
        "shell", choices=SHELLS, help="such as: source <(parley completion bash)"
    )
    return parser


def _version() -> str:
    for distribution in ("parley-platform", "parley-cli"):
        with contextlib.suppress(PackageNotFoundError):
            return version(distribution)
    return "from source"


def _add_chat(parser: argparse.ArgumentParser) -> None:
    _complete(parser.add_argument("slug", help="name of the agent, as `parley agents` lists it"))
    parser.add_argument("text", nargs="?", help="one message; what a pipe has is added to it")
    parser.add_argument("--answers", action="store_true", help="the pipe has answers to questions, a line each")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--session", default="", metavar="ID", help="the session to continue")
    which.add_argument("--continue", "-c", dest="latest", action="store_true", help="continue the newest session")
    _add_files(parser)


def _add_tasks(parser: argparse.ArgumentParser) -> None:
    states = [*chat.ENDED, *chat.WAITING, "submitted", "working"]
    parser.add_argument("--state", action="append", choices=states, metavar="STATE", help=f"only: {', '.join(states)}")
    _complete(parser.add_argument("--agent", metavar="SLUG", help="only tasks of this agent"))
    parser.add_argument("--waiting", action="store_true", help="only tasks that ask you something")
    _add_limit(parser)
    actions = parser.add_subparsers(dest="action", metavar="ACTION")
    show = actions.add_parser("show", help="show a task and what it delivered")
    cancel = actions.add_parser("cancel", help="cancel a task and all tasks that it started")
    for one in (show, cancel):
        one.add_argument("id", help="id of the task")
        _add_json(one, default=argparse.SUPPRESS)
    show.add_argument("--save", type=Path, metavar="DIR", help="save its files in this folder")


def _add_plans(parser: argparse.ArgumentParser) -> None:
    _add_limit(parser)
    actions = parser.add_subparsers(dest="action", metavar="ACTION")
    started = actions.add_parser("run", help="run a plan, or follow a run by its id, until it ends")
    started.add_argument("plan", help="name of the plan, or id of a run")
    started.add_argument("--input", action="append", default=[], metavar="NAME=VALUE", help="an input; can be repeated")
    started.add_argument("--text", default="", help="a text for the plan")
    _add_files(started)
    _add_json(started, default=argparse.SUPPRESS)


def _complete(action: argparse.Action) -> None:
    action.completer = agent_slugs  # type: ignore[attr-defined]


def _add_files(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--file", action="append", default=[], metavar="F", help="a file to attach; can be repeated")
    parser.add_argument("--save", type=Path, metavar="DIR", help="save the answer's files in this folder")


def _add_limit(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--limit", type=_positive, default=50, metavar="N", help="at most so many (50)")


def _add_json(parser: argparse.ArgumentParser, default: bool | str = False) -> None:
    parser.add_argument("--json", action="store_true", default=default, help="JSON lines, for scripts")


def _positive(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 10_000:
        raise argparse.ArgumentTypeError("must be 1 to 10000")
    return int(text)
