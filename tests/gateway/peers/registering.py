"""Registers agents in a Parley of the tests, with its environment.

Usage: python -m tests.gateway.peers.registering hosted SLUG
"""

from __future__ import annotations

import os
import sys

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
django.setup()

from apps.agents.models import Agent  # noqa: E402  (needs Django's apps)
from apps.agents.registration import register_hosted  # noqa: E402


def main(slug: str) -> None:
    register_hosted(slug, "tests.gateway.peers.hosted:Acting", access=Agent.Access.PUBLIC)


if __name__ == "__main__":
    main(sys.argv[2])
