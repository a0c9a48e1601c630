"""Negotiation: which agents would take a piece of work, and how well each fits (docs/extensions/negotiation-v1.md).

`POST /a2a/<slug>/negotiation` asks one agent, `POST /a2a/negotiation` all that the caller may use.
"""

from __future__ import annotations

import re
from dataclasses import asdict
from typing import Any

from django.conf import settings
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.views.decorators.csrf import csrf_exempt

from apps.a2a import answers, extensions
from apps.a2a.answers import json_response
from apps.a2a.calls import Arrival, arrive, check_headers, read_body
from apps.a2a.errors import JSON, AgentNotFound, Forbidden, WrongVerb
from apps.a2a.fields import Fields, snake
from apps.a2a.rest import media_type
from apps.accounts.principals import READ
from apps.agents import cards
from apps.agents.negotiation import Ask, Assessment, Weights
from apps.features.routing import ranking
from apps.record.errors import InvalidParams

MEDIA_TYPE = re.compile(r"[\w.+-]+/(\*|[\w.+-]+)|\*/\*", re.ASCII)
MOST_NAMED = 100  # media types, or tools


@csrf_exempt
async def negotiation(request: HttpRequest, slug: str = "") -> HttpResponseBase:
    """The answer of one agent, or of all, in the words of HTTP+JSON. It needs no A2A-Version: it is of our own."""
    try:
        if request.method != "POST":
            raise WrongVerb(("POST",))
        check_headers(request)
        arrival = await arrive(request, slug)
        if not arrival.principal.may(READ):
            raise Forbidden(f"This API key may not do this: it lacks the scope {READ}.")
        headers = _activated(arrival)
        asked = read_ask(await read_body(request.body))
        return json_response(await _answer(arrival, asked), headers=headers, content_type=media_type(request))
    except Exception as error:
        return answers.refusal(error, media_type(request))


async def _answer(arrival: Arrival, asked: Ask) -> JSON:
    ranked = await ranking.rank(arrival.principal, asked, arrival.agent)
    if arrival.agent is None:
        return {"agents": [_listed(one) for one in ranked]}
    if not ranked:  # it was switched off just now
        raise AgentNotFound
    return ranked[0].wire


def _listed(one: Assessment) -> JSON:
    agent = one.agent
    return {"agent": agent.slug, "name": agent.name, "url": cards.endpoint(agent), "health": agent.health, **one.wire}


def _activated(arrival: Arrival) -> dict[str, str]:
    """The header that names the extension, for who named it."""
    uri = cards.extension("negotiation")
    named = uri in extensions.requested(arrival.request)
    return {extensions.HEADER: uri} if named else {}


def read_ask(body: Any) -> Ask:
    """Raises InvalidParams, with every field that cannot be used."""
    if not isinstance(body, dict):
        raise InvalidParams("The body must be a JSON object.")
    fields = Fields(_in_snake_case(body))
    asked = Ask(
        summary=_text(fields, "task_summary", required=True),
        details=_text(fields, "task_details"),
        input_types=_media_types(fields, "input_mime_types"),
        output_types=_media_types(fields, "output_mime_types"),
        max_latency_ms=fields.integer("max_latency_ms", 1),
        max_cost=fields.number("max_cost_amount"),
        required_tools=fields.lines("required_tools", MOST_NAMED),
        forbidden_tools=fields.lines("forbidden_tools", MOST_NAMED),
        min_score=fields.number("min_score", most=1.0) or 0.0,
        weights=_weights(fields),
    )
    fields.check()
    return asked


def _in_snake_case(body: JSON) -> JSON:
    """The fields as the extension spells them; camelCase is understood. Raises InvalidParams if one comes twice."""
    spelled = {snake(name): value for name, value in body.items()}
    if len(spelled) != len(body):
        raise InvalidParams("A field comes twice, in camelCase and in snake_case.")
    return spelled


def _text(fields: Fields, name: str, *, required: bool = False) -> str:
    text = fields.text(name, required=required)
    if len(text) > settings.MAX_SUMMARY_LENGTH:
        fields.refuse(name, f"At most {settings.MAX_SUMMARY_LENGTH} characters.")
    elif required and text and not text.strip():
        fields.refuse(name, "Is required.")
    return text


def _media_types(fields: Fields, name: str) -> list[str]:
    named = fields.lines(name, MOST_NAMED)
    for position, one in enumerate(named):
        if isinstance(one, str) and not MEDIA_TYPE.fullmatch(one):
            fields.refuse(f"{name}[{position}]", "Must be a media type, such as text/plain or image/*.")
    return [one.lower() for one in named if isinstance(one, str)]


def _weights(fields: Fields) -> Weights:
    given = fields.message("weights")
    usual = asdict(Weights())
    if given is None:
        return Weights()
    for name in sorted(given.names() - usual.keys()):
        given.refuse(name, f"Is no weight. There are {', '.join(usual)}.")
    read = {name: given.number(name, most=1_000_000) for name in usual}
    weights = Weights(**{name: usual[name] if value is None else value for name, value in read.items()})
    if not any(asdict(weights).values()):
        given.refuse("", "Must not all be zero.")
    return weights
