"""What a browser needs while it is offline: the service worker, the offline page, and a new CSRF token.

The worker shows pages that it kept at once, and refreshes them afterwards. Signing out clears everything that the
browser kept.
"""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

from django.conf import settings
from django.contrib.staticfiles.storage import staticfiles_storage
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.middleware.csrf import get_token
from django.shortcuts import render
from django.templatetags.static import static
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

STATIC = Path(str(settings.STATICFILES_DIRS[0])).resolve()
LATER = re.compile(r'\bimport\("(\.[^"]+)"\)')
AT_ONCE = re.compile(r'^(?:import|export)\b[^;"]*"(\.[\w/.-]+\.js)";', re.MULTILINE)


def _loaded_later() -> set[str]:
    """The scripts that scripts load by `import()`, perhaps offline, with all that those import."""
    texts = {path: path.read_text() for path in (STATIC / "js").rglob("*.js")}
    found: set[Path] = set()
    due = [(path.parent / name).resolve() for path, text in texts.items() for name in LATER.findall(text)]
    while due:
        if (path := due.pop()) not in found:
            found.add(path)
            due += [(path.parent / name).resolve() for name in AT_ONCE.findall(texts[path])]
    return {path.relative_to(STATIC).as_posix() for path in found}


OFFLINE_PAGE = (
    "css/tokens.css",
    "css/base.css",
    "css/shell.css",
    "css/card.css",
    "icons.svg",
    "mark.svg",
    "js/pages/offline.js",
)
PRECACHED = (*OFFLINE_PAGE, *sorted(_loaded_later()))


@require_safe
@never_cache
def service_worker(request: HttpRequest) -> HttpResponse:
    """The service worker. Its text changes with the static files, so that browsers replace the old one."""
    kept = [static(name) for name in PRECACHED]
    named = getattr(staticfiles_storage, "manifest_hash", "")
    version = hashlib.sha256(f"{named} {kept}".encode()).hexdigest()[:12]
    context = {"version": version, "kept": json.dumps(kept)}
    return render(request, "web/worker.js", context, content_type="text/javascript")


@require_safe
def offline(request: HttpRequest) -> HttpResponse:
    """The page for what was never cached. Browsers keep it for every user, so it names nobody."""
    return render(request, "web/offline.html")


@require_safe
@never_cache
def csrf_token(request: HttpRequest) -> HttpResponse:
    """The current CSRF token and user, for pages that were loaded before the sign-in."""
    return JsonResponse({"token": get_token(request), "user": str(request.user.pk or "")})
