"""The server of another installation's documents."""

from tests.remote.conftest import cards_at, outward

__all__ = ["cards_at", "outward"]
