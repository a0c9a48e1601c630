"""The credentials of remote agents: storing them, choosing those that a card requires, and asking people for missing
ones.
"""

from __future__ import annotations

import base64
import datetime
import json
import logging
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from django.core.exceptions import ValidationError
from django.utils import timezone
from django.views.decorators.debug import sensitive_variables

from agentkit import AuthRequired, Rejected
from agentkit.outcomes import MAX_SERVICE_LENGTH, AuthType
from apps.accounts import audit
from apps.accounts.audit_models import AuditAction
from apps.accounts.models import User
from apps.accounts.people.erasure import Person
from apps.accounts.principals import Principal
from apps.accounts.resources import Act, NotNeeded, Resource
from apps.accounts.secrets.encryption import CannotDecrypt
from apps.agents.models import OF_MEMBERS, Agent, AgentVersion
from apps.credentials import requests
from apps.remote.agent_cards import cards
from apps.remote.authentication import security_schemes
from apps.remote.authentication.http_auth import CookieKey, HeaderKey, QueryKey, RequestSigner, Signer, SigningAuth
from apps.remote.authentication.oauth2 import ClientTokenSigner
from apps.remote.authentication.security_schemes import Alternative, Kind, Requirements, Scheme
from apps.remote.errors import CredentialMissing, Unauthorized
from apps.remote.federation.known import find_special, peer_of
from apps.remote.federation.tokens import PeerSigner
from apps.remote.models import RemoteCredential
from parley import db
from parley.db.sql import write_transaction

log_lines = logging.getLogger("parley.audit")

TOUCH_AFTER = datetime.timedelta(minutes=1)
CANNOT_DECRYPT = "The agent's credential cannot be decrypted on this installation. An operator can give it again."
SIGN_IN = "This agent wants each person's own credential. Sign in to use it."
AUTH_TYPES: dict[Kind | None, AuthType] = {Kind.BEARER: "bearer", Kind.BASIC: "basic", Kind.CLIENT_CREDENTIALS: "basic"}

UNUSED_FIELDS = {"token": "", "token_until": None, "last_used_at": None}
EMPTY_FIELDS = {
    "kind": "",
    "secret": "",
    "origin": "",
    "issuer": "",
    "given_by": None,
    "expires_at": None,
    **UNUSED_FIELDS,
}

Redact = Callable[[str], None]
ORIGIN_CHANGED = "it was given for {given}, and the agent is now at {now}"
API_KEY_SIGNERS: dict[str, Callable[[str, str], Signer]] = {"header": HeaderKey, "query": QueryKey, "cookie": CookieKey}

LONGEST_VALUE = 10_000  # characters
BEARER_TOKEN = re.compile(r"[\x21-\x7e]+")
PLACE_PATTERNS = {
    "header": re.compile(r"[\x20-\x7e]+"),
    "cookie": re.compile(r"[\x21\x23-\x2b\x2d-\x3a\x3c-\x5b\x5d-\x7e]+"),  # RFC 6265 §4.1.1
}


@lru_cache(maxsize=1_000)
def version_requirements(version: AgentVersion) -> Requirements:
    return security_schemes.card_requirements(cards.card_of(version))


def requirements_of(agent: Agent) -> Requirements:
    """What the agent's current card requires; nothing without a card."""
    if agent.current_version is None:
        return Requirements("", (), {}, True, {})
    return version_requirements(agent.current_version)


async def auth_for(
    agent: Agent,
    owner_id: int | None,
    *,
    skill: str = "",
    checking: bool = False,
    redact: Redact = lambda secret: None,
) -> SigningAuth | None:
    """The `httpx.Auth` for calls to a remote agent on behalf of `owner_id`; None if nothing is added to them.

    The agent's `current_version` must be loaded. Takes one query, or none if nothing is required. Requests raise
    errors.WrongOrigin for another origin, TokenRefused and TokenUnavailable; then nothing was sent.

    Args:
        skill: the id of a skill, which may have requirements of its own.
        checking: for health checks, which use the shared credentials.
        redact: called with each secret, also those fetched later.

    Raises CredentialMissing (see `question_for`).
    """
    requirements = requirements_of(agent)
    remote = await find_special(agent.pk) if agent.kind == Agent.Kind.REMOTE else None
    last: list[Signer] = [RequestSigner()] if remote and remote.signs_requests else []
    if remote and (peer := remote.peer):
        if not peer.is_paired:
            raise CredentialMissing(f"{peer} is not paired any more: {peer.get_state_display()}.")
        return SigningAuth(cards.origin_of(peer.base_url), [PeerSigner(peer, owner_id), *last])
    found = await db.run(_choose_and_touch, agent, owner_id, skill, checking) if requirements.schemes else []
    signers = [_signer(one.scheme, one.credential, redact) for one in found if one.credential]
    return SigningAuth(requirements.origin, [*signers, *last]) if found or last else None


def _choose_and_touch(agent: Agent, owner_id: int | None, skill: str, checking: bool) -> list[SchemeCredential]:
    found = CredentialChoice(requirements_of(agent), _credentials(agent, owner_id), checking).choose(skill)
    stale = timezone.now() - TOUCH_AFTER
    used = [one.credential for one in found if one.credential]
    if touched := [one.pk for one in used if one.last_used_at is None or one.last_used_at < stale]:
        RemoteCredential.objects.filter(pk__in=touched).update(last_used_at=timezone.now())
    return found


def _credentials(agent: Agent, owner_id: int | None) -> list[RemoteCredential]:
    """Raises CredentialMissing if they cannot be decrypted."""
    try:
        return list(RemoteCredential.objects.of(agent, owner_id))
    except CannotDecrypt:
        raise CredentialMissing(CANNOT_DECRYPT) from None


async def question_for(agent: Agent, owner_id: int | None, error: Unauthorized) -> AuthRequired | Rejected | None:
    """The question, or refusal, for a person after an Unauthorized; None if no answer would help.

    A one-time link asks the question; after the answer the task continues with a turn that is `resumed`.
    """
    refused = ""
    if isinstance(error, CredentialMissing):
        schemes = [requirements_of(agent).schemes[name] for name in error.schemes if error.is_personal]
    else:
        schemes = await db.run(personal_schemes, agent)
        refused = " It refused the one that it was given."
    if not schemes:
        return None
    if owner_id is None:
        return Rejected(SIGN_IN)
    service = "".join(letter for letter in agent.name if letter.isprintable())[:MAX_SERVICE_LENGTH] or agent.slug
    return AuthRequired(
        f"{service} wants a credential of your own.{refused}",
        service=service,
        auth_type=AUTH_TYPES.get(schemes[0].kind, "api_key"),
    )


def personal_schemes(agent: Agent) -> list[Scheme]:
    schemes = requirements_of(agent).schemes
    flagged = RemoteCredential.objects.filter(agent=agent, user=None, is_personal=True)
    names = flagged.order_by("scheme").values_list("scheme", flat=True)
    return [schemes[name] for name in names if name in schemes]


def missing(agent: Agent, owner_id: int | None) -> CredentialMissing | None:
    """The missing credential that keeps work for the owner from starting, if any."""
    if peer_of(agent.pk) is not None:
        return None
    try:
        CredentialChoice(requirements_of(agent), _credentials(agent, owner_id)).choose()
    except CredentialMissing as error:
        return error
    return None


@sensitive_variables()
def save(
    agent: Agent,
    user: User | None,
    scheme_name: str,
    values: Mapping[str, str],
    by: User | None,
    *,
    expires_at: datetime.datetime | None = None,
) -> None:
    """Store a shared credential, or with `user` that person's own, for the origin in the agent's current card.

    The person's tasks that wait for it continue. Raises ValidationError, by field where possible.
    """
    requirements = requirements_of(agent)
    scheme = _required_scheme(agent, scheme_name)
    if scheme.kind is None or not requirements.origin:
        raise ValidationError(scheme.problem or "The agent's card names no address where it is called.")
    if user is not None and scheme not in personal_schemes(agent):
        raise ValidationError("The agent does not want each person's own of this.")
    given = {
        "kind": scheme.kind,
        "secret": json.dumps(clean_fields(scheme, values)),
        "origin": requirements.origin,
        "issuer": scheme.issuer,
        "given_by": by,
        "updated_at": timezone.now(),
        "expires_at": expires_at,
        **UNUSED_FIELDS,
    }
    # Does not read the old secret, which may no longer be decryptable.
    rows = RemoteCredential.objects.untold()
    with write_transaction():
        rows.update_or_create(agent=agent, user=user, scheme=scheme_name, defaults=given)
        _record(AuditAction.CREDENTIAL_STORED, "set", agent, user, scheme_name, by)
    if user is not None and missing(agent, user.pk) is None:
        requests.resume_waiting_tasks(agent, user, by)


def erase(agent: Agent, user: User | None, scheme_name: str, by: User | None) -> bool:
    """Erase a credential; False if there is none. Keeps the choice whether it is personal."""
    rows = RemoteCredential.objects.filter(agent=agent, user=user, scheme=scheme_name).exclude(kind="")
    with write_transaction():
        kept = rows.filter(is_personal=True).update(**EMPTY_FIELDS, updated_at=timezone.now())
        erased = kept or rows.delete()[0]
        if erased:
            _record(AuditAction.CREDENTIAL_REMOVED, "erased", agent, user, scheme_name, by)
    return bool(erased)


def erase_of_own_agents(person: Person) -> None:
    """Delete the credentials of agents that only the person could use (`account_erasers`)."""
    RemoteCredential.objects.filter(agent__workspace__in=person.workspaces, agent__access__in=OF_MEMBERS).delete()


def _erase_row(row: RemoteCredential, principal: Principal) -> RemoteCredential:
    if not erase(row.agent, row.user, row.scheme, User.objects.get(pk=principal.user_id or 0)):
        raise NotNeeded("It is erased already.")
    return row


ERASE = Act[RemoteCredential](
    "erase",
    "Erase",
    _erase_row,
    "Erase a credential",
    "The agent is called without it. Whether each person brings their own stays as it is.",
    lambda row: f"The credential of {row.user or 'everybody'} for {row.scheme} was erased.",
    lambda row: bool(row.kind),
    is_grave=True,
    records=True,
    icon="delete",
)
REMOTE_CREDENTIALS = Resource("remote-credentials", "remote-credential", RemoteCredential, acts=(ERASE,))


def set_personal(agent: Agent, scheme_name: str, is_personal: bool, by: User | None) -> None:
    """Set whether each person brings their own. Raises ValidationError for an unknown scheme."""
    _required_scheme(agent, scheme_name)
    with write_transaction():
        row, _ = RemoteCredential.objects.untold().update_or_create(
            agent=agent, user=None, scheme=scheme_name, defaults={"is_personal": is_personal}
        )
        if not row.is_personal and not row.kind:
            row.delete()
        change = "each person's own" if is_personal else "everybody's"
        _record(AuditAction.CREDENTIAL_CHANGED, change, agent, None, scheme_name, by)


def _required_scheme(agent: Agent, name: str) -> Scheme:
    if (scheme := requirements_of(agent).schemes.get(name)) is None:
        raise ValidationError("The agent's card does not ask for this any more. Load the page again.")
    return scheme


def _record(action: AuditAction, what: str, agent: Agent, user: User | None, scheme: str, by: User | None) -> None:
    details = {"agent": agent.slug, "owner": user.pk if user else None, "change": what}
    subject = audit.Subject("remote.remotecredential", label=f"{scheme} for {agent.slug}")
    audit.record(action, actor=by, object=subject, workspace=agent.workspace_id, details=details)
    log_lines.info(
        "remote credential %s: agent %s, scheme %r, of %s, by %s",
        what, agent.slug, scheme, user.pk if user else "everybody", by.pk if by else "the platform",
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class SchemeCredential:
    """A scheme's usable credential, or the reason why there is none."""

    scheme: Scheme
    credential: RemoteCredential | None = None
    reason: str = ""
    is_personal: bool = False


@dataclass(frozen=True)
class CredentialChoice:
    """Chooses among the shared credentials and those of one person. `checking`: for health checks."""

    requirements: Requirements
    credentials: Sequence[RemoteCredential]
    checking: bool = False

    def choose(self, skill: str = "") -> list[SchemeCredential]:
        """The credentials of the first complete alternative; none where none is required.

        Raises CredentialMissing.
        """
        alternatives, is_optional = self.requirements.for_skill(skill)
        tried = [[self.find(scheme) for scheme in one.schemes] for one in alternatives if not one.problem]
        for found in tried:
            if all(one.credential for one in found):
                return found
        if is_optional:
            return []
        raise _missing_error(alternatives, tried)

    def find(self, scheme: Scheme) -> SchemeCredential:
        given = [row for row in self.credentials if row.scheme == scheme.name]
        own = next((row for row in given if row.user_id is not None), None)
        common = next((row for row in given if row.user_id is None), None)
        is_personal = common is not None and common.is_personal
        usable = [row for row in (own, common) if row and (row is own or not is_personal or self.checking)]
        reasons = [self.why_not(row, scheme) for row in usable]
        for row, reason in zip(usable, reasons, strict=True):
            if not reason:
                return SchemeCredential(scheme, row, is_personal=is_personal)
        return SchemeCredential(scheme, reason=next(iter(reasons), ""), is_personal=is_personal)

    def why_not(self, row: RemoteCredential, scheme: Scheme) -> str:
        if not row.kind:
            return "nobody gave it yet"
        if row.is_expired(timezone.now()):
            return "it has expired"
        if row.kind != scheme.kind:
            return "the agent now asks for another kind"
        if row.origin != self.requirements.origin:
            return ORIGIN_CHANGED.format(given=row.origin, now=self.requirements.origin or "no address")
        if row.issuer != scheme.issuer and scheme.kind is Kind.CLIENT_CREDENTIALS:
            return f"it was given for the tokens of {row.issuer}, and they are now fetched at {scheme.issuer}"
        return ""


def _signer(scheme: Scheme, credential: RemoteCredential, redact: Redact) -> Signer:
    values = credential.values
    match scheme.kind:
        case Kind.CLIENT_CREDENTIALS:
            redact(values["client_secret"])
            return ClientTokenSigner(credential, scheme, redact)
        case Kind.BASIC:
            pair = base64.b64encode(f"{values['username']}:{values['password']}".encode()).decode()
            redact(values["password"])
            redact(pair)
            return HeaderKey("Authorization", f"Basic {pair}")  # RFC 7617, in UTF-8
        case Kind.BEARER:
            redact(values["token"])
            return HeaderKey("Authorization", f"Bearer {values['token']}")
        case _:
            redact(values["key"])
            return API_KEY_SIGNERS[scheme.place](scheme.parameter, values["key"])


def _missing_error(
    alternatives: Sequence[Alternative], tried: Sequence[Sequence[SchemeCredential]]
) -> CredentialMissing:
    """Names the alternative that lacks the least, preferring those that lack only personal credentials."""
    if not tried:
        return CredentialMissing(f"The agent cannot be let known who calls. {alternatives[0].problem}")
    missing_each = [[one for one in found if one.credential is None] for found in tried]
    least = min(missing_each, key=lambda lack: (not all(one.is_personal for one in lack), len(lack)))
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


@dataclass(frozen=True, slots=True)
class Field:
    name: str
    label: str
    is_secret: bool = True


FIELDS: dict[Kind, tuple[Field, ...]] = {
    Kind.API_KEY: (Field("key", "API key"),),
    Kind.BEARER: (Field("token", "Access token"),),
    Kind.BASIC: (Field("username", "User name", is_secret=False), Field("password", "Password")),
    Kind.CLIENT_CREDENTIALS: (
        Field("client_id", "Client ID", is_secret=False),
        Field("client_secret", "Client secret"),
    ),
}


@sensitive_variables()
def clean_fields(scheme: Scheme, filled_in: Mapping[str, str]) -> dict[str, str]:
    """The fields of a credential from a form. Raises ValidationError by field, without values."""
    values, problems = {}, {}
    for field in FIELDS[scheme.kind] if scheme.kind else ():
        given = filled_in.get(field.name, "")
        value = given if field.name == "password" else given.strip()  # copying from a page adds spaces
        if field.name == "token":
            value = re.sub(r"^bearer\s+", "", value, flags=re.IGNORECASE)
        values[field.name] = value
        if problem := _field_problem(scheme, field, value):
            problems[field.name] = problem
    if problems:
        raise ValidationError(problems)
    return values


def _field_problem(scheme: Scheme, field: Field, value: str) -> str:
    if not value:
        return f"Fill in the {field.label}."
    if len(value) > LONGEST_VALUE or any(unicodedata.category(letter) in ("Cc", "Cs") for letter in value):
        return f"This has line breaks or the like in it, or more than {LONGEST_VALUE:,} characters. Copy it again."
    if field.name == "username" and ":" in value:
        return "A user name has no colon in it."
    fits = BEARER_TOKEN if scheme.kind is Kind.BEARER else PLACE_PATTERNS.get(scheme.place)
    if fits is not None and not fits.fullmatch(value):
        return "This has characters in it that cannot be sent to the agent. Copy it again."
    return ""
