#!/usr/bin/env python3
"""Parley's commands (`./manage.py help`)."""

import os
import sys
from pathlib import Path


def use_the_project_interpreter() -> None:
    """Start again inside `.venv`, so that `./manage.py` works in a shell that has not activated it."""
    venv = Path(__file__).resolve().parent / ".venv"
    if Path(sys.prefix) != venv and "VIRTUAL_ENV" not in os.environ and (python := venv / "bin" / "python").exists():
        os.execv(python, [str(python), *sys.argv])  # noqa: S606


if __name__ == "__main__":
    use_the_project_interpreter()
    from parley.program import main

    main()
