"""Mistakes of configuration: each is said in two lines, its cause and what to do, and ends the process."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

from django.core.exceptions import ImproperlyConfigured

CORRECT_IT = "Correct it in .env or in the environment. docs/reference/settings.md explains each setting."
MAKE_KEY = "Put a new one into .env or the environment: python3 -c 'import secrets; print(secrets.token_urlsafe({}))'"


class Misconfigured(ImproperlyConfigured):
    """Parley cannot work so.

    Attributes:
        cause: what is wrong, in a sentence that names the setting and has no secret.
        advice: what to do, in a sentence.
        code: the exit code of the process: EX_UNAVAILABLE if waiting may help.
    """

    def __init__(self, cause: str, advice: str = CORRECT_IT, *, code: int = os.EX_CONFIG) -> None:
        super().__init__(cause, advice)
        self.cause, self.advice, self.code = " ".join(cause.split()), advice, code

    def __str__(self) -> str:
        return f"{self.cause} {self.advice}"


def say(outcome: str, mistake: Misconfigured) -> None:
    """Write the two lines to standard error, the first after `outcome`."""
    print(f"{outcome}: {mistake.cause}\n{mistake.advice}", file=sys.stderr, flush=True)


def stop(*mistakes: Misconfigured) -> NoReturn:
    """End the process with two lines for each mistake. Raises SystemExit."""
    for mistake in mistakes:
        say("Parley does not start", mistake)
    raise SystemExit(mistakes[0].code)


@contextmanager
def refused() -> Iterator[None]:
    """Code that reads the configuration: its mistakes end the process. Raises SystemExit."""
    try:
        yield
    except Misconfigured as mistake:
        stop(mistake)
    except ImproperlyConfigured as error:  # of Django, of a library or of an app
        stop(Misconfigured(str(error)))
    except ModuleNotFoundError as error:
        named = os.environ.get("DJANGO_SETTINGS_MODULE", "")
        if not error.name or not f"{named}.".startswith(f"{error.name}."):
            raise
        advice = "Name parley.settings, or a module whose folder is in PYTHONPATH."
        stop(Misconfigured(f"DJANGO_SETTINGS_MODULE names {named}, and there is no module {error.name}.", advice))
