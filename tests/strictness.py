"""The strict reading of answers is that of tests/a2a."""

from tests.a2a.strictness import read_strictly, strict_clients, strict_operations

__all__ = ["read_strictly", "strict_clients", "strict_operations"]
