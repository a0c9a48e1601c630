"""Settings with which Parley does not start, because they would be unsafe in production.

Web servers, workers, beat, `prepare` and `serve` refuse them. The doctor and `check --deploy` report them, so they need
a configuration that can be read but not one that is safe.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.core import checks

from parley.db import reach
from parley.misconfigured import MAKE_KEY, Misconfigured, say, stop

MIN_SECRET_LENGTH = 40
MIN_SECRET_CHARACTERS = 10  # different ones
WAIT_SECONDS = 2.0  # between tries to reach the database


def secret_key() -> Misconfigured | None:
    key = str(settings.SECRET_KEY)
    if len(key) < MIN_SECRET_LENGTH or len(set(key)) < MIN_SECRET_CHARACTERS or "insecure" in key:
        return Misconfigured("SECRET_KEY can be guessed: it is short or plain. It signs sessions.", MAKE_KEY.format(50))
    return None


def debug() -> Misconfigured | None:
    if settings.DEBUG and not is_local(settings.PUBLIC_BASE_URL):
        advice = "Remove DEBUG: error pages show settings and data to everybody."
        return Misconfigured("DEBUG is on, in public.", advice)
    return None


def allowed_hosts() -> Misconfigured | None:
    if "*" in settings.ALLOWED_HOSTS and not settings.DEBUG:
        cause = "ALLOWED_HOSTS accepts every name, so links can be forged."
        return Misconfigured(cause, "List the names that people use.")
    return None


def public_address() -> Misconfigured | None:
    url = settings.PUBLIC_BASE_URL
    if settings.EMBEDDED or settings.ALLOW_PLAIN_HTTP or urlsplit(url).scheme == "https" or is_local(url):
        return None
    return Misconfigured(
        f"PUBLIC_BASE_URL {url} is not encrypted: passwords and keys travel open.",
        "Put a proxy with TLS in front and set https://…, or ALLOW_PLAIN_HTTP=true in a network that you trust.",
    )


def proxies() -> Misconfigured | None:
    if "*" in settings.FORWARDED_ALLOW_IPS.split(","):
        cause = "FORWARDED_ALLOW_IPS believes everybody, so callers choose their address and escape limits."
        return Misconfigured(cause, "Name the addresses or networks of your proxies.")
    return None


RULES: tuple[Callable[[], Misconfigured | None], ...] = (
    secret_key,
    debug,
    allowed_hosts,
    public_address,
    proxies,
)


def unsafe_settings() -> list[Misconfigured]:
    """What is unsafe, by the rules above."""
    return [found for rule in RULES if (found := rule())]


def check_deployment(**_: Any) -> list[checks.CheckMessage]:
    """`check --deploy` says what would keep Parley from starting."""
    return [checks.Error(found.cause, hint=found.advice, id="parley.E001") for found in unsafe_settings()]


def refuse_to_start(*, waits: bool = False) -> None:
    """End this server, with two lines for each mistake, if settings are unsafe or the database refuses Parley.

    If the database does not answer, say so, and go on or wait for it. Raises SystemExit.
    """
    if found := unsafe_settings():
        stop(*found)
    is_said = False
    while (mistake := _of_database()) is not None:
        if mistake.code != os.EX_UNAVAILABLE:
            stop(mistake)
        if not is_said:
            say("Parley waits", mistake)
            is_said = True
        if not waits:
            return
        time.sleep(WAIT_SECONDS)


def _of_database() -> Misconfigured | None:
    with ThreadPoolExecutor(1) as thread:  # web servers import the application within their event loop
        error = thread.submit(reach.check).exception()
    if error is None or isinstance(error, Misconfigured):
        return error
    raise error


def is_local(url: str) -> bool:
    """Does the address lead to this machine only?"""
    host = urlsplit(url).hostname or ""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
