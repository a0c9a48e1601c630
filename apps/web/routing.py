"""WebSocket URLs."""

from django.urls import path

from apps.web.consumers import SessionLine

websocket_urlpatterns = [path("ws/sessions/<uuid:session>", SessionLine.as_asgi())]
