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
SIDEBAR = {
    "Record": [
        ("record", "context", "Sessions", "forum"),
        ("record", "task", "Tasks", "task_alt"),
        ("record", "run", "Runs", "directions_run"),
        ("record", "event", "Events", "list"),
        ("record", "message", "Messages", "chat"),
        ("record", "artifact", "Artifacts", "draft"),
        ("record", "feedback", "Feedback", "star"),
        ("session_marks", "legalhold", "Legal holds", "gavel"),
        ("transfers", "export", "Exports", "download"),
    ],
    "Plans": [
        ("plans", "plan", "Plans", "account_tree"),
        ("plans", "planrun", "Plan runs", "schema"),
        ("automation", "schedule", "Schedules", "schedule"),
        ("automation", "scheduledrun", "Scheduled runs", "history"),
        ("automation", "incomingwebhook", "Incoming webhooks", "webhook"),
        ("automation", "incomingevent", "Incoming events", "inbox"),
    ],
    "Webhooks": [
        ("a2a", "pushconfig", "Webhooks", "webhook"),
        ("a2a", "delivery", "Deliveries", "outbox"),
        ("notifications", "channel", "Channels of people", "campaign"),
        ("notifications", "notification", "Notifications", "notifications"),
    ],
    "Credentials": [
        ("credentials", "credential", "Credentials", "password"),
        ("credentials", "credentialrequest", "Requests", "contact_support"),
        ("credentials", "oauthservice", "OAuth services", "linked_services"),
        ("remote", "remotecredential", "For remote agents", "passkey"),
    ],
    "Registry": [
        ("agents", "agent", "Agents", "smart_toy"),
        ("agents", "agentversion", "Versions", "history"),
        ("agents", "signingkey", "Signing keys", "vpn_key"),
        ("evaluations", "example", "Examples", "quiz"),
        ("evaluations", "evaluation", "Evaluations", "fact_check"),
    ],
    "Remote agents": [
        ("remote", "remoteagent", "Remote agents", "public"),
        ("remote", "peer", "Paired installations", "handshake"),
        ("remote", "sharedagent", "Agents for them", "share"),
        ("remote", "checkup", "Health", "monitor_heart"),
        ("remote", "check", "Checks", "ecg"),
    ],
    "Cost": [
        ("limits", "limit", "Limits", "speed"),
        ("budgets", "budget", "Budgets", "savings"),
        ("budgets", "spending", "Spending", "payments"),
        ("payments", "paymentbudget", "Payment budgets", "account_balance_wallet"),
        ("payments", "budgetpayment", "Paid by budgets", "receipt_long"),
        ("record", "payment", "Payments", "paid"),
    ],
    "Installation": [
        ("installation", "operation", "All agents", "toggle_on"),
        ("housekeeping", "periodicjob", "Housekeeping", "build"),
        ("installation", "modelconnection", "Model connections", "psychology"),
        ("installation", "networkallowance", "Private addresses", "lan"),
        ("installation", "sharedtoolserver", "Tool servers", "handyman"),
    ],
    "People and access": [
        ("accounts", "user", "Users", "person"),
        ("auth", "group", "Groups", "group"),
        ("accounts", "workspace", "Workspaces", "workspaces"),
        ("accounts", "apikey", "API keys", "key"),
        ("allauth_idp_oidc", "client", "Programs", "apps"),
        ("accounts", "auditentry", "Audit", "policy"),
    ],
    "Storage": [
        ("record", "accepted", "Accepted messages", "fingerprint"),
        ("record", "blob", "Stored files", "database"),
        ("uploads", "upload", "Uploads", "upload_file"),
        ("operators", "bulkaction", "Bulk actions", "checklist"),
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
    "DASHBOARD_CALLBACK": "apps.operators.dashboard.page.dashboard_context",
    "SIDEBAR": {
        "show_search": True,
        "navigation": [
            {
                "items": [
                    {"title": "Dashboard", "icon": "monitoring", "link": reverse_lazy("admin:index")},
                    {
                        "title": "Analytics",
                        "icon": "query_stats",
                        "link": reverse_lazy("operators:analytics"),
                        "permission": lambda request: request.user.has_perms(("agents.view_agent", "record.view_run")),
                    },
                ]
            },
            *({"title": title, "items": [_item(*entry) for entry in group]} for title, group in SIDEBAR.items()),
        ],
    },
}
