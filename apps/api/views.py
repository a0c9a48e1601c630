"""The base of every endpoint: one asynchronous way in, on which waiting costs no thread and no connection.

DRF has no asynchronous views. Here its negotiation, authentication, permissions and counting run once, on the database
bridge. A handler that is a plain method is called there too, with the database in hand; one that is `async def` is
awaited on the event loop, may wait as long as it likes, and reaches the database by `db.run`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, cast

from asgiref.sync import iscoroutinefunction
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from rest_framework.exceptions import APIException
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

import db
from apps.accounts import quotas
from apps.accounts.authentication import principal_of
from apps.accounts.principals import ANONYMOUS, Principal
from apps.api import problems
from apps.api.fields import Body, Query

Handler = Callable[..., Any]


class Endpoint(APIView):
    """An address of the client API, with a handler for each of its methods."""

    view_is_async = True
    http_method_names = ["get", "head", "post", "put", "patch", "delete"]
    principal: Principal = ANONYMOUS
    scopes: dict[str, str] = {}
    """The scope that a method wants, where it is not that of reading or writing."""

    async def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:  # type: ignore[override]
        self.args, self.kwargs, self.headers = args, kwargs, self.default_response_headers
        try:
            _ = request.body  # read before DRF does: the bridge may call a handler again
            self.request = self.initialize_request(request, *args, **kwargs)
            handler = self._handler()
            if iscoroutinefunction(handler):
                await db.run(self.initial, self.request, *args, **kwargs)
                response = self._final(await handler(self.request, *args, **kwargs))
            else:
                response = await db.run(self._answered, handler)
        except Exception as error:
            response = problems.problem(error).response
        for name, value in self.headers.items():
            response.headers.setdefault(name, value)
        return response

    def _handler(self) -> Callable[..., Awaitable[Any]] | Handler:
        name = str(self.request.method).lower()
        found = getattr(self, name, None) if name in self.http_method_names else None
        return cast(Handler, found or self.http_method_not_allowed)

    def _answered(self, handler: Handler) -> HttpResponseBase:
        self.initial(self.request, *self.args, **self.kwargs)
        return self._final(handler(self.request, *self.args, **self.kwargs))

    def _final(self, response: HttpResponseBase) -> HttpResponseBase:
        """Rendered, which Django does only behind its middleware."""
        response = self.finalize_response(self.request, cast("Response", response), *self.args, **self.kwargs)
        response.headers.setdefault("Cache-Control", "no-store")
        if isinstance(response, Response):
            response.render()
        return response

    def perform_authentication(self, request: Request) -> None:
        """Who is calling; every call is counted, one that is not let in by its address. Raises TooMuch."""
        try:
            self.principal = principal_of(request)
        except APIException:
            quotas.count_request(ANONYMOUS, self.address)
            raise
        quotas.count_request(self.principal, self.address)

    @property
    def address(self) -> str:
        """Where the call comes from, as the server says."""
        return str(self.request.META.get("REMOTE_ADDR", ""))

    @property
    def span(self) -> str:
        """The caller's span (W3C Trace Context), if it told one."""
        return self.request.headers.get("traceparent", "")

    def query[Q: Query](self, shape: type[Q]) -> dict[str, Any]:
        """The values of the query, by their names in Python. Raises ValidationError."""
        given = shape(data=self.request.query_params)
        given.is_valid(raise_exception=True)
        return cast("dict[str, Any]", given.validated_data)

    def body[B: Body](self, shape: type[B]) -> dict[str, Any]:
        """The values of the body, by their names in Python. Raises ValidationError, ParseError."""
        if not isinstance(self.request.data, dict):
            raise problems.InvalidFields([("", "The body must be a JSON object.")])
        given = shape(data=self.request.data, context={"caller": self.principal})
        given.is_valid(raise_exception=True)
        return cast("dict[str, Any]", given.validated_data)


class Nowhere(Endpoint):
    """Every address that is none."""

    async def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:  # type: ignore[override]
        return problems.problem(problems.NotFound("There is nothing at this address.")).response
