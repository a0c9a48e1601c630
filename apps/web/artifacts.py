"""Delivered artifacts as a conversation page shows them: listed, looked at, their signatures verified; all as a ZIP."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Any

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.views.decorators.http import require_safe

import db
from apps.agents import identity
from apps.features.sharing import bundles, downloads
from apps.features.signing import signatures
from apps.features.signing.signatures import Verdict
from apps.record.models import Artifact, Context
from apps.web import parts
from apps.web.deliveries import address_of, artifacts_before, file_of
from apps.web.downloads import artifact_of, believed_type, context_of, part_of
from apps.web.listed import by_name
from apps.web.previews.kinds import File, Look, look_at

JSON = dict[str, Any]

SHOWN_AT_ONCE = 3  # parts of an artifact that are shown without being asked for
LISTED = 100  # parts that are named
VERIFIED_AT_ONCE = 8_000_000  # bytes of content that are read again to verify a signature nobody asked about


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a verdict on a signature looks like, is called, and means."""

    look: str
    name: str
    sentence: str


JUDGEMENTS = {
    Verdict.GOOD: Judgement("done", "Signature holds", "This is what the agent delivered, unchanged."),
    Verdict.BROKEN: Judgement(
        "failed", "Signature broken", "This is not what was signed: it was changed since. Do not rely on it."
    ),
    Verdict.UNKNOWN_KEY: Judgement(
        "failed", "Signed by an unknown key", "Nobody here knows the key that signed this. Do not rely on it."
    ),
    Verdict.REVOKED: Judgement(
        "failed", "Signing key withdrawn", "The key that signed this is no longer trusted. Do not rely on it."
    ),
    Verdict.MISSING: Judgement("none", "Not signed", "The agent did not sign this, so nothing says if it was changed."),
}
UNCHECKED = Judgement("none", "Signed, not verified yet", "It is large: verify it when you rely on it.")


@require_safe
@login_required
def files(request: HttpRequest, session: uuid.UUID) -> HttpResponse:
    """What the panel lists by now, as a fragment. Somebody else's session is not found."""
    context = context_of(request, session)
    return render(request, "web/_files.html", {"files": by_name(artifacts_before(context, context.last_event + 1))})


@require_safe
@login_required
def artifact_look(request: HttpRequest, session: uuid.UUID, task: uuid.UUID, artifact: str) -> HttpResponse:
    """A look at an artifact, as a fragment for the page: its signature and its parts."""
    context = context_of(request, session)
    row = artifact_of(context, task, artifact)
    held = parts.pieces_joined(row.parts)
    shown = [
        {
            **file_of(part, context, row, number),
            **_places(context, row, number),
            "look": _look(request, context, row, held, number),
        }
        for number, part in enumerate(held[:LISTED])
    ]
    is_small = sum(parts.size_of(part) or 0 for part in held) <= VERIFIED_AT_ONCE
    about = {
        "artifact": row,
        "parts": shown,
        "unlisted": max(0, len(held) - LISTED),
        "provenance": address_of(context, row, "artifact-provenance"),
    }
    return render(request, "web/_artifact.html", {**about, **_signature(context, row, is_asked=is_small)})


@require_safe
@login_required
def artifact_preview(
    request: HttpRequest, session: uuid.UUID, task: uuid.UUID, artifact: str, number: int
) -> HttpResponse:
    """A look at one part, as a fragment: `?as` says in which way, `?sort` and `?down` in which order."""
    context = context_of(request, session)
    row = artifact_of(context, task, artifact)
    look = look_at(_file(context, row, parts.pieces_joined(row.parts), number), request.GET)
    return render(request, "web/_preview.html", _places(context, row, number) | {"look": look})


@require_safe
@login_required
def artifact_signature(request: HttpRequest, session: uuid.UUID, task: uuid.UUID, artifact: str) -> HttpResponse:
    """What comes of verifying an artifact's signature now, as a fragment."""
    context = context_of(request, session)
    found = _signature(context, artifact_of(context, task, artifact), is_asked=True)
    return render(request, "web/_signature.html", {**found, "is_open": True})


@require_safe
@login_required
async def artifacts_zip(request: HttpRequest, session: uuid.UUID) -> HttpResponseBase:
    """All that was delivered, the newest version of each name; every version with `?all`."""
    context = await db.run(context_of, request, session)
    bundle = await db.run(bundles.of_session, context, every_version="all" in request.GET)
    if not bundle.keys:
        raise Http404
    return downloads.as_zip(context, bundle)


def _look(request: HttpRequest, context: Context, row: Artifact, held: list[JSON], number: int) -> Look | None:
    """How a part is shown with its artifact; None where it waits to be asked for, or is a link."""
    if number >= SHOWN_AT_ONCE or "url" in held[number]:
        return None
    return look_at(_file(context, row, held, number), request.GET)


def _file(context: Context, row: Artifact, held: list[JSON], number: int) -> File:
    part = part_of(held, number)
    name = part.get("filename") or str(row)
    return File(part, name, believed_type(part), address_of(context, row, "artifact-file", number))


def _places(context: Context, row: Artifact, number: int) -> JSON:
    return {"number": number, "preview": address_of(context, row, "artifact-preview", number)}


def _signature(context: Context, row: Artifact, *, is_asked: bool) -> JSON:
    """What is said of an artifact's signature, which is verified if it `is_asked`, or quickly done."""
    place = {"signature": row.signature, "verify": address_of(context, row, "artifact-signature")}
    if row.signature and not is_asked:
        return place | {"judgement": UNCHECKED}
    verdict, key = signatures.verify(row)
    signer = key.agent.name if key and key.agent else ""
    return place | {
        "judgement": JUDGEMENTS[verdict],
        "key": key,
        "signer": signer,
        "digest": row.digest,
        "key_set_url": identity.key_set_url(),
    }
