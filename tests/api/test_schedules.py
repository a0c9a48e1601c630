"""Schedules by the client API."""

import pytest

import db
from apps.accounts.models import ApiKey, User
from apps.agents.models import Agent
from apps.automation import schedules
from apps.automation.models import Schedule
from tests.api.calling import JSON, Caller

NEW: JSON = {
    "name": "Morning",
    "agent": "echo",
    "text": "hello",
    "kind": "cron",
    "cron": "0 9 * * *",
    "timeZone": "Europe/Berlin",
}


async def test_a_schedule_is_made_changed_paused_run_and_deleted(ada_calls: Caller, echo: Agent) -> None:
    made = (await ada_calls.post("/schedules", NEW)).body
    assert len(made["nextRuns"]) == 5
    address = f"/schedules/{made['id']}"
    changed = (await ada_calls.patch(address, {"cron": "0 10 * * *"})).body
    assert changed["name"] == "Morning"
    assert changed["nextRuns"] != made["nextRuns"]
    assert (await ada_calls.post(f"{address}/pause")).body["nextRuns"] == []
    assert (await ada_calls.post(f"{address}/pause")).status == 200, "there is nothing to do"
    assert (await ada_calls.post(f"{address}/resume")).body["nextRuns"] == changed["nextRuns"]
    run = (await ada_calls.post(f"{address}/run")).body
    assert run["state"] == "started"
    assert (await ada_calls.get(f"/tasks/{run['taskId']}")).status == 200
    assert (await ada_calls.get(f"{address}/runs")).body["items"] == [run]
    assert [one["id"] for one in (await ada_calls.get("/schedules")).body["items"]] == [made["id"]]
    assert (await ada_calls.delete(address)).status == 204
    assert (await ada_calls.get(address)).status == 404
    assert (await ada_calls.get(f"/tasks/{run['taskId']}")).status == 200


async def test_only_its_own_address_deletes_it(ada_calls: Caller, echo: Agent) -> None:
    made = (await ada_calls.post("/schedules", NEW)).body
    for below in ("", f"/{made['id']}/pause", f"/{made['id']}/run", f"/{made['id']}/runs"):
        assert (await ada_calls.delete(f"/schedules{below}")).status == 405
    assert (await ada_calls.get(f"/schedules/{made['id']}")).status == 200


async def test_a_preview_saves_nothing(reads: Caller) -> None:
    shown = await reads.post("/schedules/preview", {"kind": "interval", "everySeconds": 3600})
    assert len(shown.body["nextRuns"]) == 5
    refused = await reads.post("/schedules/preview", {"kind": "cron", "cron": "0 0 30 2 *"})
    assert (refused.status, refused.fields) == (422, ["cron"])
    assert not await Schedule.objects.aexists()


async def test_a_time_without_offset_is_in_the_zone(ada_calls: Caller, reads: Caller, echo: Agent) -> None:
    timing = {"kind": "once", "at": "2035-12-01T09:00:00", "timeZone": "Europe/Berlin"}
    shown = await reads.post("/schedules/preview", timing)
    assert shown.body["nextRuns"] == ["2035-12-01T08:00:00.000Z"]
    made = (await ada_calls.post("/schedules", {"name": "Once", "agent": "echo", "text": "hi", **timing})).body
    assert made["at"] == "2035-12-01T08:00:00.000Z"
    changed = await ada_calls.patch(f"/schedules/{made['id']}", {"at": "2035-07-01T09:00:00"})
    assert changed.body["at"] == "2035-07-01T07:00:00.000Z"
    absolute = await ada_calls.patch(f"/schedules/{made['id']}", {"at": "2035-07-01T09:00:00+05:00"})
    assert absolute.body["at"] == "2035-07-01T04:00:00.000Z"


async def test_wrong_schedules_are_refused_by_field(ada_calls: Caller, echo: Agent) -> None:
    for wrong, field in (
        ({"agent": "nobody"}, "agent"),
        ({"text": ""}, "text"),
        ({"timeZone": "Mars"}, "timeZone"),
        ({"kind": "once"}, "at"),
        ({"overlap": "both"}, "overlap"),
        ({"name": ""}, "name"),
        ({"nextAt": "2026-01-01T00:00:00Z"}, "nextAt"),
    ):
        refused = await ada_calls.post("/schedules", {**NEW, **wrong})
        assert (refused.status, refused.fields) == (422, [field])


async def test_who_may_only_read_sees_but_cannot_change(ada_calls: Caller, reads: Caller, echo: Agent) -> None:
    made = (await ada_calls.post("/schedules", NEW)).body
    assert (await reads.get(f"/schedules/{made['id']}")).status == 200
    assert (await reads.post(f"/schedules/{made['id']}/run")).status == 403
    assert (await reads.post("/schedules", NEW)).status == 403


async def test_others_and_keys_for_other_agents_do_not_find_it(
    ada_calls: Caller, bob_calls: Caller, ada: User, echo: Agent, countdown: Agent
) -> None:
    made = (await ada_calls.post("/schedules", NEW)).body
    limited = Caller((await db.run(ApiKey.issue, ada, "limited", agents=["countdown"]))[1])
    for caller in (bob_calls, limited):
        assert (await caller.get(f"/schedules/{made['id']}")).status == 404
        assert (await caller.get("/schedules")).body["items"] == []
    assert (await limited.patch(f"/schedules/{made['id']}", {"name": "mine"})).status == 404
    assert (await limited.post("/schedules", NEW)).fields == ["agent"]


async def test_one_run_too_many_by_hand_is_a_conflict(
    ada_calls: Caller, echo: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schedules, "MOST_WAITING_BY_HAND", 1)
    made = (await ada_calls.post("/schedules", {**NEW, "overlap": "queue"})).body
    told = [(await ada_calls.post(f"/schedules/{made['id']}/run")) for _ in range(3)]
    assert [one.status for one in told] == [200, 200, 409]
    assert (await ada_calls.get(f"/schedules/{made['id']}/runs")).body["items"][0]["state"] == "waiting"
