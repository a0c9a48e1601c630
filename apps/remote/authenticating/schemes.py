"""A security scheme of a card, as far as Parley can do what it asks (A2A 1.0 §4.5)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from a2a.types import AgentCard, SecurityScheme

from apps.remote.authenticating.origins import is_plain, origin_of, origin_of_card
from apps.remote.models.credentials import LONGEST_SCHEME, RemoteCredential

Kind = RemoteCredential.Kind

TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}")  # RFC 9110 §5.6.2
OURS = re.compile(
    r"host|content-.*|transfer-encoding|connection|cookie|accept.*|te|trailer|upgrade|expect|keep-alive|proxy-.*"
    r"|a2a-.*|traceparent|tracestate|last-event-id|range",
    re.IGNORECASE,
)
"""Headers that say something about the request itself: no credential goes there."""
LONGEST_PARAMETER = 100
NO_FLOW = "The card asks for an OAuth2 flow with a person at a browser; Parley knows client credentials only."


@dataclass(frozen=True, slots=True)
class Scheme:
    """What one scheme asks for.

    Attributes:
        kind: what a person gives; None where Parley cannot do it, and `problem` says so in a sentence.
        place: of an API key: `header`, `query` or `cookie`; its `parameter` is the name there.
        token_url, discovery_url: of OAuth2 and OpenID Connect; one of them.
        scopes: what the requirement names, for OAuth2.
    """

    name: str
    kind: Kind | None = None
    description: str = ""
    place: str = ""
    parameter: str = ""
    token_url: str = ""
    discovery_url: str = ""
    scopes: tuple[str, ...] = ()
    problem: str = ""

    @property
    def issuer(self) -> str:
        """The origin that gets an OAuth2 client's secret; "" for other kinds."""
        return origin_of(self.token_url or self.discovery_url)

    @property
    def words(self) -> str:
        """What it is, for people."""
        if self.kind is None:
            return self.problem
        if self.kind is Kind.API_KEY:
            return f"{self.kind.label}, in the {self.place} {self.parameter}"
        if self.kind is Kind.CLIENT_CREDENTIALS:
            return f"{self.kind.label}, with tokens from {self.issuer}"
        return str(self.kind.label)

    @property
    def slot(self) -> tuple[str, str]:
        """The spot of a request that it writes: no two of one combination may write the same."""
        if self.kind is Kind.API_KEY:
            return self.place, self.parameter if self.place == "query" else self.parameter.lower()
        return "header", "authorization"


def schemes_of(card: AgentCard) -> dict[str, Scheme]:
    """The schemes that a card declares, by name."""
    plain = is_plain(origin_of_card(card))
    return {name: _read(name, said, plain) for name, said in sorted(card.security_schemes.items())}


def unknown(name: str) -> Scheme:
    """What a card requires without saying what it is."""
    return Scheme(name, problem=f"The card requires {name[:LONGEST_SCHEME]!r} and does not say what that is.")


def _read(name: str, said: SecurityScheme, plain: bool) -> Scheme:
    kind = said.WhichOneof("scheme")
    read = READERS.get(kind or "")
    if len(name) > LONGEST_SCHEME:
        return Scheme(name[:LONGEST_SCHEME], problem="The name of the security scheme is too long.")
    if read is None or kind is None:
        return Scheme(name, problem="The card names a security scheme of a kind that Parley does not know.")
    content = getattr(said, kind)
    scheme = Scheme(name, description=content.description[:500], **read(content))
    if scheme.kind is Kind.CLIENT_CREDENTIALS and (problem := _unsafe(scheme, plain)):
        return Scheme(name, description=scheme.description, problem=problem)
    return scheme


def _unsafe(scheme: Scheme, plain: bool) -> str:
    """Why a client's secret is not sent to where the card says; "" where it may be."""
    if not scheme.issuer:
        return "The card gives no usable address where OAuth2 tokens are fetched."
    if is_plain(scheme.issuer) and not plain:
        return "The card has OAuth2 tokens fetched over http. Parley sends a secret there by https only."
    return ""


def _api_key(said: Any) -> Mapping[str, Any]:
    place, name = said.location.lower(), said.name
    if place not in ("header", "query", "cookie"):
        return {"problem": f"The card puts its API key into {place[:20]!r}; Parley knows header, query and cookie."}
    fits = 0 < len(name) <= LONGEST_PARAMETER if place == "query" else TOKEN.fullmatch(name)
    if not fits or (place == "header" and OURS.fullmatch(name)):
        return {"problem": f"The card puts its API key into the {place} {name[:40]!r}, where none can be."}
    return {"kind": Kind.API_KEY, "place": place, "parameter": name}


def _http(said: Any) -> Mapping[str, Any]:
    kinds = {"bearer": Kind.BEARER, "basic": Kind.BASIC}
    if kind := kinds.get(said.scheme.lower()):
        return {"kind": kind}
    return {"problem": f"The card asks for HTTP authentication {said.scheme[:20]!r}; Parley knows Bearer and Basic."}


def _oauth2(said: Any) -> Mapping[str, Any]:
    if said.flows.WhichOneof("flow") == "client_credentials":
        return {"kind": Kind.CLIENT_CREDENTIALS, "token_url": said.flows.client_credentials.token_url}
    return {"problem": NO_FLOW}


def _open_id(said: Any) -> Mapping[str, Any]:
    return {"kind": Kind.CLIENT_CREDENTIALS, "discovery_url": said.open_id_connect_url}


def _mutual_tls(said: Any) -> Mapping[str, Any]:
    return {"problem": "The card asks for a client certificate (mutual TLS), which Parley does not have."}


READERS: dict[str, Callable[[Any], Mapping[str, Any]]] = {
    "api_key_security_scheme": _api_key,
    "http_auth_security_scheme": _http,
    "oauth2_security_scheme": _oauth2,
    "open_id_connect_security_scheme": _open_id,
    "mtls_security_scheme": _mutual_tls,
}
