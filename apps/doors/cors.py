"""Pages of other origins that call a door from a browser (https://fetch.spec.whatwg.org/#http-cors-protocol)."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase


@dataclass(frozen=True, slots=True)
class Cors:
    """What such pages may send, and which headers of an answer they may read. Lists of names, comma-separated."""

    methods: str
    headers: str
    exposed: str = ""

    def preflight(self) -> HttpResponse:
        """The answer to a browser that asks whether a page of another origin may call."""
        allowed = {"Access-Control-Allow-Methods": self.methods, "Access-Control-Allow-Headers": self.headers}
        return HttpResponse(status=204, headers={**allowed, "Access-Control-Max-Age": "600", "Vary": "Origin"})

    def allow(self, request: HttpRequest, response: HttpResponseBase, origins: Collection[str]) -> HttpResponseBase:
        """The response, which a page of one of these origins may read."""
        origin = request.headers.get("Origin", "")
        if origin in origins:
            response["Access-Control-Allow-Origin"] = origin
            response["Vary"] = "Origin"
            if self.exposed:
                response["Access-Control-Expose-Headers"] = self.exposed
        return response
