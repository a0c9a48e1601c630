"""The admin's look (django-unfold's settings): colors, sidebar and dashboard."""

from typing import Any

from django.http import HttpRequest
from django.templatetags.static import static
from django.urls import reverse_lazy

ACCENT = {
    "50": "#f5f4fd",
    "100": "#ecebfa",
    "200": "#dad8f6",
    "300": "#c3c0f3",
    "400": "#aba7ff",
    "500": "#8f8af0",
    "600": "#4640c4",
    "700": "#3b36a8",
    "800": "#322e8c",
    "900": "#2b2a4a",
    "950": "#1d1c33",
}
NEUTRAL = {
    "50": "#f4f4f1",
    "100": "#ecece8",
    "200": "#e1e1db",
    "300": "#c9cac6",
    "400": "#9aa0a8",
    "500": "#5a6067",
    "600": "#4b5057",
    "700": "#30353b",
    "800": "#24282d",
    "900": "#16181b",
    "950": "#101214",
}
"""Surfaces, lines and text of `static/css/tokens.css` in the theme's steps; ACCENT is its accent."""
WORDS = {
    "subtle-light": "#5a6067",
    "subtle-dark": "#a2a8b0",
    "default-light": "#3a3e43",
    "default-dark": "#ced1d2",
    "important-light": "#1b1d20",
    "important-dark": "#e7e8e6",
}
SECTIONS = (
    "Record",
    "Plans",
    "Webhooks",
    "Credentials",
    "Registry",
    "Remote agents",
    "Cost",
    "Installation",
    "People and access",
    "Storage",
)
"""The order of the sidebar. Classes of admin pages say by their `menu` in which section they are."""


def navigation(request: HttpRequest) -> list[dict[str, Any]]:
    from parley.faces.menu import sections_of  # models are not loaded yet

    pages = [{"title": "Dashboard", "icon": "monitoring", "link": reverse_lazy("admin:index")}]
    if request.user.has_perms(("agents.view_agent", "record.view_run")):
        pages.append({"title": "Analytics", "icon": "query_stats", "link": reverse_lazy("operators:analytics")})
    return [{"items": pages}, *sections_of(request, SECTIONS)]


THEME: dict[str, Any] = {
    "SITE_TITLE": "Parley",
    "SITE_HEADER": "Parley",
    "SITE_URL": "/",
    "SITE_SYMBOL": "forum",
    "SITE_FAVICONS": [{"rel": "icon", "type": "image/svg+xml", "href": lambda request: static("mark.svg")}],
    "SHOW_BACK_BUTTON": True,
    "BORDER_RADIUS": "8px",
    "COLORS": {"primary": ACCENT, "base": NEUTRAL, "font": WORDS},
    "DASHBOARD_CALLBACK": "apps.operators.dashboard.page.dashboard_context",
    "SIDEBAR": {
        "show_search": True,
        "navigation": navigation,
    },
}
