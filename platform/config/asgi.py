"""The ASGI application: what waits or streams goes one way, pages go another, WebSockets a third."""

import os
import secrets
from typing import Any

from channels.auth import AuthMiddlewareStack
from channels.routing import ProtocolTypeRouter, URLRouter
from django.core.asgi import get_asgi_application
from structlog.contextvars import bind_contextvars

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
pages = get_asgi_application()

from apps.web.routing import websocket_urlpatterns  # noqa: E402  (needs Django's apps)
from config import daphne_limits  # noqa: E402
from config.direct import DirectHandler, Receive, Scope, Send  # noqa: E402
from config.origins import SameOrigin  # noqa: E402

DIRECT = ("/a2a", "/.well-known", "/gateway/notifications", "/healthz", "/readyz")

direct = DirectHandler()


def goes_direct(path: str) -> bool:
    return any(path == prefix or path.startswith(f"{prefix}/") for prefix in DIRECT)


async def http(scope: Scope, receive: Receive, send: Send) -> None:
    bind_contextvars(request=secrets.token_hex(4))  # each request is a task, with a context of its own
    handler: Any = direct if goes_direct(scope["path"]) else pages
    await handler(scope, receive, send)


daphne_limits.install()
application = ProtocolTypeRouter(
    {
        "http": http,
        "websocket": SameOrigin(AuthMiddlewareStack(URLRouter(websocket_urlpatterns))),
    }
)
