"""Who is calling, behind reverse proxies: only `FORWARDED_ALLOW_IPS` may say so."""

from typing import Any

import pytest

from parley.serving.server import configuration

PROXY, CALLER, LIE = "10.0.0.9", "203.0.113.7", "198.51.100.66"


async def seen_by_parley(connection_from: str, forwarded_for: str) -> tuple[str, str]:
    """Address and scheme of a caller, as `serve` passes them to the application."""
    seen: dict[str, Any] = {}

    async def application(scope: dict[str, Any], receive: Any, send: Any) -> None:
        seen.update(scope)

    config = configuration(application)
    config.load()
    headers = [(b"x-forwarded-for", forwarded_for.encode()), (b"x-forwarded-proto", b"https")]
    scope = {"type": "http", "scheme": "http", "client": (connection_from, 1), "headers": headers}
    await config.loaded_app(scope, None, None)  # type: ignore[arg-type]
    return seen["client"][0], seen["scheme"]


@pytest.mark.parametrize("trusted", [PROXY, "10.0.0.0/8", f"192.0.2.1, {PROXY}"])
async def test_named_proxy_says_who_is_calling(settings, trusted):
    settings.FORWARDED_ALLOW_IPS = trusted
    assert await seen_by_parley(PROXY, CALLER) == (CALLER, "https")


async def test_what_a_caller_adds_is_not_believed(settings):
    settings.FORWARDED_ALLOW_IPS = PROXY
    assert await seen_by_parley(PROXY, f"{LIE}, {CALLER}") == (CALLER, "https")


@pytest.mark.parametrize("trusted", ["", "10.0.0.8", "192.168.0.0/16"])
async def test_nobody_else_is_believed(settings, trusted):
    settings.FORWARDED_ALLOW_IPS = trusted
    assert await seen_by_parley(PROXY, LIE) == (PROXY, "http")
