"""Every address of the installation, from the URL tables, and what its parameters name."""

from __future__ import annotations

import base64
import re
import secrets
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from django.urls import URLPattern, URLResolver, get_resolver

from tests.isolation import features
from tests.isolation.world import Place

GROUP = re.compile(r"\(\?P<(\w+)>[^()]*\)")
CONVERTER = re.compile(r"<(?:\w+:)?(\w+)>")


@dataclass(frozen=True)
class Address:
    """`template` has its parameters in braces, such as `/sessions/{session}`."""

    template: str
    name: str

    @property
    def parameters(self) -> list[str]:
        return re.findall(r"{(\w+)}", self.template)

    def kinds(self) -> dict[str, str]:
        """What each parameter names, a key of `Place.ids`. Raises KeyError for a parameter that nobody described."""
        special = next((kinds for pattern, kinds in SPECIAL if re.search(pattern, self.template)), {})
        known = {**USUAL, **special}
        return {one: known[one] for one in self.parameters if one not in LITERALS or one in special}

    def kinds_or_none(self) -> dict[str, str] | None:
        try:
            return self.kinds()
        except KeyError:
            return None

    def path(self, values: dict[str, Any]) -> str:
        return "/" + self.template.lstrip("/").format(**{**LITERALS, **values})


LITERALS = {
    "index": 1,
    "number": 0,
    "kind": "message",
    "filename": "a",
    "version": 1,
    "provider_id": "none",
    "format": "csv",
    "rest": "nowhere",
}
"""Parameters that name nothing by themselves."""

USUAL = {
    "session": "session",
    "task": "task of session",
    "id": "task of session",
    "taskId": "task of session",
    "pushNotificationConfigId": "webhook",
    "artifact": "artifact of session",
    "message": "message of session",
    "run": "run of session",
    "run_id": "run of session",
    "share": "share",
    "branch": "session",
    "slug": "agent",
    "tenant": "agent of the task",
    "workspace": "workspace",
    "member": "member",
    "context_id": "session",
    "context": "session",
    "sha256": "file",
    "program": "program",
    "uidb64": "person",
    "resource": "resource",
    "model": "agent",
    "response_id": "response",
    "schedule": "schedule",
    "webhook": "incoming webhook",
    "event": "incoming event",
    "channel": "channel",
    "budget": "payment budget",
    "chat_account": "chat_account",
    "invitation": "invitation",
    "comparison": "comparison",
    "export": "export",
    "deployment": "deployment",
    "project_file": "project file",
    "source": "source",
    "ref": "passage",
    **{noun: noun for noun in (one.resource.noun for one in features.viewsets())},
}
SPECIAL: list[tuple[str, dict[str, str]]] = [
    (r"^a2a/.*pushNotificationConfigs/{id}", {"slug": "agent of the task", "id": "webhook"}),
    (r"^a2a/{slug}/.*({id}|{taskId}|{tenant})", {"slug": "agent of the task"}),
    (r"^api/v1/agents/{slug}/versions/{number}", {"slug": "own agent", "number": "version number"}),
    (r"^(api/v1/)?agents/{slug}/(edit|delete|picture|versions|release|rollout)", {"slug": "own agent"}),
    (r"/queue/{message}", {"session": "session that asks", "message": "queued message"}),
    (r"plans/runs/{task}", {"task": "plan run"}),
    (r"plans/runs/{run}", {"run": "plan run"}),
    (r"plans/{slug}", {"slug": "plan"}),
    (r"tasks/{task}/plan$", {"task": "plan run"}),
    (r"^api/v1/approvals/{task}", {"task": "task of the call"}),
    (r"^sessions/{session}/approvals/{task}", {"session": "session of the call", "task": "task of the call"}),
    (r"^sessions/{session}/apps/{index}", {"index": "page of session"}),
    (r"prompts/{prompt}/versions/{version}", {"version": "version of prompt"}),
    (r"tasks/{task}/samples/{name}", {"task": "task that asks", "name": "sample"}),
    (r"tasks/{task}/documents/{name}", {"name": "document"}),
    (r"/pictures/named/{name}", {"name": "document"}),
    (r"^api/v1/tasks/{task}/answer", {"task": "task that asks"}),
    (r"^api/v1/uploads/{key}", {"key": "upload"}),
    (r"^api/v1/keys/{key}", {"key": "key prefix"}),
    (r"shared/{token}", {"token": "share token", "number": "file number"}),
    (r"^invitations/{token}", {"token": "invitation link"}),
    (r"^credentials/{token}", {"token": "credential link"}),
    (r"^confirm-address/{token}", {"token": "address link"}),
    (r"^notifications/stop/", {"token": "link to stop"}),
    (r"^welcome/", {"token": "password link"}),
    (r"^api/v1/agents/{slug}/secrets/{name}", {"slug": "agent", "name": "sample"}),
    (r"settings/data/exports/{key}", {"key": "export"}),
    (r"settings/workspaces/{number}", {"number": "workspace", "person": "member"}),
    (r"settings/security/sessions/{number}", {"number": "browser"}),
    (r"settings/keys/{number}", {"number": "key"}),
    (r"settings/credentials/{number}", {"number": "credential"}),
    (r"settings/security/passkeys/{pk}", {"pk": "passkey"}),
    (r"^hooks/chats/", {"key": "chat_channel"}),
    (r"^hooks/", {"key": "incoming webhook"}),
    (r"^gateway/files/", {"named": "file link"}),
    (r"^v1/files/", {"signed": "link to a file"}),
    (r"^langgraph/", {"assistant_id": "agent", "thread_id": "session", "run_id": "message of session"}),
]
LINKS = {
    "share token",
    "invitation link",
    "file link",
    "link to a file",
    "link to stop",
    "address link",
    "password link",
}
"""Secrets that are made to be handed on: whoever has one may use it, so no two answers are compared for it."""
FIXED = LINKS | {"sample", "document", "file number", "page of session", "version number"}
"""Not exchanged for another: links, and names and numbers that are the same everywhere."""
NOT_OURS = re.compile(r"^(admin|static|ext|\.well-known/acme)(/|$)")
"""The operators' pages have a test of their own; static files and documents of extensions are everybody's."""


def addresses() -> list[Address]:
    """All of them, each form once: A2A's and the API's have one with a slash at the end, too."""
    found: dict[str, Address] = {}
    for address in _walk(get_resolver().url_patterns):
        found.setdefault(address.template.rstrip("/"), address)
    return list(found.values())


def _walk(patterns: Iterable[URLPattern | URLResolver], before: str = "") -> Iterator[Address]:
    for one in patterns:
        template = before + template_of(str(one.pattern))
        if isinstance(one, URLResolver):
            yield from _walk(one.url_patterns, template)
        else:
            yield Address(template, one.name or "")


def template_of(pattern: str) -> str:
    """A pattern of a route with its parameters in braces."""
    plain = CONVERTER.sub(r"{\1}", GROUP.sub(r"{\1}", re.sub(r"\(\?!\w+/\)", "", pattern)))
    return re.sub(r"^\^|/\?\\Z$|\\Z$|\$$", "", plain).replace("/?", "")


OPEN_TO_ALL = [one for one in addresses() if not NOT_OURS.match(one.template) and one.parameters]
WITHOUT_IDS = [one for one in addresses() if not NOT_OURS.match(one.template) and not one.parameters]
OPERATORS = [one for one in addresses() if one.template.startswith("admin/")]


def made_up(value: Any) -> Any:
    """An id of the same form that nothing has."""
    if isinstance(value, uuid.UUID):
        return uuid.uuid4()
    if isinstance(value, int):
        return 987_654_321
    if "universe" in value:
        return re.sub(r"\w+universe", f"no{secrets.token_hex(3)}universe", value)
    if value.startswith("resp_"):
        return f"resp_{secrets.token_hex(16)}_1"
    if re.fullmatch(r"[0-9a-f]+", value):
        return "0" * len(value)
    return secrets.token_urlsafe(len(value))[: len(value)]


def ids_of(place: Place) -> dict[str, Any]:
    """With the ids that are made of others."""
    person = base64.urlsafe_b64encode(str(place.owner.pk).encode()).decode().rstrip("=")
    derived: dict[str, Any] = {
        "person": person,
        "resource": f"a2a/{place.ids['agent']}",
        "sample": "sample.txt",
        "document": "task",
    }
    derived |= {"file number": 1, "version number": 1}
    return {**place.ids, **derived}
