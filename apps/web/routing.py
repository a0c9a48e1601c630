"""WebSocket URLs."""

from django.urls import path

from apps.web.consumers import SessionLine
from apps.web.operations import operations_line

websocket_urlpatterns = [path("ws/sessions/<uuid:session>", SessionLine.as_asgi()), operations_line]
