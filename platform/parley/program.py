"""The program `parley`: a client of any installation, and the commands of this one."""

import os
import sys
from importlib.metadata import version
from pathlib import Path
from typing import NoReturn

from parley import terminal

DISTRIBUTION = "parley-platform"


def main() -> None:
    """The program `parley` of an installed package, and `manage.py` of a checkout."""
    words = sys.argv[1:]
    if words in (["version"], ["--version"]):
        print(f"Parley {version(DISTRIBUTION)}")
    elif words[:1] == ["help"] and words[1:2] and words[1] in terminal.COMMANDS:
        _run_client([words[1], "--help"])
    elif (words and words[0] in terminal.COMMANDS) or "_ARGCOMPLETE" in os.environ:
        _run_client(words)
    else:
        _run_django_command(words)


def _run_client(words: list[str]) -> NoReturn:
    from parley.terminal.program import run

    sys.exit(run(words))


def _run_django_command(words: list[str]) -> None:
    from django.core.exceptions import ImproperlyConfigured

    from parley.faces.commands import Installation

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "parley.settings")
    try:
        if words in ([], ["help"], ["--help"], ["-h"]):
            _print_client_commands()
        Installation(sys.argv).execute()
    except ImproperlyConfigured as error:  # a sentence for whoever wrote the settings
        sys.exit(f"{program()}: {error}")


def _print_client_commands() -> None:
    print("Talk to the agents of any Parley:\n")
    for name, text in terminal.COMMANDS.items():
        print(f"  {name:<12}{text}")
    print(f"\nEach has --help, such as `{program()} chat --help`. The commands of this installation:", flush=True)


def program() -> str:
    """What people type before a command's name, here."""
    name = Path(sys.argv[0]).name
    return "parley" if name == "parley" else "./manage.py"
