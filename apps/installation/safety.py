"""Settings with which Parley does not start, because they would be unsafe in production.

`refuse_unsafe_settings` is called where processes start: web server, worker, beat, `prepare` and `serve`. The doctor
reports the same findings, so it needs a configuration that can be read but not one that is safe.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import ip_address
from urllib.parse import urlsplit

from django.conf import settings

from apps.accounts.secrets.encryption import Keyring, NoMasterKey

MIN_SECRET_LENGTH = 40
MIN_SECRET_CHARACTERS = 10  # different ones
MAKE_ONE = "Make one: python3 -c 'import secrets; print(secrets.token_urlsafe({}))'"


@dataclass(frozen=True, slots=True)
class Unsafe:
    """What is unsafe, in a sentence, and what to do about it."""

    text: str
    advice: str


def secret_key() -> Unsafe | None:
    key = str(settings.SECRET_KEY)
    if len(key) < MIN_SECRET_LENGTH or len(set(key)) < MIN_SECRET_CHARACTERS or "insecure" in key:
        return Unsafe("SECRET_KEY can be guessed: it is short or plain. It signs sessions.", MAKE_ONE.format(50))
    return None


def master_key() -> Unsafe | None:
    try:
        Keyring.read(settings.MASTER_KEY)
    except NoMasterKey as error:
        return Unsafe(str(error), f"{MAKE_ONE.format(32)}. A key that was used before must stay behind it.")
    return None


def debug() -> Unsafe | None:
    if settings.DEBUG and not is_local(settings.PUBLIC_BASE_URL):
        return Unsafe("DEBUG is on, in public.", "Remove DEBUG: error pages show settings and data to everybody.")
    return None


def allowed_hosts() -> Unsafe | None:
    if "*" in settings.ALLOWED_HOSTS and not settings.DEBUG:
        return Unsafe("ALLOWED_HOSTS accepts every name, so links can be forged.", "List the names that people use.")
    return None


def public_address() -> Unsafe | None:
    url = settings.PUBLIC_BASE_URL
    if settings.EMBEDDED or settings.ALLOW_PLAIN_HTTP or urlsplit(url).scheme == "https" or is_local(url):
        return None
    return Unsafe(
        f"PUBLIC_BASE_URL {url} is not encrypted: passwords and keys travel open.",
        "Put a proxy with TLS in front and set https://…, or ALLOW_PLAIN_HTTP=true in a network that you trust.",
    )


def proxies() -> Unsafe | None:
    if "*" in settings.FORWARDED_ALLOW_IPS.split(","):
        text = "FORWARDED_ALLOW_IPS believes everybody, so callers choose their address and escape limits."
        return Unsafe(text, "Name the addresses or networks of your proxies.")
    return None


RULES: tuple[Callable[[], Unsafe | None], ...] = (
    secret_key,
    master_key,
    debug,
    allowed_hosts,
    public_address,
    proxies,
)


def refuse_unsafe_settings() -> None:
    """End this process with a line for each unsafe setting. Raises SystemExit."""
    if found := [unsafe for rule in RULES if (unsafe := rule())]:
        sys.exit("\n".join(f"Parley does not start: {unsafe.text} {unsafe.advice}" for unsafe in found))


def is_local(url: str) -> bool:
    """Does the address lead to this machine only?"""
    host = urlsplit(url).hostname or ""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
