"""A2A extensions (A2A 1.0 §3.2.6): activation, the pages that describe our own, and negotiation.

Negotiation says which agents would take some work, and how well each fits (docs/extensions/negotiation-v1.md).
"""

from __future__ import annotations

from functools import cache
from typing import Annotated, Self

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_safe
from pydantic import AfterValidator, ConfigDict, Field, StringConstraints, model_validator

from apps.a2a import http
from apps.a2a.errors import JSON
from apps.a2a.protojson import Integer, Lines, Number, ProtoMessage, Text
from apps.accounts.principals import READ
from apps.agents import cards
from apps.agents.models import Agent, AgentNotFound
from apps.agents.negotiation import Assessment, Weights, WorkRequest
from apps.record.content.strict_json import LARGEST_EXACT
from apps.record.errors import ExtensionSupportRequired, MethodNotAllowed, check_allowed
from apps.routing import ranking

EXTENSIONS_HEADER = "A2A-Extensions"
OLD_EXTENSIONS_HEADER = "X-A2A-Extensions"
NAMED = {f"HTTP_{name.upper().replace('-', '_')}" for name in (EXTENSIONS_HEADER, OLD_EXTENSIONS_HEADER)}
"""The headers that name extensions, as `request.META` has them."""


def activate(request: HttpRequest, agent: Agent) -> dict[str, str]:
    """The response header with the extensions that the request names and the agent declares; {} for none.

    Raises ExtensionSupportRequired.
    """
    named = requested_extensions(request)
    own = agent.capabilities.get("extensions", [])
    if not named and not any(extension.get("required") for extension in own):
        return {}
    declared = cards.card_extensions(agent)
    for extension in declared:
        if extension.get("required") and extension["uri"] not in named:
            raise ExtensionSupportRequired(
                f"The agent requires {extension['uri']}. Name it in the {EXTENSIONS_HEADER} header."
            )
    activated = [extension["uri"] for extension in declared if extension["uri"] in named]
    return {EXTENSIONS_HEADER: ", ".join(activated)} if activated else {}


def requested_extensions(request: HttpRequest) -> set[str]:
    named = ",".join(request.headers.get(header, "") for header in (EXTENSIONS_HEADER, OLD_EXTENSIONS_HEADER))
    return {uri.strip() for uri in named.split(",")} - {""}


STEERING = "/ext/steering/v1"  # end of its URI


def stops_after_step(metadata: JSON | None) -> bool:
    """Does this CancelTask only ask that the task stops after its step (docs/extensions/steering-v1.md)?"""
    asked = next((value for name, value in (metadata or {}).items() if name.endswith(STEERING)), None)
    return isinstance(asked, dict) and asked.get("afterStep") is True


@require_safe
def extension_page(request: HttpRequest, name: str, version: int) -> HttpResponse:
    """`GET /ext/<name>/v<version>`: plain text."""
    text = _pages().get(f"{name}-v{version}")
    if text is None:
        raise Http404
    response = HttpResponse(text, content_type="text/plain; charset=utf-8")
    response["Cache-Control"] = "public, max-age=3600"
    return response


@cache
def _pages() -> dict[str, str]:
    return {page.stem: page.read_text() for page in settings.EXTENSION_PAGES.glob("*.md")}


MEDIA_RANGE = r"^([A-Za-z0-9_.+-]+/(\*|[A-Za-z0-9_.+-]+)|\*/\*)$"


@csrf_exempt
async def negotiation(request: HttpRequest, slug: str = "") -> HttpResponseBase:
    """The assessment of one agent, or a ranking of all. Needs no A2A-Version."""
    try:
        if request.method != "POST":
            raise MethodNotAllowed(("POST",))
        http.check_content_type(request)
        incoming = await http.authenticate_request(request, slug)
        check_allowed(incoming.principal, READ)
        headers = _activation_header(incoming)
        work = NegotiationRequest.read(await http.read_object(incoming)).work()
        return http.json_response(
            await _rank(incoming, work), headers=headers, content_type=http.response_type(request)
        )
    except Exception as error:
        return http.error_response(error, http.response_type(request))


async def _rank(incoming: http.AuthenticatedRequest, work: WorkRequest) -> JSON:
    ranked = await ranking.rank_agents(incoming.principal, work, incoming.agent)
    if incoming.agent is None:
        return {"agents": [_assessment_json(one) for one in ranked]}
    if not ranked:  # disabled just now
        raise AgentNotFound
    return ranked[0].wire


def _assessment_json(one: Assessment) -> JSON:
    agent = one.agent
    return {"agent": agent.slug, "name": agent.name, "url": cards.agent_url(agent), "health": agent.health, **one.wire}


def _activation_header(incoming: http.AuthenticatedRequest) -> dict[str, str]:
    """The header with the extension, if the request named it."""
    uri = cards.extension_uri("negotiation")
    named = uri in requested_extensions(incoming.request)
    return {EXTENSIONS_HEADER: uri} if named else {}


def _not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("Is required.")
    return text


Summary = Annotated[Text, Field(max_length=settings.MAX_SUMMARY_LENGTH)]
MediaRanges = Annotated[
    list[Annotated[str, StringConstraints(pattern=MEDIA_RANGE, to_lower=True)]], Field(max_length=100)
]
Weight = Annotated[Number, Field(ge=0, le=1_000_000)]
DEFAULT_WEIGHTS = Weights()


class NegotiationWeights(ProtoMessage):
    model_config = ConfigDict(extra="forbid")

    skill: Weight = DEFAULT_WEIGHTS.skill
    io: Weight = DEFAULT_WEIGHTS.io
    performance: Weight = DEFAULT_WEIGHTS.performance
    load: Weight = DEFAULT_WEIGHTS.load
    cost: Weight = DEFAULT_WEIGHTS.cost

    @model_validator(mode="after")
    def check_sum(self) -> Self:
        if not any(self.model_dump().values()):
            raise ValueError("Must not all be zero.")
        return self


class NegotiationRequest(ProtoMessage):
    """Some work. Fields are in snake_case."""

    model_config = ConfigDict(alias_generator=None)

    task_summary: Annotated[Summary, AfterValidator(_not_blank)]
    task_details: Summary = ""
    input_mime_types: MediaRanges = []
    output_mime_types: MediaRanges = []
    max_latency_ms: Annotated[Integer, Field(ge=1, lt=2**31)] | None = None
    max_cost_amount: Annotated[Number, Field(ge=0, le=LARGEST_EXACT)] | None = None
    required_tools: Lines = []
    forbidden_tools: Lines = []
    min_score: Annotated[Number, Field(ge=0, le=1)] = 0.0
    weights: NegotiationWeights = NegotiationWeights()

    def work(self) -> WorkRequest:
        return WorkRequest(
            summary=self.task_summary,
            details=self.task_details,
            input_types=self.input_mime_types,
            output_types=self.output_mime_types,
            max_latency_ms=self.max_latency_ms,
            max_cost=self.max_cost_amount,
            required_tools=self.required_tools,
            forbidden_tools=self.forbidden_tools,
            min_score=self.min_score,
            weights=Weights(**self.weights.model_dump()),
        )
