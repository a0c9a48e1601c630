"""The way to pages: Django's handler, whose middleware and views call one another in the request's thread."""

from __future__ import annotations

from asgiref.sync import sync_to_async
from django.core.handlers.asgi import ASGIHandler
from django.http import HttpRequest
from django.http.response import HttpResponseBase


class PagesHandler(ASGIHandler):
    """Goes to the thread once for each request.

    Django's own would have each middleware go there and back before the view and after it, which takes more than a
    small view does. What a view awaits is awaited on the server's loop all the same, and streams are sent by it.
    """

    def load_middleware(self, is_async: bool = False) -> None:
        """All of it as plain functions."""
        super().load_middleware(is_async=False)

    async def get_response_async(self, request: HttpRequest) -> HttpResponseBase:
        return await sync_to_async(self.get_response)(request)
