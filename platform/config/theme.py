"""How the admin looks (django-unfold's settings): the accent, the sidebar, and what stands on its first page."""

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
SIDEBAR = {
    "Record": [
        ("conversations", "context", "Contexts", "forum"),
        ("conversations", "task", "Tasks", "task_alt"),
        ("conversations", "run", "Runs", "directions_run"),
        ("conversations", "event", "Events", "list"),
        ("conversations", "message", "Messages", "chat"),
        ("conversations", "artifact", "Artifacts", "draft"),
        ("conversations", "feedback", "Feedback", "star"),
    ],
    "Plans": [
        ("orchestration", "plan", "Plans", "account_tree"),
        ("orchestration", "planrun", "Runs of plans", "schema"),
    ],
    "Webhooks": [
        ("a2a", "pushconfig", "Webhooks", "webhook"),
        ("a2a", "delivery", "Deliveries", "outbox"),
    ],
    "Credentials": [
        ("runtime", "credential", "Credentials", "password"),
        ("runtime", "credentialrequest", "Requests", "contact_support"),
        ("gateway", "remotecredential", "At remote agents", "passkey"),
    ],
    "Registry": [
        ("agents", "agent", "Agents", "smart_toy"),
        ("agents", "agentversion", "Versions", "history"),
        ("agents", "signingkey", "Signing keys", "vpn_key"),
    ],
    "Remote agents": [
        ("gateway", "remoteagent", "Remote agents", "public"),
        ("gateway", "checkup", "Health", "monitor_heart"),
        ("gateway", "check", "Checks", "ecg"),
    ],
    "People and access": [
        ("accounts", "user", "Users", "person"),
        ("auth", "group", "Groups", "group"),
        ("accounts", "workspace", "Workspaces", "workspaces"),
        ("accounts", "apikey", "API keys", "key"),
    ],
    "Storage": [
        ("conversations", "accepted", "Accepted messages", "fingerprint"),
        ("conversations", "blob", "Blobs", "database"),
        ("conversations", "upload", "Uploads", "upload_file"),
        ("accounts", "auditline", "Audit", "policy"),
    ],
}


def _item(app: str, model: str, title: str, icon: str) -> dict[str, Any]:
    def may_view(request: HttpRequest) -> bool:
        return request.user.has_perm(f"{app}.view_{model}") or request.user.has_perm(f"{app}.change_{model}")

    link = reverse_lazy(f"admin:{app}_{model}_changelist")
    return {"title": title, "icon": icon, "link": link, "permission": may_view}


THEME: dict[str, Any] = {
    "SITE_TITLE": "Parley",
    "SITE_HEADER": "Parley",
    "SITE_URL": "/",
    "SITE_SYMBOL": "forum",
    "SITE_FAVICONS": [{"rel": "icon", "type": "image/svg+xml", "href": lambda request: static("mark.svg")}],
    "SHOW_BACK_BUTTON": True,
    "BORDER_RADIUS": "8px",
    "COLORS": {"primary": ACCENT},
    "DASHBOARD_CALLBACK": "apps.conversations.admin.dashboard.numbers",
    "SIDEBAR": {
        "show_search": True,
        "navigation": [
            {"items": [{"title": "Dashboard", "icon": "monitoring", "link": reverse_lazy("admin:index")}]},
            *({"title": title, "items": [_item(*entry) for entry in group]} for title, group in SIDEBAR.items()),
        ],
    },
}
