"""Wrong passwords are counted, so that nobody can try many."""

from __future__ import annotations

import hashlib

from django.core.cache import cache

from apps.accounts.models import User

MOST_FAILURES = 10  # wrong passwords for one name within FAILURE_WINDOW
FAILURE_WINDOW = 10 * 60  # seconds


class Attempts:
    """The wrong passwords that were given lately for a name, such as an address and where it came from."""

    def __init__(self, *name: str) -> None:
        self._key = "sign-in:" + hashlib.sha256("\0".join(name).encode()).hexdigest()

    @property
    def are_too_many(self) -> bool:
        return int(cache.get(self._key, 0)) >= MOST_FAILURES

    def count(self) -> None:
        cache.add(self._key, 0, FAILURE_WINDOW)
        cache.incr(self._key)


def password_problem(user: User, password: str) -> str:
    """Why the password does not confirm that the user is here; "" if it does."""
    attempts = Attempts("confirm", str(user.pk))
    if not password:
        return "Enter your password."
    if attempts.are_too_many:
        return "Too many wrong passwords. Wait ten minutes, then try again."
    if user.check_password(password):
        return ""
    attempts.count()
    return "This is not your password. Capital letters count."
