"""Our middleware: the Content-Security-Policy, and one thread per page.

A script runs only if a template names it with the response's nonce, or if such a script imports it. So injected markup
cannot run even uploaded files.
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
# django-unfold needs inline styles, and its Alpine.js evaluates attributes.
ADMIN_POLICY: dict[str, Collection[str] | str] = {
    **PAGES_POLICY,
    "script-src": [CSP.SELF, CSP.UNSAFE_EVAL],
    "style-src": [CSP.SELF, CSP.UNSAFE_INLINE],
    "font-src": [CSP.SELF, "data:"],
}


class CSPMiddleware(ContentSecurityPolicyMiddleware):
    """Django's middleware, with another policy for the admin. A view's own header stays.

    It also turns off DNS prefetching, which would reveal links before anybody follows them.
    """

    def process_response(self, request: HttpRequest, response: HttpResponse) -> HttpResponse:
        if request.path.startswith("/admin/"):
            response = csp_override(ADMIN_POLICY)(lambda _: response)(request)
        response.headers.setdefault("X-DNS-Prefetch-Control", "off")
        return super().process_response(request, response)


@sync_only_middleware
def run_in_one_thread[Response](get_response: Callable[[HttpRequest], Response]) -> Callable[[HttpRequest], Response]:
    """Does nothing, but makes Django call all middleware before it in the request's thread.

    Otherwise Django switches threads for each middleware, which costs more than a small view.
    """
    return get_response
