"""Refusals in the audit: the first of an address and account is an entry at once, the others of a minute are one more.

So a flood fills neither the table nor the log: a process writes at most two entries a minute for a pair, for
PAIRS_OF_ADDRESS accounts of an address and PAIRS in all. What goes beyond is counted together. Counts are in memory:
a web process writes them when it ends, and loses those of a minute if it is killed.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from contextvars import Context
from dataclasses import dataclass, field
from functools import partial
from time import monotonic

from django.contrib.auth.signals import user_login_failed
from django.http import HttpRequest

from apps.accounts import audit
from apps.accounts.audit import Actor, Subject
from apps.accounts.audit_models import ActorKind, AuditAction
from apps.accounts.principals import address_key
from apps.accounts.secrets.key_format import MARK
from parley import db

WINDOW = 60.0  # seconds
PAIRS_OF_ADDRESS = 10
PAIRS = 60
OTHERS = "other accounts"
KEY_PREFIX = re.compile(rf"{MARK}_[^\W_]{{1,16}}_", re.ASCII)
UNPROVEN = Actor(ActorKind.ANONYMOUS)  # the name that was claimed is the object


@dataclass
class Window:
    """The refusals of one minute: how often each, after the first."""

    until: float
    repeated: dict[tuple[AuditAction, str, str], int] = field(default_factory=dict)
    accounts: dict[str, int] = field(default_factory=dict)  # of each address


class Refusals:
    """Counts in memory. `later` is called with seconds and a function that writes what was counted."""

    def __init__(self, later: Callable[[float, Callable[[], None]], object], clock: Callable[[], float]) -> None:
        self._later, self._clock = later, clock
        self._lock = threading.Lock()
        self._window: Window | None = None

    def count(self, action: AuditAction, account: str, request: HttpRequest | None, reason: str = "") -> None:
        """Note a refusal. `account` is what the caller claimed to be."""
        address = str(request.META.get("REMOTE_ADDR", "")) if request else ""
        if (window := self._window) is not None and window.until <= self._clock():
            self.flush(window)
        with self._lock:
            if self._window is None:
                self._window = Window(self._clock() + WINDOW)
                self._later(WINDOW, partial(self.flush, self._window))
            account, is_first = _claim(self._window, action, address_key(address), account)
        if is_first:
            details = {"reason": reason} if reason else {}
            audit.record(action, actor=UNPROVEN, object=_account(account), details=details, request=request)

    def count_key(self, authorization: str, request: HttpRequest | None, reason: str = "") -> None:
        """Note an API key, or another credential, that was not accepted. Of a key only the public prefix is kept."""
        found = KEY_PREFIX.search(authorization)
        self.count(AuditAction.KEY_REFUSED, f"{found[0]}…" if found else "not an API key", request, reason)

    def count_sign_in(self, account: str, request: HttpRequest | None, reason: str = "") -> None:
        """Note a password that was not accepted: at sign-in, or from a signed-in person who should confirm."""
        confirms = request is not None and getattr(getattr(request, "user", None), "is_authenticated", False)
        action = AuditAction.PASSWORD_REFUSED if confirms else AuditAction.SIGN_IN_REFUSED
        self.count(action, account[:200], request, reason)

    def clear(self) -> None:
        """Forget what was counted."""
        with self._lock:
            self._window = None

    def flush_now(self) -> None:
        """Write what was counted so far."""
        self.flush(self._window)

    def flush(self, window: Window | None) -> None:
        """End the window and write its counts, unless it has ended. They belong to no request, not even to this one."""
        with self._lock:
            if window is not self._window:
                return
            self._window = None
        if window is not None:
            Context().run(_write, window)


def _claim(window: Window, action: AuditAction, address: str, account: str) -> tuple[str, bool]:
    """Count the refusal; the account that it counts for, and whether it is an entry of its own."""
    if (key := (action, address, account)) in window.repeated:
        window.repeated[key] += 1
        return account, False
    if window.accounts.get(address, 0) >= PAIRS_OF_ADDRESS or len(window.repeated) >= PAIRS:
        crowded = (action, address if len(window.repeated) < PAIRS else "", OTHERS)
        window.repeated[crowded] = window.repeated.get(crowded, 0) + 1
        return OTHERS, False
    window.repeated[key] = 0
    window.accounts[address] = window.accounts.get(address, 0) + 1
    return account, True


def _write(window: Window) -> None:
    for (action, address, account), times in window.repeated.items():
        if times:
            details = {"repeated": times, "address": address.removeprefix("at:"), "seconds": int(WINDOW)}
            audit.record(action, actor=UNPROVEN, object=_account(account), details=details)


def _account(account: str) -> Subject:
    return Subject(audit.CLAIMED, label=account)


def _start_timer(seconds: float, function: Callable[[], None]) -> None:
    timer = threading.Timer(seconds, db.later, [function])
    timer.daemon = True
    timer.start()


refusals = Refusals(_start_timer, monotonic)


def connect_sign_ins() -> None:
    audit.connect_sign_ins()
    user_login_failed.connect(_sign_in_failed, dispatch_uid="audit")


def _sign_in_failed(credentials: dict[str, object], request: HttpRequest | None = None, **_: object) -> None:
    account = str(credentials.get("username") or credentials.get("email") or "").strip().lower()
    refusals.count_sign_in(account, request)
