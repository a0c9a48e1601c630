"""The rows of this installation as each process sees them now, at most REFRESH_SECONDS old.

Language models and `outbound` ask here at every call, on event loops too, so the rows are kept. A change shows at once
in the process that makes it, and after a second in others.
"""

from __future__ import annotations

import asyncio
import datetime
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from django.conf import settings
from django.db import DatabaseError
from django.utils import timezone

from apps.accounts.secrets.encryption import CannotDecrypt
from apps.installation.models import CONNECTION_SLUG, Activity, ModelConnection, NetworkAllowance, Operation
from parley import db
from parley.outbound import Allowed

log = logging.getLogger("parley.installation")

REFRESH_SECONDS = 1.0
NAMED = rf"(?P<model>.+)@(?P<connection>{CONNECTION_SLUG})"
ENVIRONMENT = "environment"


@dataclass(frozen=True, slots=True)
class Prices:
    """Of a million tokens, in the installation's currency."""

    input: float
    output: float


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where language models are. An empty `base_url` is OpenAI's. `slug` is "" for the environment's."""

    name: str
    slug: str
    base_url: str
    api_key: str = field(repr=False)
    model: str  # the default one
    prices: Mapping[str, Prices]
    choices: Sequence[str] = ()  # models that people may choose
    found: Sequence[str] = ()  # all that the endpoint listed
    names_sessions: bool = True

    @property
    def is_usable(self) -> bool:
        return bool(self.model and (self.base_url or self.api_key))


@dataclass(frozen=True, slots=True)
class Snapshot:
    endpoints: Sequence[Endpoint] = ()  # the default first
    allowances: Sequence[tuple[Allowed, datetime.datetime | None]] = ()
    read_at: float = float("-inf")  # by `time.monotonic`
    activity: Activity = Activity.ACTIVE  # of all agents
    connected_at: float = 0.0  # when the first connection was made, in seconds since the epoch; 0 without one

    @property
    def is_fresh(self) -> bool:
        return time.monotonic() - self.read_at < REFRESH_SECONDS

    @property
    def default(self) -> Endpoint:
        """The default connection; without any connection, the environment's endpoint."""
        return self.endpoints[0] if self.endpoints else environment_endpoint()

    def endpoint(self, slug: str) -> Endpoint | None:
        return next((one for one in self.endpoints if one.slug == slug), None)

    @property
    def choices(self) -> list[str]:
        """The models that people may choose, as agents name them."""
        return [self.name_of(one, model) for one in self.endpoints for model in one.choices]

    @property
    def names(self) -> list[str]:
        """All models that are known, as agents name them."""
        return [
            self.name_of(one, model)
            for one in self.endpoints
            for model in dict.fromkeys((one.model, *one.prices, *one.choices, *one.found))
        ]

    def name_of(self, endpoint: Endpoint, model: str) -> str:
        return model if endpoint is self.endpoints[0] else f"{model}@{endpoint.slug}"

    @property
    def allowed(self) -> Allowed:
        """What has not expired."""
        now, found = timezone.now(), Allowed()
        for allowed, expires in self.allowances:
            if expires is None or expires > now:
                found |= allowed
        return found


def environment_endpoint() -> Endpoint:
    """The endpoint of `LLM_MODEL`, `LLM_BASE_URL` and `LLM_API_KEY`, which may be empty."""
    return Endpoint(ENVIRONMENT, "", settings.LLM_BASE_URL, settings.LLM_API_KEY, settings.LLM_MODEL, {})


def snapshot() -> Snapshot:
    """For threads. On an event loop, the newest that was read, while a thread reads again."""
    kept = _kept
    if time.monotonic() - kept.read_at < REFRESH_SECONDS:
        return kept
    if _is_on_loop():
        db.later(_read)
        return kept
    return _read()


async def latest() -> Snapshot:
    """For event loops."""
    kept = _kept
    return kept if kept.is_fresh else await db.run(_read)


def forget() -> None:
    """Read the rows again before the next use. They stay for event loops meanwhile."""
    global _kept
    _kept = replace(_kept, read_at=float("-inf"))


def keep(known: Snapshot) -> None:
    """For tests: what was read last."""
    global _kept
    _kept = known


class CurrentAllowances:
    """The private addresses that operators allow (`outbound.Allowances`)."""

    def now(self) -> Allowed:
        return snapshot().allowed

    async def latest(self) -> Allowed:
        return (await latest()).allowed


_kept = Snapshot()


def _is_on_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _read() -> Snapshot:
    """Without the database, what was read last stays."""
    global _kept
    started = time.monotonic()
    try:
        allowances = [(_allowed(entry), expires) for entry, expires in _allowance_rows()]
        rows = _connections()
        connected_at = min((row.created_at.timestamp() for row in rows), default=0.0)
        found = Snapshot(list(map(endpoint_of, rows)), allowances, started, _activity(), connected_at)
    except (DatabaseError, CannotDecrypt) as problem:
        log.warning("the installation's model connections and private addresses cannot be read: %s", problem)
        return _kept
    _kept = found
    return found


def _allowance_rows() -> Sequence[tuple[str, datetime.datetime | None]]:
    return list(NetworkAllowance.objects.values_list("entry", "expires_at"))


def _activity() -> Activity:
    """Of the whole installation."""
    return Activity(Operation.objects.values_list("activity", flat=True).first() or Activity.ACTIVE)


def _connections() -> Sequence[ModelConnection]:
    return list(ModelConnection.objects.order_by("-is_default", "pk"))


def _allowed(entry: str) -> Allowed:
    """Nothing for an invalid entry, or for one that no form takes."""
    try:
        allowed = Allowed.read([entry])
    except ValueError:
        return Allowed()
    return Allowed() if allowed.opens_metadata else allowed


def endpoint_of(row: ModelConnection) -> Endpoint:
    prices = {
        one["name"]: Prices(one.get("input_price") or 0.0, one.get("output_price") or 0.0)
        for one in row.offers
        if one.get("input_price") is not None or one.get("output_price") is not None
    }
    choices = [one["name"] for one in row.offers if one.get("is_choice")]
    return Endpoint(
        row.name, row.slug, row.base_url, row.api_key, row.model, prices, choices, row.found, row.names_sessions
    )
