"""The public keys, and who agents and the platform are, at well-known addresses."""

from __future__ import annotations

from django.http import HttpRequest
from django.http.response import HttpResponseBase

import db
from apps.a2a.callers import AGENT, check_access
from apps.a2a.discovery import is_private
from apps.a2a.documents import document, read_only
from apps.a2a.errors import JSON, AgentNotFound
from apps.accounts.credentials import principal_of
from apps.agents import identity
from apps.agents.models import Agent

KEY_SET = "application/jwk-set+json"
DID_DOCUMENT = "application/did+json"


@read_only
async def keys(request: HttpRequest) -> HttpResponseBase:
    """`GET /.well-known/jwks.json`: every public key whose signatures are trusted."""
    return document(request, await db.run(identity.key_set), content_type=KEY_SET)


@read_only
async def platform(request: HttpRequest) -> HttpResponseBase:
    """`GET /.well-known/did.json`: the platform's own identity."""
    return document(request, await db.run(identity.did_document, None), content_type=DID_DOCUMENT)


@read_only
async def agent(request: HttpRequest, slug: str) -> HttpResponseBase:
    """`GET /a2a/<slug>/did.json`: an agent's identity, for whoever may see its card.

    An agent that is switched off keeps it, or nobody could verify what it has signed.
    """
    found, shown = await db.run(_document, request.headers.get("Authorization", ""), slug)
    return document(request, shown, content_type=DID_DOCUMENT, private=is_private(found))


def _document(authorization: str, slug: str) -> tuple[Agent, JSON]:
    found = AGENT.one(slug) if slug.isprintable() else None
    if found is None:
        raise AgentNotFound
    if is_private(found):
        check_access(principal_of(authorization), found)
    return found, identity.did_document(found)
