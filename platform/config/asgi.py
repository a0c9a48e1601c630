"""The ASGI application: async views go to our handler, pages to Django's, WebSockets to their consumers."""

import os
import secrets

from channels.auth import AuthMiddlewareStack
from channels.routing import ProtocolTypeRouter, URLRouter
from django.core.asgi import get_asgi_application
from structlog.contextvars import bind_contextvars

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
handle_page = get_asgi_application()

# What is imported below needs Django's apps.
from apps.api.consumers import websocket_urlpatterns  # noqa: E402
from apps.operators.consumers import live_panel_route  # noqa: E402
from apps.web.sessions import consumers  # noqa: E402
from config.handlers import Receive, RequestLimits, SameOrigin, Scope, Send, handle_async  # noqa: E402

ASYNC_PATHS = ("/a2a", "/api/v1", "/.well-known", "/gateway/notifications", "/static", "/healthz", "/readyz")
PAGES = ("/api/v1/docs",)  # within those

SOCKETS = [*consumers.websocket_urlpatterns, *websocket_urlpatterns, live_panel_route]


def is_async_path(path: str) -> bool:
    return _is_within(path, ASYNC_PATHS) and not _is_within(path, PAGES)


def _is_within(path: str, prefixes: tuple[str, ...]) -> bool:
    return any(path == prefix or path.startswith(f"{prefix}/") for prefix in prefixes)


async def http(scope: Scope, receive: Receive, send: Send) -> None:
    bind_contextvars(request=secrets.token_hex(4))  # each request is a task, with a context of its own
    handle = handle_async if is_async_path(scope["path"]) else handle_page
    await handle(scope, receive, send)


application = ProtocolTypeRouter(
    {
        "http": RequestLimits(http),
        "websocket": SameOrigin(AuthMiddlewareStack(URLRouter(SOCKETS))),
    }
)
