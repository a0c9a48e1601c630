"""Simulated histories keep every promise of the record; planted defects are found.

`python -m tests.simulation SEED` replays a history, `python -m tests.simulation --minutes 1` makes new ones.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from django.conf import settings
from django.db import IntegrityError

from apps.engine import finish, jobs
from apps.record import runs
from apps.record.ledger import Ledger, StaleWrite
from apps.record.models import Event, IllegalTransition
from parley.db.sql import Now, Update
from tests.simulation import world
from tests.simulation.judging import problems_of

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("ada", "_agents")]
STEPS = 1_500


@pytest.fixture
def _agents(db):
    world.register_agents()


@pytest.mark.parametrize("seed", range(3))
def test_every_promise_holds(seed):
    lived = world.live(seed, STEPS)
    assert problems_of(lived) == [], f"python -m tests.simulation {seed}"
    assert lived.deaths > 10
    assert len(lived.sent) > 20


def test_a_seed_gives_the_same_history():
    world.live(0, 100)  # what a process computes once
    world.forget()
    histories = []
    for _ in range(2):
        lived = world.live(7, 800)
        events = Event.objects.order_by("context", "index").values_list("context", "type", "run")
        histories.append([*events, lived.steps, lived.deaths, lived.now])
        world.forget()
    assert histories[0] == histories[1]


def _publish_nothing(patch: pytest.MonkeyPatch) -> None:
    """Messages are lost, and nothing sweeps."""
    patch.setattr(world.World, "publish", lambda self, run: self.dice.random() < 0.5 and self.broker.append(run))
    patch.setattr(jobs, "sweep", lambda: 0)


def _no_fence(patch: pytest.MonkeyPatch) -> None:
    """A worker acts though another one has its run by now."""

    def renew(log: Ledger, lease: runs.Lease, values: dict[str, Any] | None = None) -> None:
        log.acquire_lease(lease, {"id": lease.run_id}, values or {"lease_until": Now(settings.RUN_LEASE_SECONDS)})

    patch.setattr(Ledger, "renew_lease", renew)


def _no_compare_and_swap(patch: pytest.MonkeyPatch) -> None:
    """States and contexts are written without a look at what they were."""
    original = Ledger._updates

    def blind(log: Ledger, artifacts: Any) -> list[Update]:
        return [
            one._replace(where={"id": one.where["id"]}) if "id" in one.where else one
            for one in original(log, artifacts)
        ]

    patch.setattr(Ledger, "_updates", blind)


def _one_event_too_far(patch: pytest.MonkeyPatch) -> None:
    """A follower goes on after the event that comes next."""
    original = world.lineage.events

    def too_far(context: Any, after: int = 0, **more: Any) -> Any:
        return original(context, after + (after > 3), **more)

    patch.setattr(world.lineage, "events", too_far)


def _forgets_later_messages(patch: pytest.MonkeyPatch) -> None:
    """A turn ends the task though a message came meanwhile."""
    patch.setattr(finish, "LATER_MESSAGE", SimpleNamespace(one=lambda *_: None))


@pytest.mark.parametrize(
    "defect", [_publish_nothing, _no_fence, _no_compare_and_swap, _one_event_too_far, _forgets_later_messages]
)
def test_a_planted_defect_is_found(defect, monkeypatch):
    defect(monkeypatch)
    for seed in range(20):
        try:
            found = problems_of(world.live(seed, STEPS // 3))
        except (IntegrityError, IllegalTransition, StaleWrite):
            return  # the database noticed it
        if found:
            return
        world.forget()
    pytest.fail("No history shows it.")
