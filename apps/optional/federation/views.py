"""The addresses at which installations speak to one another (`/federation/…`)."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from http import HTTPStatus
from typing import Any

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.csrf import csrf_exempt

from apps.accounts.audit_models import AuditAction
from apps.accounts.principals import ANONYMOUS
from apps.accounts.requests import quotas
from apps.accounts.requests.quotas import QuotaExceeded
from apps.optional.federation import pairing, sync
from apps.optional.federation.pairing import PairingRefused
from apps.record.content import strict_json
from apps.record.error_table import codes_of
from apps.remote.federation import tokens
from apps.remote.federation.tokens import BadPeerToken
from apps.remote.models import Peer
from parley import db

LARGEST_BODY = 32 * 1024  # bytes

View = Callable[[HttpRequest], Coroutine[Any, Any, HttpResponse]]


def _refusal(status: int, detail: str) -> HttpResponse:
    headers = {"Cache-Control": "no-store"}
    return JsonResponse({"status": status, "detail": detail}, status=status, headers=headers)


def _answering(method: str) -> Callable[[View], View]:
    """A view for one method, counted by address, with refusals as JSON."""

    def decorate(view: View) -> View:
        async def answer(request: HttpRequest) -> HttpResponse:
            if request.method != method:
                return _refusal(HTTPStatus.METHOD_NOT_ALLOWED, f"Use {method}.")
            try:
                await db.run(quotas.count_request, ANONYMOUS, str(request.META.get("REMOTE_ADDR", "")))
                return await view(request)
            except (QuotaExceeded, PairingRefused) as error:
                return _refusal(codes_of(type(error)).a2a, str(error))
            except BadPeerToken:
                return _refusal(HTTPStatus.UNAUTHORIZED, "The token is not one of a paired installation.")

        return csrf_exempt(answer)

    return decorate


@_answering("POST")
async def pair(request: HttpRequest) -> HttpResponse:
    """`POST /federation/pair`: an installation took a code of this one."""
    try:
        body = strict_json.parse(request.body) if len(request.body) <= LARGEST_BODY else None
    except strict_json.InvalidJSON:
        body = None
    if not isinstance(body, dict):
        raise PairingRefused("The body must be a small JSON object.")
    return JsonResponse(await pairing.answer_pairing(body), headers={"Cache-Control": "no-store"})


@_answering("GET")
async def agents(request: HttpRequest) -> HttpResponse:
    """`GET /federation/agents`: what is shared with a paired installation."""
    await db.run(_verified_peer, request, tokens.SYNC)
    return JsonResponse({"agents": await db.run(sync.shared_agents)}, headers={"Cache-Control": "no-store"})


@_answering("POST")
async def end(request: HttpRequest) -> HttpResponse:
    """`POST /federation/end`: a paired installation says that it has revoked this one."""
    peer = await db.run(_verified_peer, request, tokens.END)
    await db.run(pairing.end, peer, Peer.State.ENDED, AuditAction.PEER_ENDED)
    return JsonResponse({})


def _verified_peer(request: HttpRequest, kind: str) -> Peer:
    """The peer whose token the request has. Raises BadPeerToken."""
    read = tokens.read(tokens.token_in(request.headers.get("Authorization", "")), kind)
    peer = Peer.objects.paired().filter(did=read.issuer).first()
    if peer is None:
        raise BadPeerToken("It is of an installation that is not paired with this one.")
    read.verify(peer.key(read.kid))
    return peer
