"""Short-lived tokens that let a person in at one agent over A2A, for as long as they stay signed in.

Nothing is kept of a token: it is a sealed text that names the person, their sign-in and the agent. It ends when they
sign out, change the password or are switched off; and who holds one cannot read the session's key in it.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable
from dataclasses import dataclass

from django.contrib.auth import HASH_SESSION_KEY, SESSION_KEY
from django.contrib.sessions.models import Session
from django.utils import timezone
from django.utils.crypto import constant_time_compare

from apps.accounts.credentials import BadCredentials
from apps.accounts.keyring import CannotDecrypt, keyring
from apps.accounts.models import User
from apps.accounts.principals import Principal
from db.selections import Selection

MARK = "try_"
PLACE = "accounts.access_tokens"
LIFETIME = datetime.timedelta(minutes=10)

USER = Selection(lambda key: User.objects.select_related("personal_workspace").filter(pk=key), 0)
SIGN_IN = Selection(lambda key: Session.objects.filter(session_key=key), "key")


class BadToken(BadCredentials):
    """This token is for another agent, or has expired, or its owner signed out. Open the agent’s page for a new one."""


@dataclass(frozen=True, slots=True)
class Claims:
    """What a token says: whose it is, by which sign-in, at which agent, and until when (seconds since 1970)."""

    user_id: int
    session_key: str
    agent: str
    until: int


Find = Callable[[Claims], tuple[User | None, Session | None]]
"""Looks up the person and the sign-in that a token names."""


def issue(user: User, session_key: str, agent: str) -> tuple[str, datetime.datetime]:
    """A token of `user`, whose sign-in has that key, for the agent of that slug; and when it expires."""
    expires = timezone.now().replace(microsecond=0) + LIFETIME
    claims = json.dumps([user.pk, session_key, agent, int(expires.timestamp())])
    return MARK + keyring().encrypt(claims, PLACE), expires


def is_named_by(authorization: str) -> bool:
    """Does an `Authorization` header hold a token, good or bad?"""
    scheme, _, token = authorization.partition(" ")
    return scheme.lower() == "bearer" and token.strip().startswith(MARK)


def principal_of(authorization: str, agent: str, find: Find) -> Principal:
    """Whom the token of an `Authorization` header speaks for at an agent. Raises BadToken.

    `find` is called at most once, and not for a token that is not for this agent or no longer good.
    """
    claims = _claims(authorization.partition(" ")[2].strip())
    if claims.agent != agent or claims.until <= timezone.now().timestamp():
        raise BadToken
    user, sign_in = find(claims)
    if user is None or not user.is_active or sign_in is None or not _holds(sign_in, user):
        raise BadToken
    return user.principal


def _claims(token: str) -> Claims:
    try:
        return Claims(*json.loads(keyring().decrypt(token.removeprefix(MARK), PLACE)))
    except CannotDecrypt:
        raise BadToken from None


def _holds(sign_in: Session, user: User) -> bool:
    """Is this a sign-in of the user's, with the password that they have now?"""
    said = sign_in.get_decoded()
    is_theirs = said.get(SESSION_KEY) == str(user.pk)
    known = constant_time_compare(said.get(HASH_SESSION_KEY, ""), user.get_session_auth_hash())
    return is_theirs and known and sign_in.expire_date > timezone.now()
