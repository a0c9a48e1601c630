"""What a browser needs while it is offline: the service worker, the offline page, and a new CSRF token.

The worker shows pages that it kept at once, and refreshes them afterwards. Signing out clears everything that the
browser kept.
"""

from __future__ import annotations

import hashlib
import json

from django.contrib.staticfiles.storage import staticfiles_storage
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.middleware.csrf import get_token
from django.shortcuts import render
from django.templatetags.static import static
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

# What pages load later, perhaps offline; and the files of the offline page.
PRECACHED = (
    "css/tokens.css",
    "css/base.css",
    "css/shell.css",
    "css/card.css",
    "icons.svg",
    "mark.svg",
    "js/pages/offline.js",
    "js/clipboard.js",
    "js/dialog.js",
    "js/dom.js",
    "js/format.js",
    "js/menu.js",
    "js/place.js",
    "js/question-form.js",
    "js/requests.js",
    "js/toast.js",
    "js/client/stream.js",
    "js/client/sync.js",
    "js/compose/attachments.js",
    "js/compose/drafts.js",
    "js/compose/outbox.js",
    "js/compose/resend.js",
    "js/compose/submitting.js",
    "js/session/actions.js",
    "js/session/announcer.js",
    "js/session/answers.js",
    "js/session/cache.js",
    "js/session/editing.js",
    "js/session/files.js",
    "js/session/making.js",
    "js/session/older.js",
    "js/session/panel.js",
    "js/session/questions.js",
    "js/session/queue.js",
    "js/session/rating.js",
    "js/session/refresh.js",
    "js/session/sending.js",
    "js/session/shown.js",
    "js/session/window.js",
    "js/session/steps.js",
    "js/session/work.js",
    "js/session/worked.js",
    "js/shell/account.js",
    "js/shell/help.js",
    "js/shell/lists.js",
    "js/shell/notifications.js",
    "js/shell/palette.js",
)


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
