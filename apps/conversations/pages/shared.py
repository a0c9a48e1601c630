"""Sessions for people with a public link."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Coroutine, Iterator
from functools import wraps
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_safe

from apps.accounts.errors import NotFound
from apps.accounts.requests import quotas
from apps.conversations.pages.session import messages
from apps.conversations.pages.session.pictures import copy_of, is_picture_named, remote_pictures, signed_address
from apps.conversations.public_links import downloads, shares
from apps.conversations.public_links.shares import Branch, ShareNotFound, Snapshot
from apps.record.content import parts
from apps.record.content.rendering import Surroundings
from apps.record.error_table import plain_response
from apps.record.events import JSON
from apps.record.models import Message
from parley import db

type Page = Callable[..., Coroutine[Any, Any, HttpResponseBase]]


def by_link(view: Page) -> Page:
    """A view without sign-in. Every invalid link gets the same answer."""

    @wraps(view)
    async def answered(request: HttpRequest, token: str, **place: Any) -> HttpResponseBase:
        response: HttpResponseBase
        try:
            await db.run(quotas.count_view, str(request.META.get("REMOTE_ADDR", "")))
            response = await view(request, token, await db.run(shares.find_snapshot, token), **place)
        except NotFound:
            about = {"sentence": str(ShareNotFound())}
            response = await db.run(render, request, "conversations/shared_nothing.html", about, status=404)
        except quotas.QuotaExceeded as refusal:
            response = plain_response(refusal)
        for name, value in downloads.LINK_HEADERS.items():
            response[name] = value
        return response

    return answered


@require_safe
@by_link
async def shared(request: HttpRequest, token: str, snapshot: Snapshot) -> HttpResponse:
    return await db.run(_shared_page, request, token, snapshot)


def _shared_page(request: HttpRequest, token: str, snapshot: Snapshot) -> HttpResponse:
    branches = [_shown_branch(snapshot, branch, token, number) for number, branch in enumerate(snapshot.branches)]
    return render(
        request, "conversations/shared.html", {"share": snapshot.share, "owner": snapshot.owner, "branches": branches}
    )


@require_safe
@by_link
async def shared_file(
    request: HttpRequest, token: str, snapshot: Snapshot, branch: uuid.UUID, kind: str, index: int, number: int
) -> HttpResponseBase:
    part = await db.run(snapshot.part, branch, kind, index, number)
    return await db.run(downloads.file_response, part, f"{index}-{number}", is_download=True)


@require_safe
@by_link
async def shared_picture(request: HttpRequest, token: str, snapshot: Snapshot) -> HttpResponse:
    """A copy of another host's picture, for whoever has the link."""
    return await copy_of(signed_address(request, str(snapshot.share.pk)))


def _around(snapshot: Snapshot, branch: Branch, token: str, key: str) -> Surroundings:
    """Pictures of the branch have addresses if files are shared."""

    def own_picture(name: str) -> str:
        made = ((row.first_event, parts.pieces_joined(row.parts), row.name) for row in reversed(branch.artifacts))
        for index, held, artifact in made if snapshot.share.with_artifacts else ():
            for number, part in enumerate(held):
                if is_picture_named(part, name, artifact):
                    return reverse("web:shared-file", args=[token, branch.context.pk, "artifacts", index, number])
        return ""

    copies = remote_pictures(str(snapshot.share.pk), reverse("web:shared-picture", args=[token]))
    return Surroundings(key, own_picture, copies)


def _shown_branch(snapshot: Snapshot, branch: Branch, token: str, number: int) -> JSON:
    return {
        "number": number,
        "messages": [
            {
                "author": snapshot.author(said)
                or ("Agent" if said.role == Message.Role.AGENT else "The person who shared this"),
                "is_agent": said.role == Message.Role.AGENT,
                "at": said.created_at,
                "parts": list(_shown_parts(snapshot, branch, "messages", said.index, said.parts, token)),
            }
            for said in branch.messages
        ],
        "artifacts": [
            {
                "name": made.name or made.artifact_id,
                "description": made.description,
                "is_unfinished": made.until is not None,
                "parts": list(
                    _shown_parts(
                        snapshot, branch, "artifacts", made.first_event, parts.pieces_joined(made.parts), token
                    )
                ),
            }
            for made in branch.artifacts
        ],
    }


def _shown_parts(
    snapshot: Snapshot, branch: Branch, kind: str, index: int, said: list[JSON], token: str
) -> Iterator[JSON]:
    for number, part in enumerate(said):
        address = reverse("web:shared-file", args=[token, branch.context.pk, kind, index, number])
        granted = snapshot.share.with_artifacts
        around = _around(snapshot, branch, token, f"{branch.context.pk.hex}-{kind}-{index}-{number}")
        shown = messages.shown_part(part, address if granted else "", marked_up=True, around=around)
        yield shown if granted or "url" not in part else {**shown, "href": ""}
