"""How Parley lets itself in at a remote agent: what its card asks for, what was given, who is asked for the rest."""

from __future__ import annotations

import datetime
import logging
from collections.abc import Callable, Mapping
from functools import lru_cache

from django.core.exceptions import ValidationError
from django.db import transaction
from django.utils import timezone
from django.views.decorators.debug import sensitive_variables

import db
from agentkit import AuthRequired, Rejected
from agentkit.credentials import LONGEST_SERVICE, AuthType
from apps.accounts.keyring import CannotDecrypt
from apps.accounts.models import User
from apps.agents.models import Agent, AgentVersion
from apps.features.credentials import requests
from apps.remote import cards
from apps.remote.authenticating import choosing, fields, ways
from apps.remote.authenticating.choosing import Choice, Found
from apps.remote.authenticating.errors import CredentialMissing
from apps.remote.authenticating.schemes import Kind, Scheme
from apps.remote.authenticating.signing import Signature
from apps.remote.authenticating.ways import Wanted
from apps.remote.errors import Unauthorized
from apps.remote.models import RemoteCredential

audit = logging.getLogger("parley.audit")

TOUCH_AFTER = datetime.timedelta(minutes=1)
CANNOT_READ = "The agent's credential cannot be decrypted on this installation. An operator can give it again."
SIGN_IN = "This agent wants each person's own credential. Sign in to use it."
ASKED_AS: dict[Kind | None, AuthType] = {Kind.BEARER: "bearer", Kind.BASIC: "basic", Kind.CLIENT_CREDENTIALS: "basic"}


@lru_cache(maxsize=1_000)
def wanted(version: AgentVersion) -> Wanted:
    """What the approved card of a remote agent asks of its callers."""
    return ways.wanted(cards.card_of(version))


def wanted_by(agent: Agent) -> Wanted:
    """The same by the card that counts now."""
    if agent.current_version is None:
        return Wanted("", (), {}, True, {})
    return wanted(agent.current_version)


async def auth_for(
    agent: Agent,
    owner_id: int | None,
    *,
    skill: str = "",
    checking: bool = False,
    keep_out: Callable[[str], None] = lambda secret: None,
) -> Signature | None:
    """What signs the requests to a remote agent for the work of `owner_id`; None where nothing is wanted.

    The agent's `current_version` is loaded. It takes one query, and none for an agent that asks for nothing. It is a
    `httpx.Auth`, bound to the agent's origin: a request to any other raises authenticating.errors.WrongOrigin, and one
    for which no token can be fetched TokenRefused or TokenUnavailable; nothing is sent then.

    Args:
        skill: the id of the skill that the work is for, which may want something of its own.
        checking: it is the platform that looks whether the agent is well; it uses what is for everybody.
        keep_out: is told each secret, also those that are fetched later; give it `assignment.redaction.keep_out`.

    Raises CredentialMissing, an errors.Unauthorized; `question_for` then says what to ask.
    """
    asked = wanted_by(agent)
    if not asked.schemes:
        return None
    found = await db.run(_found, agent, owner_id, skill, checking)
    return choosing.signature(asked, found, keep_out) if found else None


def _found(agent: Agent, owner_id: int | None, skill: str, checking: bool) -> list[Found]:
    """What is used, which is noted once a minute."""
    found = Choice(wanted_by(agent), _rows(agent, owner_id), checking).way_in(skill)
    stale = timezone.now() - TOUCH_AFTER
    used = [one.credential for one in found if one.credential]
    if touched := [one.pk for one in used if one.last_used_at is None or one.last_used_at < stale]:
        RemoteCredential.objects.filter(pk__in=touched).update(last_used_at=timezone.now())
    return found


def _rows(agent: Agent, owner_id: int | None) -> list[RemoteCredential]:
    """Raises CredentialMissing where they cannot be decrypted."""
    try:
        return list(RemoteCredential.objects.of(agent, owner_id))
    except CannotDecrypt:
        raise CredentialMissing(CANNOT_READ) from None


async def question_for(agent: Agent, owner_id: int | None, error: Unauthorized) -> AuthRequired | Rejected | None:
    """What a person is asked, or told, when an agent could not be entered; None where no person's answer would help.

    The question is asked by a one-time link; once it is answered the task goes on with a turn that is `resumed`.
    """
    names = await db.run(_personal, agent, error)
    if not names:
        return None
    if owner_id is None:
        return Rejected(SIGN_IN)
    scheme = wanted_by(agent).schemes[names[0]]
    refused = "" if isinstance(error, CredentialMissing) else " It refused the one that it was given."
    service = "".join(letter for letter in agent.name if letter.isprintable())[:LONGEST_SERVICE] or agent.slug
    return AuthRequired(
        f"{service} wants a credential of your own.{refused}",
        service=service,
        auth_type=ASKED_AS.get(scheme.kind, "api_key"),
    )


def _personal(agent: Agent, error: Unauthorized) -> list[str]:
    """The schemes for which a person could bring another credential."""
    if isinstance(error, CredentialMissing):
        return list(error.schemes) if error.is_personal else []
    return [scheme.name for scheme in personal_schemes(agent)]


def personal_schemes(agent: Agent) -> list[Scheme]:
    """For what each person brings their own, as far as the card still asks for it."""
    asked = wanted_by(agent).schemes
    flagged = RemoteCredential.objects.filter(agent=agent, user=None, is_personal=True)
    names = flagged.order_by("scheme").values_list("scheme", flat=True)
    return [asked[name] for name in names if name in asked]


def missing(agent: Agent, owner_id: int | None) -> CredentialMissing | None:
    """Why work for the owner could not begin; None where it could."""
    try:
        Choice(wanted_by(agent), _rows(agent, owner_id)).way_in()
    except CredentialMissing as error:
        return error
    return None


@sensitive_variables()
def keep(
    agent: Agent,
    user: User | None,
    scheme_name: str,
    values: Mapping[str, str],
    by: User | None,
    *,
    expires_at: datetime.datetime | None = None,
) -> None:
    """Keep a credential, in place of an older one: of everybody, or with `user` that person's own.

    It is bound to the origin that the agent's card has now. The person's tasks that wait for it go on.
    Raises ValidationError, by field where one is wrong.
    """
    asked = wanted_by(agent)
    scheme = _scheme(agent, scheme_name)
    if scheme.kind is None or not asked.origin:
        raise ValidationError(scheme.problem or "The agent's card names no address where it is called.")
    if user is not None and scheme not in personal_schemes(agent):
        raise ValidationError("The agent does not want each person's own of this.")
    given = {
        "kind": scheme.kind,
        "secret": fields.as_text(fields.cleaned(scheme, values)),
        "origin": asked.origin,
        "issuer": scheme.issuer,
        "given_by": by,
        "updated_at": timezone.now(),
        "expires_at": expires_at,
        **UNUSED,
    }
    # The older one is not read: it may be one that cannot be decrypted any more.
    rows = RemoteCredential.objects.untold()
    rows.update_or_create(agent=agent, user=user, scheme=scheme_name, defaults=given)
    _tell("set", agent, user, scheme_name, by)
    if user is not None and missing(agent, user.pk) is None:
        requests.settle(agent, user, by)


def forget(agent: Agent, user: User | None, scheme_name: str, by: User | None) -> bool:
    """Erase a credential; False where there is none. Who brings it stays as it is."""
    rows = RemoteCredential.objects.filter(agent=agent, user=user, scheme=scheme_name).exclude(kind="")
    with transaction.atomic():
        kept = rows.filter(is_personal=True).update(**EMPTY, updated_at=timezone.now())
        erased = kept or rows.delete()[0]
    if erased:
        _tell("erased", agent, user, scheme_name, by)
    return bool(erased)


def bring_own(agent: Agent, scheme_name: str, is_personal: bool, by: User | None) -> None:
    """Say whether each person brings their own. Raises ValidationError for a scheme that the card does not have."""
    _scheme(agent, scheme_name)
    row, _ = RemoteCredential.objects.untold().update_or_create(
        agent=agent, user=None, scheme=scheme_name, defaults={"is_personal": is_personal}
    )
    if not row.is_personal and not row.kind:
        row.delete()
    _tell("each person's own" if is_personal else "everybody's", agent, None, scheme_name, by)


def _scheme(agent: Agent, name: str) -> Scheme:
    if (scheme := wanted_by(agent).schemes.get(name)) is None:
        raise ValidationError("The agent's card does not ask for this any more. Load the page again.")
    return scheme


def _tell(what: str, agent: Agent, user: User | None, scheme: str, by: User | None) -> None:
    audit.info(
        "remote credential %s: agent %s, scheme %r, of %s, by %s",
        what, agent.slug, scheme, user.pk if user else "everybody", by.pk if by else "the platform",
    )  # fmt: skip


UNUSED = {"token": "", "token_until": None, "last_used_at": None}
EMPTY = {"kind": "", "secret": "", "origin": "", "issuer": "", "given_by": None, "expires_at": None, **UNUSED}
