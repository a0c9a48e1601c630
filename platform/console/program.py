"""The program `parley`: a client of any installation, and the commands of this one."""

import os
import sys
from importlib.metadata import version
from pathlib import Path

import terminal

DISTRIBUTION = "parley-platform"


def main() -> None:
    """The program `parley` of an installed package, and `manage.py` of a checkout."""
    words = sys.argv[1:]
    if words in (["version"], ["--version"]):
        print(f"Parley {version(DISTRIBUTION)}")
    elif words and words[0] in terminal.COMMANDS:
        from terminal.program import run

        sys.exit(run(words))
    else:
        _run_django_command(words)


def _run_django_command(words: list[str]) -> None:
    from django.core.exceptions import ImproperlyConfigured
    from django.core.management import execute_from_command_line

    if words in ([], ["help"], ["--help"], ["-h"]):
        print(f"Client of any Parley: {', '.join(terminal.COMMANDS)} (see `{program()} chat --help`).")
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    try:
        execute_from_command_line(sys.argv)
    except ImproperlyConfigured as error:  # a sentence for whoever wrote the settings
        sys.exit(f"{program()}: {error}")


def program() -> str:
    """What people type before a command's name, here."""
    name = Path(sys.argv[0]).name
    return "parley" if name == "parley" else "./manage.py"
