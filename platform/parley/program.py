"""The program `parley`: a client of any installation, and the commands of this one."""

import logging
import os
import sys
from importlib.metadata import version
from pathlib import Path
from typing import NoReturn

from parley import terminal

DISTRIBUTION = "parley-platform"
FOLDER_COMMANDS = ("add", "log", "secret")
"""Of `parley agents`: of this installation, not of the client."""


def main() -> None:
    """The program `parley` of an installed package, and `manage.py` of a checkout."""
    words = sys.argv[1:]
    if words in (["version"], ["--version"]):
        print(f"Parley {version(DISTRIBUTION)}")
    elif words[:1] == ["help"] and words[1:2] and words[1] in terminal.COMMANDS:
        _run_client([words[1], "--help"])
    elif words[:1] == ["agents"] and words[1:2] and words[1] in FOLDER_COMMANDS:
        _run_django_command(words)
    elif (words and words[0] in terminal.COMMANDS) or "_ARGCOMPLETE" in os.environ:
        _run_client(words)
    else:
        _run_django_command(words)


def _run_client(words: list[str]) -> NoReturn:
    from parley.terminal.program import run

    sys.exit(run(words))


def _run_django_command(words: list[str]) -> None:
    from django.db import Error

    from parley.environment import find_settings
    from parley.faces.commands import Installation
    from parley.misconfigured import refused

    with refused():
        find_settings()
        if words in ([], ["help"], ["--help"], ["-h"]):
            _print_client_commands()
        if words[:1] != ["serve"]:
            logging.getLogger("psycopg.pool").setLevel(logging.ERROR)  # a command says it once, below
        try:
            Installation(sys.argv).execute()
        except Error:
            _explain_database()
            raise


def _explain_database() -> None:
    """Raises Misconfigured if the database cannot be used, or lacks tables of this version."""
    from django.db import NotSupportedError, connection

    from parley.db import reach, versions
    from parley.misconfigured import Misconfigured

    reach.check()
    try:
        missing = versions.missing(connection)
    except NotSupportedError as error:
        raise Misconfigured(str(error), "Upgrade the database server.") from error
    if missing:
        raise Misconfigured(f"The database lacks {len(missing)} migrations.", f"Run {program()} prepare.")


def _print_client_commands() -> None:
    print("Talk to the agents of any Parley:\n")
    for name, text in terminal.COMMANDS.items():
        print(f"  {name:<12}{text}")
    print(f"\nEach has --help, such as `{program()} chat --help`. The commands of this installation:", flush=True)


def program() -> str:
    """What people type before a command's name, here."""
    name = Path(sys.argv[0]).name
    return "parley" if name == "parley" else "./manage.py"
