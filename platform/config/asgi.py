"""The ASGI application: what waits or streams goes one way, pages go another, WebSockets a third."""

import os
import secrets
from typing import Any

import django
from channels.auth import AuthMiddlewareStack
from channels.routing import ProtocolTypeRouter, URLRouter
from django.conf import settings
from structlog.contextvars import bind_contextvars

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
django.setup()

from apps.api import lines  # noqa: E402  (needs Django's apps)
from apps.operators.live import operations_line  # noqa: E402
from apps.web import routing  # noqa: E402
from config import daphne_limits  # noqa: E402
from config.direct import DirectHandler, Receive, Scope, Send  # noqa: E402
from config.kept_files import KeptInMemory  # noqa: E402
from config.origins import SameOrigin  # noqa: E402
from config.pages import PagesHandler  # noqa: E402
from config.piecemeal import PiecemealHandler, comes_in_pieces  # noqa: E402

DIRECT = ("/a2a", "/api/v1", "/.well-known", "/gateway/notifications", "/healthz", "/readyz")
PAGES = ("/api/v1/docs",)  # within those

SOCKETS = [*routing.websocket_urlpatterns, *lines.websocket_urlpatterns, operations_line]

pages = PagesHandler()
direct = DirectHandler()
piecemeal = PiecemealHandler()
files = KeptInMemory(pages)


def goes_direct(path: str) -> bool:
    return _is_within(path, DIRECT) and not _is_within(path, PAGES)


def _is_within(path: str, prefixes: tuple[str, ...]) -> bool:
    return any(path == prefix or path.startswith(f"{prefix}/") for prefix in prefixes)


async def http(scope: Scope, receive: Receive, send: Send) -> None:
    bind_contextvars(request=secrets.token_hex(4))  # each request is a task, with a context of its own
    handler: Any = direct if goes_direct(scope["path"]) else pages
    if comes_in_pieces(scope):
        handler = piecemeal
    elif scope["path"].startswith(settings.STATIC_URL):
        handler = files
    await handler(scope, receive, send)


daphne_limits.install()
application = ProtocolTypeRouter(
    {
        "http": http,
        "websocket": SameOrigin(AuthMiddlewareStack(URLRouter(SOCKETS))),
    }
)
