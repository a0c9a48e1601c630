"""What a browser needs to go on without a line: the service worker, the page that it shows then, a fresh token."""

from __future__ import annotations

import hashlib
import json

from django.contrib.staticfiles.storage import staticfiles_storage
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.middleware.csrf import get_token
from django.shortcuts import render
from django.templatetags.static import static
from django.urls import path
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

# What is loaded when it is first needed, which may be when there is no line; and what the offline page is made of.
KEPT = (
    "css/tokens.css",
    "css/base.css",
    "css/shell.css",
    "css/card.css",
    "icons.svg",
    "mark.svg",
    "js/offline-page.js",
    "js/submitting.js",
    "js/ids.js",
    "js/attachments.js",
    "js/accompanying.js",
    "js/uploading.js",
    "js/outbox.js",
    "js/unsent.js",
    "js/dom.js",
    "js/sizes.js",
    "js/post.js",
    "js/copying.js",
    "js/session/editing.js",
    "js/help.js",
    "js/leaving.js",
    "js/account.js",
    "js/notifying.js",
    "js/others.js",
    "js/toast.js",
    "js/failed.js",
    "js/palette.js",
    "js/api.js",
    "js/client/stream.js",
    "js/client/sync.js",
    "js/lists.js",
    "js/redraw.js",
    "js/session/extras.js",
    "js/session/local.js",
    "js/session/making.js",
    "js/session/shown.js",
    "js/session/rating.js",
    "js/session/standing.js",
    "js/session/tasks.js",
    "js/session/turns.js",
    "js/session/announcer.js",
    "js/session/cache.js",
    "js/session/kept.js",
    "js/session/old.js",
    "js/session/pruning.js",
    "js/session/older.js",
    "js/session/sending.js",
    "js/session/window.js",
    "js/session/beside.js",
    "js/session/asked.js",
    "js/session/questions.js",
    "js/answering.js",
    "js/filled.js",
    "js/drafts.js",
    "js/session/queue.js",
    "js/session/referring.js",
    "js/session/renewing.js",
    "js/session/steps.js",
    "js/session/streaming.js",
    "js/session/work.js",
    "js/session/worked.js",
    "js/session/panel.js",
    "js/session/files.js",
    "js/session/unfinished.js",
)


@require_safe
@never_cache
def worker(request: HttpRequest) -> HttpResponse:
    """The service worker. Another set of static files makes it another one, which takes the place of the old."""
    kept = [static(name) for name in KEPT]
    named = getattr(staticfiles_storage, "manifest_hash", "")
    version = hashlib.sha256(f"{named} {kept}".encode()).hexdigest()[:12]
    known = {"version": version, "kept": json.dumps(kept)}
    return render(request, "web/worker.js", known, content_type="text/javascript")


@require_safe
def offline(request: HttpRequest) -> HttpResponse:
    """What is shown in place of a page that was never read here. It is kept for whoever comes, and names nobody."""
    return render(request, "web/offline.html")


@require_safe
@never_cache
def token(request: HttpRequest) -> HttpResponse:
    """The CSRF token as it is by now, and who is signed in, for pages that are older than the sign-in."""
    return JsonResponse({"token": get_token(request), "user": str(request.user.pk or "")})


urlpatterns = [
    path("sw.js", worker, name="worker"),
    path("offline", offline, name="offline"),
    path("token", token, name="token"),
]
