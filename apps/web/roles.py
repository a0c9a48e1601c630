"""What pages need of the person's role in the current workspace: to write, unless named, the permission to send."""

from __future__ import annotations

from collections.abc import Callable

from asgiref.sync import iscoroutinefunction
from django.contrib.auth.models import AnonymousUser
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.urls import Resolver404, ResolverMatch, resolve
from django.utils.decorators import sync_only_middleware

from apps.accounts.models import User
from apps.accounts.permissions import Permission, missing_permission
from apps.accounts.principals import Principal

OWN_PAGES = frozenset(
    {
        *("sign-in", "sign-out", "welcome", "forgotten", "confirm-address", "token", "dismiss-first-steps"),
        *("sign-up", "invitation"),
        *("credential", "shared", "shared-file"),  # whoever has the link
    }
)
"""Pages that change nothing in a workspace; `settings…`, too, whose functions check the role themselves."""

NEEDED: dict[str, Permission] = {
    "add-agent": Permission.BUILD,
    "new-agent": Permission.BUILD,
    "edit-agent": Permission.BUILD,
    "delete-agent": Permission.BUILD,
    "try-draft": Permission.BUILD,
    "draft-prose": Permission.READ,
    "new-plan": Permission.BUILD,
    "plan-edit": Permission.BUILD,
    "plan-check": Permission.READ,
    "schedule-preview": Permission.READ,
    "webhook-trial": Permission.READ,
    "sample-key": Permission.READ,
    "try-token": Permission.READ,
    "revoke": Permission.READ,  # a credential of one's own
}
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})


def role_refusal(principal: Principal, match: ResolverMatch | None) -> str:
    """Why the person may not write at this address; "" if they may."""
    if match is None or match.app_name != "web":
        return ""
    name = match.url_name or ""
    if name in OWN_PAGES or name.startswith("settings-"):
        return ""
    needed = NEEDED.get(name, Permission.SEND)
    return "" if principal.can(needed) else missing_permission(needed)


@sync_only_middleware
def require_role(get_response: Callable[[HttpRequest], HttpResponse]) -> Callable[[HttpRequest], HttpResponse]:
    """Middleware: writes need the permission of the page. Coroutine views ask `role_refusal` themselves."""

    def respond(request: HttpRequest) -> HttpResponse:
        if request.method not in SAFE_METHODS and (match := _sync_page(request.path_info)):
            refuse(request.user, match)
        return get_response(request)

    return respond


def refuse(user: User | AnonymousUser, match: ResolverMatch | None) -> None:
    """Raises PermissionDenied if the signed-in person may not write at this address."""
    if isinstance(user, User) and (refusal := role_refusal(user.principal, match)):
        raise PermissionDenied(refusal)


def _sync_page(path: str) -> ResolverMatch | None:
    try:
        match = resolve(path)
    except Resolver404:
        return None
    return None if iscoroutinefunction(match.func) else match
