"""Parley as an app of a phone or a desktop: its manifest, and what other apps share with it."""

from __future__ import annotations

from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect
from django.templatetags.static import static
from django.urls import reverse
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_http_methods, require_safe

BACKGROUND, ACCENT = "#fdfdfc", "#5a54d6"
LONGEST_SHARED = 2000  # characters that an address carries
SHARED_TEXTS = ("title", "text", "url")


@require_safe
def manifest(request: HttpRequest) -> JsonResponse:
    """The web app manifest (https://www.w3.org/TR/appmanifest/)."""
    home, inbox = reverse("web:home"), reverse("web:inbox")
    icons = [
        {"src": static(f"app/icon-{name}.png"), "sizes": f"{size}x{size}", "type": "image/png", "purpose": purpose}
        for name, size, purpose in (("192", 192, "any"), ("512", 512, "any"), ("maskable", 512, "maskable"))
    ]
    about = {
        "id": home,
        "name": "Parley",
        "short_name": "Parley",
        "description": "Agents and people work together.",
        "start_url": home,
        "scope": home,
        "display": "standalone",
        "background_color": BACKGROUND,
        "theme_color": ACCENT,
        "icons": icons,
        "shortcuts": [{"name": "New session", "url": home}, {"name": "Inbox", "url": inbox}],
        "share_target": {
            "action": reverse("web:share-target"),
            "method": "POST",
            "enctype": "multipart/form-data",
            "params": {**{name: name for name in SHARED_TEXTS}, "files": [{"name": "files", "accept": ["*/*"]}]},
        },
    }
    return JsonResponse(about, content_type="application/manifest+json")


@csrf_exempt  # another app has no token; nothing is sent or saved here
@require_http_methods(["GET", "HEAD", "POST"])
def share_target(request: HttpRequest) -> HttpResponse:
    """Shared words go into the composer of home. The service worker answers first, and keeps files, too."""
    given = request.POST if request.method == "POST" else request.GET
    words = "\n".join(filter(None, (given.get(name, "").strip() for name in SHARED_TEXTS)))[:LONGEST_SHARED]
    return redirect(f"{reverse('web:home')}?{urlencode({'text': words})}")
