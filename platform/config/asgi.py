"""The ASGI application: our handler for async views, Django's for pages, consumers for WebSockets."""

import os
import re
import secrets

from channels.auth import AuthMiddlewareStack
from channels.routing import ProtocolTypeRouter, URLRouter
from django.core.asgi import get_asgi_application
from structlog.contextvars import bind_contextvars

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
handle_page = get_asgi_application()

# These imports need Django's apps.
from apps.api.consumers import websocket_urlpatterns  # noqa: E402
from apps.operators.consumers import live_panel_route  # noqa: E402
from apps.web.sessions import consumers  # noqa: E402
from config.handlers import Receive, RequestLimits, SameOrigin, Scope, Send, handle_async  # noqa: E402

ASYNC_PATH = re.compile(r"/(a2a|api/v1(?!/docs(/|\Z))|\.well-known|gateway/notifications|static|healthz|readyz)(/|\Z)")

SOCKETS = [*consumers.websocket_urlpatterns, *websocket_urlpatterns, live_panel_route]


async def http(scope: Scope, receive: Receive, send: Send) -> None:
    bind_contextvars(request=secrets.token_hex(4))  # each request has its own task, so its own context
    handle = handle_async if ASYNC_PATH.match(scope["path"]) else handle_page
    await handle(scope, receive, send)


application = ProtocolTypeRouter(
    {
        "http": RequestLimits(http),
        "websocket": SameOrigin(AuthMiddlewareStack(URLRouter(SOCKETS))),
    }
)
