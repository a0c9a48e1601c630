"""The frame that draws Mermaid diagrams.

Mermaid's script is large, not ours, and reads what agents write. So it runs in a sandboxed frame of no origin, which
cannot call anybody. The page gets the drawing as a picture (`static/js/prose/diagrams.js`).
"""

from __future__ import annotations

from collections.abc import Collection

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.csp import CSP
from django.views.decorators.cache import cache_control
from django.views.decorators.clickjacking import xframe_options_sameorigin
from django.views.decorators.csp import csp_override
from django.views.decorators.http import require_safe

FRAME_POLICY: dict[str, Collection[str] | str] = {
    "default-src": [CSP.NONE],
    "script-src": [CSP.NONCE],
    "style-src": [CSP.UNSAFE_INLINE],  # Mermaid measures what it draws
    "base-uri": [CSP.NONE],
    "form-action": [CSP.NONE],
    "frame-ancestors": [CSP.SELF],
    "sandbox": ["allow-scripts"],
}


@require_safe
@xframe_options_sameorigin
@csp_override(FRAME_POLICY)
@cache_control(private=True, no_cache=True)
def diagram_frame(request: HttpRequest) -> HttpResponse:
    """Nothing of anybody's: the frame gets each diagram by a message of its page."""
    return render(request, "web/diagrams.html")
