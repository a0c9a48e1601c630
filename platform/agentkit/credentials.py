"""Credentials that people give to agents, for services that the agents call in their name."""

from __future__ import annotations

import base64
import unicodedata
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Literal, TypedDict, cast, get_args

AuthType = Literal["api_key", "bearer", "basic"]
AUTH_TYPES: tuple[str, ...] = get_args(AuthType)
LONGEST_SERVICE = 100  # characters of a service's name


@dataclass(frozen=True)
class Credential:
    """What a service wants to see. Nothing that is shown or logged of it tells the secret.

    Attributes:
        service: the service's name, as the agent asked for it.
        auth_type: `api_key`, `bearer` or `basic`.
        secret: the key, the token or the password.
        username: of `basic`; otherwise empty.
    """

    service: str
    auth_type: AuthType
    secret: str = field(repr=False)
    username: str = field(default="", repr=False)

    @property
    def authorization(self) -> str:
        """The value of an HTTP `Authorization` header (RFC 6750, RFC 7617).

        Raises:
            ValueError: an API key has no place that all services share; take `secret`.
        """
        if self.auth_type == "bearer":
            return f"Bearer {self.secret}"
        if self.auth_type == "basic":
            return "Basic " + base64.b64encode(f"{self.username}:{self.secret}".encode()).decode()
        raise ValueError(f"{self.service} says where its API key goes: put credential.secret there.")


Lend = Callable[[str], Awaitable[Credential | None]]
"""Given by the host: the credential for a service that the task's owner gave to this agent, if there is one."""


async def lend_none(service: str) -> None:
    """For a task that nobody gave anything."""


def check(service: str, auth_type: str) -> None:
    """Raises ValueError, which says what to write, for a service or a type that cannot be asked for."""
    if auth_type not in AUTH_TYPES:
        raise ValueError(f"The auth_type of a credential is one of {', '.join(AUTH_TYPES)}; not {auth_type!r}.")
    if len(service) > LONGEST_SERVICE or any(unicodedata.category(letter).startswith("C") for letter in service):
        raise ValueError(f"Name the service in one line of at most {LONGEST_SERVICE} characters.")


class Wanted(TypedDict, total=False):
    """What `AuthRequired` is given of a credential that a host can ask for."""

    service: str
    auth_type: AuthType


def wanted(service: object, auth_type: object) -> Wanted:
    """What a directive asks for, where a host can ask for that; otherwise its words have to do."""
    if not isinstance(service, str) or not service:
        return {}
    kind = str(auth_type or "api_key")
    try:
        check(service, kind)
    except ValueError:
        return {}
    return {"service": service, "auth_type": cast(AuthType, kind)}
