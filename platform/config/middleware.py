"""Middleware of our own: the Content-Security-Policy, and one thread for each page.

The policy says what a browser may load and run on our pages. A script runs only where one of our templates names it
with the nonce of its response, or where such a script imports it. Markup that slipped through cannot run even a file
that somebody uploaded.
"""

from collections.abc import Callable, Collection

from django.http import HttpRequest, HttpResponse
from django.middleware.csp import ContentSecurityPolicyMiddleware
from django.utils.csp import CSP
from django.utils.decorators import sync_only_middleware
from django.views.decorators.csp import csp_override

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
    "frame-ancestors": [CSP.SELF],
}
# django-unfold's pages carry inline styles, and its Alpine.js evaluates expressions out of attributes.
ADMIN_POLICY: dict[str, Collection[str] | str] = {
    **PAGES_POLICY,
    "script-src": [CSP.SELF, CSP.UNSAFE_EVAL],
    "style-src": [CSP.SELF, CSP.UNSAFE_INLINE],
    "font-src": [CSP.SELF, "data:"],
}


class CSPMiddleware(ContentSecurityPolicyMiddleware):
    """Django's middleware, with another policy for the admin pages; a header that a view has set stays as it is.

    Browsers look up no host name before a link is followed: where links lead is nobody's business until then.
    """

    def process_response(self, request: HttpRequest, response: HttpResponse) -> HttpResponse:
        if request.path.startswith("/admin/"):
            response = csp_override(ADMIN_POLICY)(lambda _: response)(request)
        response.headers.setdefault("X-DNS-Prefetch-Control", "off")
        return super().process_response(request, response)


@sync_only_middleware
def run_in_one_thread[Response](get_response: Callable[[HttpRequest], Response]) -> Callable[[HttpRequest], Response]:
    """Does nothing, but makes Django call all middleware before it as plain functions, in the request's thread.

    Otherwise Django goes to the thread and back for each method of each middleware, which costs more than a small view.
    """
    return get_response
