"""Signed agent cards, public keys and identities at well-known addresses, with headers for caches.

`agent-card.json` is of A2A 1.0 (§8.2) or 0.3 if the request names the version, otherwise of both, unless that is
switched off; `agent.json` is of 0.3 (0.3 §5.3).
"""

from __future__ import annotations

import datetime
import functools
import hashlib
import json
from collections.abc import Callable, Coroutine
from typing import Any

from django.conf import settings
from django.db.models import Max
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.utils.cache import get_conditional_response
from django.utils.http import http_date

from apps.a2a import http
from apps.a2a.authentication import check_access, find_agent
from apps.a2a.errors import JSON
from apps.a2a.versions.v0_3 import downgrade_card, with_old_fields
from apps.accounts.principals import Principal
from apps.accounts.refusals import refusals
from apps.accounts.requests.authentication import BadCredentials, api_key_principal
from apps.agents import cards
from apps.agents.identities import card_signatures, identity
from apps.agents.models import Agent, AgentNotFound, AgentQuerySet
from apps.record.errors import ExtendedAgentCardNotConfigured, MethodNotAllowed, Unauthenticated, UnsupportedOperation
from parley import db


def read_only(view: View) -> View:
    """A view for GET and HEAD, with errors as in HTTP+JSON."""

    @functools.wraps(view)
    async def answer(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        try:
            if request.method not in ("GET", "HEAD"):
                raise MethodNotAllowed(("GET", "HEAD"))
            return await view(request, *args, **kwargs)
        except BadCredentials as refusal:
            await db.run(refusals.count_key, request.headers.get("Authorization", ""), request, refusal.reason)
            return http.error_response(refusal)
        except Exception as error:
            return http.error_response(error)

    return answer


@read_only
async def agent_card(request: HttpRequest, slug: str, is_old: bool = False) -> HttpResponseBase:
    """`GET /a2a/<slug>/.well-known/agent-card.json`."""
    agent, card, changed = await db.run(_signed_agent_card, request, slug, is_old)
    return _card_response(request, card, changed, is_old=is_old, private=is_private(agent))


@read_only
async def platform_card(request: HttpRequest, is_old: bool = False) -> HttpResponseBase:
    """`GET /.well-known/agent-card.json`: one card of all listed agents whose own card is open."""
    card, changed = await db.run(signed_platform_card, _widening(request, is_old, settings.CARDS_FOR_OLD_CLIENTS))
    return _card_response(request, card, changed, is_old=is_old, private=False)


MOST_NAMED = 20  # agents in an error


@read_only
async def misplaced_card(request: HttpRequest) -> HttpResponseBase:
    """`GET /a2a/.well-known/agent-card.json`, which would be the card of no one agent.

    Clients get here that resolve the path by RFC 3986 against an agent's address without a slash at its end.
    """
    slugs = await db.run(lambda: list(_open_agents().values_list("slug", flat=True)[: MOST_NAMED + 1]))
    base = cards.platform_url()
    known = f" Agents here: {', '.join(slugs[:MOST_NAMED])}{' and more' * (len(slugs) > MOST_NAMED)}." if slugs else ""
    example = slugs[0] if slugs else "<agent>"
    raise AgentNotFound(
        f"There is no card at this address. If your client was given {base}/{example}, give it {base}/{example}/ with "
        f"a slash at the end, or the card's address {base}/{example}/.well-known/agent-card.json. The card of the "
        f"whole platform is {settings.PUBLIC_BASE_URL}/.well-known/agent-card.json.{known}"
    )


def _open_agents() -> AgentQuerySet:
    """The agents whose cards everybody may find."""
    return Agent.objects.listed().with_open_card().order_by("name", "pk")


def extended_card(principal: Principal, agent: Agent) -> JSON:
    """The signed extended card (A2A 1.0 §3.1.11).

    Raises UnsupportedOperation, Unauthenticated, ExtendedAgentCardNotConfigured.
    """
    if not agent.has_extended_card:
        raise UnsupportedOperation("This agent has no extended card: its card says so.")
    if not principal.is_known:
        raise Unauthenticated(
            'The extended card is for known callers. Send an API key as "Authorization: Bearer <key>".'
        )
    if not agent.extended_card:
        raise ExtendedAgentCardNotConfigured
    return card_signatures.signed_card(cards.extended_card(agent), agent)


def signed_platform_card(widen: Widen | None = None) -> tuple[JSON, datetime.datetime]:
    """The platform's signed card, and when an agent last changed. Raises AgentNotFound if there is none to show."""
    agents = list(_open_agents())
    if not agents:
        raise AgentNotFound("There is no agent here that everybody may see.")
    newest: datetime.datetime = Agent.objects.aggregate(newest=Max("updated_at"))["newest"]
    signed = card_signatures.signed_card(cards.platform_card(agents), None, widen)
    return signed, card_signatures.card_changed_at(newest, None)


def _visible_agent(request: HttpRequest, slug: str, *, or_disabled: bool = False) -> Agent:
    """The agent, if the caller may see its card. An open card says how to authenticate.

    Raises BadCredentials, AgentNotFound.
    """
    agent = find_agent(slug)
    if agent is not None and not is_private(agent) and (agent.is_enabled or or_disabled):
        return agent
    return check_access(api_key_principal(request.headers.get("Authorization", ""), request), agent)


def is_private(agent: Agent) -> bool:
    """Whether only those who may use the agent see it."""
    return not agent.has_open_card


def _signed_agent_card(request: HttpRequest, slug: str, is_old: bool) -> tuple[Agent, JSON, datetime.datetime]:
    agent = _visible_agent(request, slug)
    widen = _widening(request, is_old, agent.card_for_old_clients or settings.CARDS_FOR_OLD_CLIENTS)
    signed = card_signatures.signed_card(cards.agent_card(agent), agent, widen)
    return agent, signed, card_signatures.card_changed_at(agent.updated_at, agent)


def _widening(request: HttpRequest, is_old: bool, is_for_both: bool) -> Widen | None:
    """Clients of 0.3 name no version. Who names one gets its card alone."""
    names_version = is_old or http.version_of(request, default="")
    return with_old_fields if is_for_both and not names_version else None


def _card_response(
    request: HttpRequest, card: JSON, changed: datetime.datetime, *, is_old: bool, private: bool
) -> HttpResponseBase:
    """The card in the requested version. Raises AgentNotFound if it has no 0.3 form."""
    old = is_old or http.version_of(request, default="") == http.V0_3
    shown, validator = (downgrade_card(card), "") if old else (card, card_signatures.card_etag(card))
    return document_response(
        request, shown, validator=validator, changed=changed, private=private, vary=http.VERSION_HEADER
    )


KEY_SET_TYPE = "application/jwk-set+json"
DID_TYPE = "application/did+json"


@read_only
async def key_set(request: HttpRequest) -> HttpResponseBase:
    """`GET /.well-known/jwks.json`."""
    return document_response(request, await db.run(identity.key_set), content_type=KEY_SET_TYPE)


@read_only
async def platform_identity(request: HttpRequest) -> HttpResponseBase:
    """`GET /.well-known/did.json`."""
    return document_response(request, await db.run(identity.did_document, None), content_type=DID_TYPE)


@read_only
async def agent_identity(request: HttpRequest, slug: str) -> HttpResponseBase:
    """`GET /a2a/<slug>/did.json`, for those who may see the card.

    A disabled agent keeps it, so that its signatures can be verified.
    """
    agent, document = await db.run(_visible_identity, request, slug)
    return document_response(request, document, content_type=DID_TYPE, private=is_private(agent))


def _visible_identity(request: HttpRequest, slug: str) -> tuple[Agent, JSON]:
    agent = _visible_agent(request, slug, or_disabled=True)
    return agent, identity.did_document(agent)


MAX_AGE = 300  # seconds

View = Callable[..., Coroutine[Any, Any, HttpResponseBase]]
Widen = Callable[[JSON], JSON]


def document_response(
    request: HttpRequest,
    shown: JSON,
    *,
    content_type: str = http.JSON_TYPE,
    validator: str = "",
    changed: datetime.datetime | None = None,
    private: bool = False,
    vary: str = "",
) -> HttpResponseBase:
    """The document with headers for caches, or a 304.

    Attributes:
        validator: a strong ETag, in quotes; by default a hash of the content.
        changed: when it last changed, if known.
        private: whether it is for this caller only.
        vary: the request header on which it depends.
    """
    content = json.dumps(shown, ensure_ascii=False).encode()
    response = HttpResponse(content, content_type=content_type)
    response["ETag"] = validator or f'"{hashlib.sha256(content).hexdigest()[:32]}"'
    response["Cache-Control"] = f"{'private' if private else 'public'}, max-age={MAX_AGE}"
    seconds = int(changed.timestamp()) if changed else None
    if seconds is not None:
        response["Last-Modified"] = http_date(seconds)
    if vary:
        response["Vary"] = vary
    return get_conditional_response(request, response["ETag"], seconds, response) or response
