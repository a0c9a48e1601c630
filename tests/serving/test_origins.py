"""Only a page of this very server may open a WebSocket to it."""

import pytest

from config.origins import is_own


@pytest.mark.parametrize(
    ("origin", "host"),
    [
        ("http://localhost:8000", "localhost:8000"),
        ("http://127.0.0.1:8000", "127.0.0.1:8000"),
        ("https://LOCALHOST:8000", "localhost:8000"),
    ],
)
def test_a_page_of_this_server_may(origin: str, host: str) -> None:
    assert is_own(origin, host)


def test_a_page_of_the_public_address_may_whatever_a_proxy_names(settings) -> None:
    settings.PUBLIC_BASE_URL = "https://parley.example.org"
    assert is_own("https://parley.example.org", "10.0.0.7:8000")


@pytest.mark.parametrize(
    ("origin", "host"),
    [
        ("http://localhost:9000", "localhost:8000"),
        ("http://evil.example", "localhost:8000"),
        ("http://evil.example", "evil.example"),
        ("http://user@localhost:8000", "localhost:8000"),
        ("null", "localhost:8000"),
        ("", "localhost:8000"),
        ("file://", "localhost:8000"),
        ("ftp://localhost:8000", "localhost:8000"),
    ],
)
def test_any_other_may_not(origin: str, host: str) -> None:
    assert not is_own(origin, host)
