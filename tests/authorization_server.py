"""A little OAuth2 authorization server that takes nothing on trust: exact redirects, PKCE, and grants good once."""

import asyncio
import base64
import hashlib
import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import httpx
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from apps.credentials import oauth
from apps.credentials.models import OAuthService
from tests.remote.scripted import serving_app

CLIENT, SECRET = "parley-here", "client-secret-0ddba11"
SCOPES = "calendar.read offline"


class AuthorizationServer:
    """
    Attributes:
        denies: the error with which it sends people back, if any.
        fails: the status and body of all its answers about tokens, if any.
        iss: what it says of itself when it sends people back; None leaves it out.
        says: what its metadata has besides, or instead.
        asked: the kinds of tokens that it was asked for.
        issued, revoked: all tokens.
    """

    def __init__(self) -> None:
        self.url = ""
        self.denies = ""
        self.fails: tuple[int, Any] | None = None
        self.iss: str | None = ""
        self.lifetime: int | None = 3600
        self.rotates = True
        self.says: dict[str, str] = {}
        self.asked: list[str] = []
        self.issued: list[str] = []
        self.revoked: list[str] = []
        self.arrived, self.may_answer = threading.Event(), threading.Event()
        self.may_answer.set()
        self._codes: dict[str, dict[str, str]] = {}
        self._refreshing: set[str] = set()

    def forget_grants(self) -> None:
        self._refreshing.clear()

    async def metadata(self, _: Request) -> Response:
        return JSONResponse(
            {
                "issuer": self.url,
                "authorization_endpoint": f"{self.url}/authorize",
                "token_endpoint": f"{self.url}/token",
                "revocation_endpoint": f"{self.url}/revoke",
                "authorization_response_iss_parameter_supported": True,
                **self.says,
            }
        )

    async def authorize(self, request: Request) -> Response:
        asked = dict(request.query_params)
        is_right = asked.get("client_id") == CLIENT and asked.get("redirect_uri") == oauth.redirect_uri()
        if not is_right or asked.get("response_type") != "code" or asked.get("code_challenge_method") != "S256":
            return PlainTextResponse("No.", 400)
        back = {"state": asked["state"]}
        if self.iss is not None:
            back["iss"] = self.iss or self.url
        if self.denies:
            back["error"] = self.denies
        else:
            back["code"] = secrets.token_urlsafe()
            self._codes[back["code"]] = asked
        return RedirectResponse(f"{asked['redirect_uri']}?{urlencode(back)}", 302)

    async def token(self, request: Request) -> Response:
        form = dict(parse_qsl((await request.body()).decode()))
        self.asked.append(form["grant_type"])
        answer = self._answered(request, form)
        self.arrived.set()
        await asyncio.to_thread(self.may_answer.wait, 60)
        return answer

    def _answered(self, request: Request, form: dict[str, str]) -> Response:
        if self.fails is not None:
            return JSONResponse(self.fails[1], self.fails[0])
        if not self._is_the_client(request):
            return JSONResponse({"error": "invalid_client"}, 401)
        is_good = (
            self._is_code_good(form) if form["grant_type"] == "authorization_code" else self._is_refresh_good(form)
        )
        if not is_good:
            return JSONResponse({"error": "invalid_grant", "error_description": f"{form} is no grant"}, 400)
        is_kept = form["grant_type"] == "refresh_token" and not self.rotates
        return JSONResponse(self.grant() | ({"refresh_token": form["refresh_token"]} if is_kept else {}))

    def _is_the_client(self, request: Request) -> bool:
        pair = base64.b64encode(f"{CLIENT}:{SECRET}".encode()).decode()
        return request.headers.get("authorization") == f"Basic {pair}"

    def _is_code_good(self, form: dict[str, str]) -> bool:
        asked = self._codes.pop(form.get("code", ""), None)
        digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).decode().rstrip("=")
        return bool(
            asked
            and asked["code_challenge"] == challenge
            and asked["redirect_uri"] == form.get("redirect_uri")
            and asked.get("scope") == SCOPES
        )

    def _is_refresh_good(self, form: dict[str, str]) -> bool:
        token = form["refresh_token"]
        is_good = token in self._refreshing
        if self.rotates:
            self._refreshing.discard(token)
        return is_good

    def grant(self) -> dict[str, Any]:
        """New tokens."""
        access, refresh = f"at-{secrets.token_urlsafe()}", f"rt-{secrets.token_urlsafe()}"
        self._refreshing.add(refresh)
        self.issued += [access, refresh]
        said = {"access_token": access, "refresh_token": refresh, "token_type": "Bearer"}
        return said | ({} if self.lifetime is None else {"expires_in": self.lifetime})

    async def revoke(self, request: Request) -> Response:
        form = dict(parse_qsl((await request.body()).decode()))
        if self.fails is not None or not self._is_the_client(request):
            return PlainTextResponse("No.", 503)
        self.revoked.append(form["token"])
        self._refreshing.discard(form["token"])
        return PlainTextResponse("")

    def declared(self, **fields: Any) -> OAuthService:
        """The service as an operator declares it, for agents that ask for `calendar`."""
        given = {"name": "Calendar", "issuer": self.url, "client_id": CLIENT, "client_secret": SECRET, "scopes": SCOPES}
        return OAuthService.objects.create(**given | fields)


@contextmanager
def running() -> Iterator[AuthorizationServer]:
    server = AuthorizationServer()
    routes = [
        Route("/.well-known/oauth-authorization-server", server.metadata),
        Route("/authorize", server.authorize),
        Route("/token", server.token, methods=["POST"]),
        Route("/revoke", server.revoke, methods=["POST"]),
    ]
    with serving_app(Starlette(routes=routes)) as url:
        server.url = url.rstrip("/")
        yield server


async def sent_back(page: Any) -> str:
    """The address in Parley to which a person comes who follows the page that leads to the service."""
    assert page.status_code == 200, page.content
    async with httpx.AsyncClient() as browser:
        answer = await browser.get(page["Refresh"].partition("url=")[2])
    assert answer.status_code == 302, answer.text
    there = urlsplit(answer.headers["location"])
    return f"{there.path}?{there.query}"
