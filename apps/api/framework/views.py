"""The base of all endpoints. Waiting holds no thread and no connection.

DRF's steps (negotiation, authentication, permissions) and plain handlers run in a database thread. `async def`
handlers run on the event loop and use `db.run`.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, cast

from asgiref.sync import iscoroutinefunction, markcoroutinefunction
from django.db.models import Model, QuerySet
from django.http import Http404, HttpRequest
from django.http.response import HttpResponseBase
from rest_framework.exceptions import APIException
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView
from rest_framework.viewsets import ViewSetMixin

from apps.accounts import audit
from apps.accounts.permissions import Permission
from apps.accounts.principals import ANONYMOUS, Principal
from apps.accounts.refusals import refusals
from apps.accounts.requests import bodies, challenges, quotas
from apps.accounts.requests.authentication import request_principal
from apps.api.framework import pagination, problems
from apps.api.framework.problems import IDEMPOTENCY_HEADER
from apps.api.framework.serializers import Body, Query
from apps.limits import current as limits
from apps.record.errors import InvalidFields
from parley import db

Handler = Callable[..., Any]

PLACE = frozenset({"limit", "cursor"})
"""What says nothing about a list, but about a place in it."""

KEY_PATTERN = re.compile(r"[!-~]([ -~]{0,198}[!-~])?")


class Endpoint(APIView):
    """An address of the client API."""

    view_is_async = True
    http_method_names = ["get", "head", "post", "put", "patch", "delete"]
    principal: Principal = ANONYMOUS
    scopes: dict[str, str] = {}
    """The scope that a method wants, where it is not that of reading or writing."""
    permissions: dict[str, Permission] = {}
    """What a method wants of the caller's role, where it is not the permission of its scope."""
    rights: dict[str, str] = {}
    """What a method wants of operators, if nobody else may: a permission of Django's, as in admin."""
    receives_body = True
    """Is a body JSON, which is received before the handler is called?"""

    async def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:  # type: ignore[override]
        challenges.resource.set("/api/v1")
        self.args, self.kwargs, self.headers = args, kwargs, self.default_response_headers
        authorization = request.headers.get("Authorization", "")
        db.caller.set(quotas.presumed_key(authorization, str(request.META.get("REMOTE_ADDR", ""))))
        try:
            self.request = self.initialize_request(request, *args, **kwargs)
            handler = self._handler()
            receives = self.receives_body and request.method not in ("GET", "HEAD") and bodies.has_body(request)
            is_async = iscoroutinefunction(handler)
            if is_async or receives:
                await db.run(self.initial, self.request, *args, **kwargs)
                quotas.note_verified(authorization)
                db.caller.set(quotas.caller_key(self.principal, self.address))
            if receives:
                await self.receive_body()
            if is_async:
                response = self._render(await handler(self.request, *args, **kwargs))
            else:
                response = await db.run(self._call_sync, handler, is_initial=not receives)
        except Exception as error:
            response = problems.problem(error).response
        for name, value in self.headers.items():
            response.headers.setdefault(name, value)
        return response

    def _handler(self) -> Callable[..., Awaitable[Any]] | Handler:
        name = str(self.request.method).lower()
        found = getattr(self, name, None) if name in self.http_method_names else None
        return cast(Handler, found or self.http_method_not_allowed)

    async def receive_body(self) -> None:
        """Receive and parse the body of a caller who is known now. Raises BodyTooLarge, NotSigned, ParseError."""
        body = await bodies.read(self.request._request, self.principal)
        await bodies.work_on(len(body), lambda: self.request.data)

    def _call_sync(self, handler: Handler, *, is_initial: bool) -> HttpResponseBase:
        with audit.during(cast(HttpRequest, self.request)):
            if is_initial:
                self.initial(self.request, *self.args, **self.kwargs)
            return self._render(handler(self.request, *self.args, **self.kwargs))

    def _render(self, response: HttpResponseBase) -> HttpResponseBase:
        """Render now; Django would render only in its middleware."""
        response = self.finalize_response(self.request, cast("Response", response), *self.args, **self.kwargs)
        response.headers.setdefault("Cache-Control", "no-store")
        if isinstance(response, Response):
            response.render()
        return response

    def perform_authentication(self, request: Request) -> None:
        """Also counts requests; failed ones by address. Raises QuotaExceeded."""
        try:
            self.principal = request_principal(request)
        except APIException as refusal:
            quotas.count_request(ANONYMOUS, self.address)
            if authorization := request.headers.get("Authorization"):
                refusals.count_key(authorization, request._request, getattr(refusal.__cause__, "reason", ""))
            raise
        limits.count_request(self.principal, self.address)

    @property
    def address(self) -> str:
        """The caller's IP address."""
        return str(self.request.META.get("REMOTE_ADDR", ""))

    @property
    def traceparent(self) -> str:
        """The caller's span (W3C Trace Context), or ""."""
        return self.request.headers.get("traceparent", "")

    @property
    def idempotency_key(self) -> str:
        """The key or a new one. Raises InvalidFields."""
        key = self.request.headers.get(IDEMPOTENCY_HEADER)
        if key is None:
            return str(uuid.uuid4())
        if not KEY_PATTERN.fullmatch(key):
            sentence = "Must have 1 to 200 printable characters of ASCII, such as a UUID."
            raise InvalidFields([(IDEMPOTENCY_HEADER, sentence)])
        return key

    def page[M: Model](
        self,
        rows: QuerySet[M],
        order: tuple[str, ...],
        asked: dict[str, Any],
        show: Callable[[list[M]], Any],
        *bound: Any,
    ) -> Response:
        """A page of the list at this address. `bound`: what else its rows depend on. See `pagination.paginate`."""
        shown, following = pagination.paginate(rows, order, asked, self.principal, *self.list_asked(asked), *bound)
        return Response({"items": show(shown), "nextCursor": following})

    def list_asked(self, asked: dict[str, Any]) -> Iterator[str]:
        """What a cursor is for: the address and its filters."""
        yield self.request.path
        for name in sorted(asked.keys() - PLACE):
            yield f"{name}={asked[name]}"

    def query[Q: Query](self, shape: type[Q]) -> dict[str, Any]:
        """Raises ValidationError."""
        given = shape(data=self.request.query_params)
        given.is_valid(raise_exception=True)
        return cast("dict[str, Any]", given.validated_data)

    def body[B: Body](self, shape: type[B]) -> dict[str, Any]:
        """Raises ValidationError, ParseError."""
        if not isinstance(self.request.data, dict):
            raise InvalidFields([("", "The body must be a JSON object.")])
        given = shape(data=self.request.data, context={"caller": self.principal})
        given.is_valid(raise_exception=True)
        return cast("dict[str, Any]", given.validated_data)


class Operations(ViewSetMixin, Endpoint):
    """Operations of several addresses: methods, which have other names than those of HTTP."""

    @classmethod
    def at(cls, **operations: str) -> Any:
        """The view of an address: its operations by HTTP method."""
        return markcoroutinefunction(cls.as_view({**operations}))


class UnknownAddress(Endpoint):
    async def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:  # type: ignore[override]
        return problems.problem(Http404()).response
