"""Registers agents in the tests' Parley, all in one process because Django starts slowly.

Usage: python -m tests.remote.peers.registering SLUG[=CARD URL]...; without a URL, Parley hosts the agent.
"""

from __future__ import annotations

import os
import sys

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "parley.settings")
django.setup()

from apps.agents.models import Agent  # noqa: E402  (needs Django's apps)
from apps.agents.registration import register_hosted  # noqa: E402
from apps.remote.registration import register_remote  # noqa: E402


def main(wanted: list[str]) -> None:
    for slug, _, url in (one.partition("=") for one in wanted):
        if url:
            register_remote(slug, url=url, update=True)
        else:
            register_hosted(slug, "tests.remote.peers.hosted:Acting", access=Agent.Access.PUBLIC)


if __name__ == "__main__":
    main(sys.argv[1:])
