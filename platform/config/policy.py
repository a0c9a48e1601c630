"""The Content-Security-Policy: what a browser may load and run on our pages.

A script runs only where our own template named it with the nonce of its response, or where such a script imports it:
not even a file of ours that somebody uploaded could be run by markup that slipped through.
"""

from django.http import HttpRequest, HttpResponse
from django.middleware.csp import ContentSecurityPolicyMiddleware
from django.utils.csp import CSP

PAGES = {
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
ADMIN = {
    **PAGES,
    "script-src": [CSP.SELF, CSP.UNSAFE_EVAL],
    "style-src": [CSP.SELF, CSP.UNSAFE_INLINE],
    "font-src": [CSP.SELF, "data:"],
}


class PolicyMiddleware(ContentSecurityPolicyMiddleware):
    """Django's middleware, with a policy of its own for the admin pages; a view's own header stays as it is.

    No policy is asked before a name is looked up: where links lead to is nobody's business until one follows them.
    """

    def process_response(self, request: HttpRequest, response: HttpResponse) -> HttpResponse:
        if request.path.startswith("/admin/") and not hasattr(response, "_csp_config"):
            response._csp_config = ADMIN  # type: ignore[attr-defined]
        response.headers.setdefault("X-DNS-Prefetch-Control", "off")
        return super().process_response(request, response)
