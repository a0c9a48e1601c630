"""Keeping the secrets that a run was lent out of everything that it says."""

from __future__ import annotations

import base64
import dataclasses
import re
from typing import Any

from agentkit import Credential

MARK = "•••"
SHORTEST = 8  # characters of a secret that is looked for: a shorter one would hit innocent words


class Redaction:
    """Replaces the secrets it was told of, wherever they stand as they are. It knows none at first, and costs nothing.

    What an agent disguises (by splitting, hashing or encoding it) is not recognised.
    """

    def __init__(self) -> None:
        self._secrets: frozenset[str] = frozenset()
        self._pattern: re.Pattern[str] | None = None

    def learn(self, credential: Credential) -> None:
        """Keep the credential's secret out of what follows, also in the form of an `Authorization` header."""
        self.keep_out(credential.secret)
        if credential.auth_type == "basic":
            self.keep_out(credential.authorization.removeprefix("Basic "))

    def keep_out(self, *secrets: str) -> None:
        """Keep these texts out of what follows."""
        self._secrets |= {secret for secret in secrets if len(secret) >= SHORTEST}
        longest_first = sorted(self._secrets, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, longest_first))) if longest_first else None

    def __call__[T](self, value: T) -> T:
        """The value (JSON, an outcome, an emission) without the secrets."""
        return value if self._pattern is None else self._redacted(value)

    def held_back(self, text: str) -> int:
        """How many characters at the end of a text may be the beginning of a secret, whose rest is still to come."""
        longest = max(map(len, self._secrets), default=0) - 1
        candidates = range(min(longest, len(text)), 0, -1)
        return next((n for n in candidates if any(secret.startswith(text[-n:]) for secret in self._secrets)), 0)

    def _redacted(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, dict):
            return {
                self._text(name): self._raw(one) if name == "raw" else self._redacted(one)
                for name, one in value.items()
            }
        if isinstance(value, list | tuple):
            return [self._redacted(one) for one in value]
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            values = {name: self._redacted(one) for name, one in vars(value).items()}
            return type(value)(**values)
        return value

    def _text(self, text: str) -> str:
        return self._pattern.sub(MARK, text) if self._pattern else text

    def _raw(self, value: Any) -> Any:
        """The content of a file: a part's `raw`, which is base64 by now."""
        if not isinstance(value, str):
            return self._redacted(value)
        try:
            content = base64.b64decode(value, validate=True)
        except ValueError:
            return self._text(value)
        for secret in self._secrets:
            content = content.replace(secret.encode(), MARK.encode())
        return base64.b64encode(content).decode()
