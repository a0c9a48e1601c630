"""Which of the credentials that were given lets one in, and why none does."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from django.utils import timezone

from apps.remote.authenticating.client_tokens import ClientToken
from apps.remote.authenticating.errors import CredentialMissing
from apps.remote.authenticating.schemes import Kind, Scheme
from apps.remote.authenticating.signing import CookieKey, HeaderKey, QueryKey, Signature, Signer, basic, bearer
from apps.remote.authenticating.ways import Wanted, Way
from apps.remote.models import RemoteCredential

KeepOut = Callable[[str], None]
OTHER_ADDRESS = "it was given for {given}, and the agent is now at {now}"
API_KEYS: dict[str, Callable[[str, str], Signer]] = {"header": HeaderKey, "query": QueryKey, "cookie": CookieKey}


@dataclass(frozen=True, slots=True)
class Found:
    """What there is for a scheme: a credential that can be used, or why there is none.

    Attributes:
        is_personal: does each person bring their own?
    """

    scheme: Scheme
    credential: RemoteCredential | None = None
    reason: str = ""
    is_personal: bool = False


@dataclass(frozen=True)
class Choice:
    """What was given for an agent, as far as somebody's work may use it.

    Attributes:
        rows: of everybody, and of the one whose work it is.
        checking: is it the platform itself that looks whether the agent is well?
    """

    wanted: Wanted
    rows: Sequence[RemoteCredential]
    checking: bool = False

    def way_in(self, skill: str = "") -> list[Found]:
        """The credentials of the first way for which there are all; none where none is wanted.

        Raises CredentialMissing.
        """
        ways, is_optional = self.wanted.for_skill(skill)
        tried = [[self.find(scheme) for scheme in way.schemes] for way in ways if not way.problem]
        for found in tried:
            if all(one.credential for one in found):
                return found
        if is_optional:
            return []
        raise _missing(ways, tried)

    def find(self, scheme: Scheme) -> Found:
        """A person's own goes before that of everybody."""
        own = next((row for row in self.rows if row.scheme == scheme.name and row.user_id is not None), None)
        common = next((row for row in self.rows if row.scheme == scheme.name and row.user_id is None), None)
        is_personal = common is not None and common.is_personal
        usable = [row for row in (own, common) if row and (row is own or not is_personal or self.checking)]
        reasons = [self.why_not(row, scheme) for row in usable]
        for row, reason in zip(usable, reasons, strict=True):
            if not reason:
                return Found(scheme, row, is_personal=is_personal)
        return Found(scheme, reason=next(iter(reasons), ""), is_personal=is_personal)

    def why_not(self, row: RemoteCredential, scheme: Scheme) -> str:
        """Why the credential is not used; "" where it is."""
        if not row.kind:
            return "nobody gave it yet"
        if row.is_expired(timezone.now()):
            return "it has expired"
        if row.kind != scheme.kind:
            return "the agent now asks for another kind"
        if row.origin != self.wanted.origin:
            return OTHER_ADDRESS.format(given=row.origin, now=self.wanted.origin or "no address")
        if row.issuer != scheme.issuer and scheme.kind is Kind.CLIENT_CREDENTIALS:
            return f"it was given for the tokens of {row.issuer}, and they are now fetched at {scheme.issuer}"
        return ""


def signature(wanted: Wanted, found: Iterable[Found], keep_out: KeepOut) -> Signature:
    """What signs requests with these credentials; `keep_out` is told each secret."""
    signers = [_signer(one.scheme, one.credential, keep_out) for one in found if one.credential]
    return Signature(wanted.origin, signers)


def _signer(scheme: Scheme, credential: RemoteCredential, keep_out: KeepOut) -> Signer:
    values = credential.values
    match scheme.kind:
        case Kind.CLIENT_CREDENTIALS:
            keep_out(values["client_secret"])
            return ClientToken(credential, scheme, keep_out)
        case Kind.BASIC:
            keep_out(values["password"])
            keep_out(base64.b64encode(f"{values['username']}:{values['password']}".encode()).decode())
            return basic(values["username"], values["password"])
        case Kind.BEARER:
            keep_out(values["token"])
            return bearer(values["token"])
        case _:
            keep_out(values["key"])
            return API_KEYS[scheme.place](scheme.parameter, values["key"])


def _missing(ways: Sequence[Way], tried: Sequence[Sequence[Found]]) -> CredentialMissing:
    """Of several ways the one that lacks least is told, one that only wants a person's own before others."""
    if not tried:
        return CredentialMissing(f"The agent cannot be let known who calls. {ways[0].problem}")
    lacks = [[one for one in found if one.credential is None] for found in tried]
    least = min(lacks, key=lambda lack: (not all(one.is_personal for one in lack), len(lack)))
    names = ", ".join(one.scheme.name for one in least)
    why = "; ".join(dict.fromkeys(one.reason for one in least if one.reason))
    because = f" ({why})" if why else ""
    is_personal = all(one.is_personal for one in least)
    if is_personal:
        sentence = f"The agent wants each person's own credential: {names}{because}."
    else:
        sentence = (
            f"The agent wants a credential, {names}{because}. An operator can give it, or who registered the agent."
        )
    return CredentialMissing(sentence, schemes=[one.scheme.name for one in least], is_personal=is_personal)
