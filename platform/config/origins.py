"""A WebSocket is opened by our own pages only: its Origin is that of the server it is opened to."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from channels.security.websocket import WebsocketDenier
from django.conf import settings
from django.http.request import split_domain_port, validate_host


class SameOrigin:
    """Refuses a WebSocket whose `Origin` is neither `PUBLIC_BASE_URL` nor the host and port that the request names.

    The host must be one of ALLOWED_HOSTS, as for any other request. A client that sends no Origin is no browser, and
    is refused too: pages' sockets are for pages.
    """

    def __init__(self, application: Any) -> None:
        self.application = application

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
        opened_by_us = is_own(headers.get(b"origin", ""), headers.get(b"host", ""))
        application = self.application if opened_by_us else WebsocketDenier()
        await application(scope, receive, send)


def is_own(origin: str, host: str) -> bool:
    """Does a page of this origin come from the server that the `Host` header names?"""
    if origin == settings.PUBLIC_BASE_URL:
        return True
    parts = urlsplit(origin)
    if parts.scheme not in ("http", "https") or not parts.netloc or parts.netloc.lower() != host.lower():
        return False
    return validate_host(split_domain_port(host)[0], settings.ALLOWED_HOSTS)
