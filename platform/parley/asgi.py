"""The ASGI application: our handler for async views, Django's for pages, consumers for WebSockets."""

import asyncio
import logging
from functools import partial

from channels.auth import AuthMiddlewareStack
from channels.routing import ProtocolTypeRouter, URLRouter
from django.conf import settings
from django.core.asgi import get_asgi_application
from django.db import DatabaseError, InterfaceError
from django.urls import get_resolver

from parley.environment import setup

setup()
handle_page = get_asgi_application()

# These imports need Django's apps.
from apps.accounts.refusals import refusals  # noqa: E402
from apps.conversations.api.consumers import websocket_urlpatterns  # noqa: E402
from apps.conversations.pages.session import consumers  # noqa: E402
from apps.installation.safety import refuse_to_start  # noqa: E402
from apps.operators.consumers import live_panel_route  # noqa: E402
from parley import db  # noqa: E402
from parley.serving.garbage import freeze_imported_objects  # noqa: E402
from parley.serving.handlers import (  # noqa: E402
    Receive,
    RequestGuard,
    SameOrigin,
    Scope,
    Send,
    SocketLimits,
    handle_async,
    largest_body,
)
from parley.telemetry import errors, tracing  # noqa: E402
from parley.telemetry.requests import MeasuredSockets, ObservedRequests  # noqa: E402

log = logging.getLogger("parley.server")
LAST_WRITE_SECONDS = 2.0
SOCKETS = [*consumers.websocket_urlpatterns, *websocket_urlpatterns, live_panel_route]

refuse_to_start()


async def lifespan(scope: Scope, receive: Receive, send: Send) -> None:
    """At the end, write and send what is in memory: uvicorn then ends by the signal itself, without `atexit`."""
    kind = ""
    while kind != "lifespan.shutdown":
        kind = (await receive())["type"]
        if kind == "lifespan.shutdown":
            await write_refusals()
            await asyncio.to_thread(tracing.flush)
            await asyncio.to_thread(errors.flush)
        await send({"type": f"{kind}.complete"})


async def write_refusals() -> None:
    try:
        await asyncio.wait_for(db.run(refusals.flush_now), LAST_WRITE_SECONDS)
    except (DatabaseError, InterfaceError, TimeoutError) as error:
        log.warning("refusals of the last minute are not in the audit: %s", error or "the database did not answer")


application = ProtocolTypeRouter(
    {
        "lifespan": lifespan,
        "http": ObservedRequests(
            RequestGuard(partial(handle_async, pages=handle_page), largest_body), settings.LOG_ACCESS_SAMPLE
        ),
        "websocket": MeasuredSockets(SameOrigin(SocketLimits(AuthMiddlewareStack(URLRouter(SOCKETS))))),
    }
)
get_resolver().url_patterns  # noqa: B018 - imports the views
freeze_imported_objects()
