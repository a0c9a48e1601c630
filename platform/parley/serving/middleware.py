"""Our middleware: the Content-Security-Policy, compression, trailing slashes, and one thread per page.

A script runs only if a template names it with the response's nonce, or if such a script imports it. So injected markup
cannot run even uploaded files.
"""

from collections.abc import Callable, Collection
from http import HTTPStatus

from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest, HttpResponse, HttpResponsePermanentRedirect
from django.http.response import HttpResponseBase
from django.middleware.csp import ContentSecurityPolicyMiddleware
from django.middleware.gzip import GZipMiddleware
from django.urls import Resolver404, ResolverMatch, resolve
from django.utils.csp import CSP
from django.utils.decorators import sync_only_middleware
from django.utils.encoding import escape_uri_path, iri_to_uri
from django.utils.http import escape_leading_slashes
from django.views.decorators.csp import csp_override

from parley.telemetry.requests import note_route

PAGES_POLICY: dict[str, Collection[str] | str] = {
    "default-src": [CSP.SELF],
    "script-src": [CSP.NONCE, CSP.STRICT_DYNAMIC],
    "style-src": [CSP.SELF],
    "worker-src": [CSP.SELF],
    "img-src": [CSP.SELF, "data:", "blob:"],
    "frame-src": [CSP.SELF, "blob:"],
    "object-src": [CSP.NONE],
    "base-uri": [CSP.NONE],
    "form-action": [CSP.SELF],
    "frame-ancestors": [CSP.NONE],
}
# django-unfold needs inline styles, and its Alpine.js evaluates attributes.
ADMIN_POLICY: dict[str, Collection[str] | str] = {
    **PAGES_POLICY,
    "script-src": [CSP.SELF, CSP.UNSAFE_EVAL, CSP.NONCE],  # the nonce is for error pages
    "style-src": [CSP.SELF, CSP.UNSAFE_INLINE],
    "font-src": [CSP.SELF, "data:"],
}


class CSPMiddleware(ContentSecurityPolicyMiddleware):
    """Django's middleware, with another policy for the admin. A view's own policy stays, as that of the debug pages.

    It also turns off DNS prefetching, which would reveal links before anybody follows them.
    """

    def process_response(self, request: HttpRequest, response: HttpResponse) -> HttpResponse:
        if request.path.startswith("/admin/") and not hasattr(response, "_csp_config"):  # `csp_override` sets it
            response = csp_override(ADMIN_POLICY)(lambda _: response)(request)
        response.headers.setdefault("X-DNS-Prefetch-Control", "off")
        return super().process_response(request, response)


COMPRESSED = ("text/", "application/json", "application/manifest+json", "image/svg+xml")  # beginnings of media types
LEAST_COMPRESSED_BYTES = 1400  # a response that fits into one packet is not faster


class CompressPages(GZipMiddleware):
    """Django's middleware, with its padding against BREACH, only for whole responses of text.

    Streams stay as they are: an event must not wait for a compressor's buffer. So do people's files, and what has an
    `ETag`, which names the bytes.
    """

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        is_text = response.get("Content-Type", "").startswith(COMPRESSED) and not response.has_header("ETag")
        if not isinstance(response, HttpResponse) or not is_text or len(response.content) < LEAST_COMPRESSED_BYTES:
            return response
        return super().process_response(request, response)


def is_catch_all(match: ResolverMatch) -> bool:
    """Is it a view of all addresses that no other has, as admin and the client API have one?"""
    return match.route.endswith((".*", ".*)$"))


def other_form(request: HttpRequest) -> HttpResponse | None:
    """A redirect for an address that was not found: to the same with, or without, a trailing slash.

    It keeps method, body and query (308). None if that form leads nowhere either, or if a view answered: then the
    address was found, and what it names was not.
    """
    if request.path_info.endswith("//") or (request.resolver_match and not is_catch_all(request.resolver_match)):
        return None
    path = request.path.removesuffix("/") if request.path.endswith("/") else f"{request.path}/"
    info = request.path_info.removesuffix("/") if request.path_info.endswith("/") else f"{request.path_info}/"
    try:
        there = resolve(info)
    except Resolver404:
        return None
    if is_catch_all(there):
        return None
    query = request.META.get("QUERY_STRING", "")
    address = escape_leading_slashes(escape_uri_path(path)) + (f"?{iri_to_uri(query)}" if query else "")
    return HttpResponsePermanentRedirect(address, preserve_request=True)


@sync_only_middleware
def try_other_form(get_response: Callable[[HttpRequest], HttpResponse]) -> Callable[[HttpRequest], HttpResponse]:
    """A trailing slash never decides between a page and a 404. Addresses that are found cost nothing."""

    def respond(request: HttpRequest) -> HttpResponse:
        response = get_response(request)
        return (response.status_code == HTTPStatus.NOT_FOUND and other_form(request)) or response

    return respond


@sync_only_middleware
def note_page_route(get_response: Callable[[HttpRequest], HttpResponse]) -> Callable[[HttpRequest], HttpResponse]:
    """Tells `parley.telemetry.requests` which route a page has."""

    def respond(request: HttpRequest) -> HttpResponse:
        response = get_response(request)
        if isinstance(request, ASGIRequest) and request.resolver_match is not None:
            note_route(request.scope, request.resolver_match.route)
        return response

    return respond


@sync_only_middleware
def run_in_one_thread[Response](get_response: Callable[[HttpRequest], Response]) -> Callable[[HttpRequest], Response]:
    """Does nothing, but makes Django call all middleware before it in the request's thread.

    Otherwise Django switches threads for each middleware, which costs more than a small view.
    """
    return get_response
