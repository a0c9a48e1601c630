"""Fixtures of the A2A tests."""

from tests.a2a.conftest import *  # noqa: F403
