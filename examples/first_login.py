"""`DATA_DIR/first-login.txt`: the passwords and the API key that a new installation made for itself."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path

from django.conf import settings

HEADING = """\
What this installation made for itself at its first start. Whoever can read this file can sign in:
change the passwords, then delete it. It is not written again as long as the users exist.
"""
LINE = re.compile(r"^(password|API key) of (\S+): (\S+)$", re.MULTILINE)


@dataclass
class FirstLogin:
    """Secrets by e-mail address, as they were made; a person may have changed a password since."""

    passwords: dict[str, str] = field(default_factory=dict)
    api_keys: dict[str, str] = field(default_factory=dict)

    @staticmethod
    def path() -> Path:
        return Path(settings.DATA_DIR) / "first-login.txt"

    @classmethod
    def read(cls) -> FirstLogin:
        """What the file says; empty where there is none."""
        kept = cls()
        try:
            text = cls.path().read_text()
        except FileNotFoundError:
            return kept
        for kind, email, secret in LINE.findall(text):
            (kept.passwords if kind == "password" else kept.api_keys)[email] = secret
        return kept

    def write(self) -> None:
        """Replace the file at once (mode 600), so that nobody ever reads half of it."""
        lines = [f"password of {email}: {secret}" for email, secret in self.passwords.items()]
        lines += [f"API key of {email}: {secret}" for email, secret in self.api_keys.items()]
        path = self.path()
        draft = path.with_suffix(f".{os.getpid()}")
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            file.write("\n".join([HEADING, *lines, ""]))
        draft.replace(path)
