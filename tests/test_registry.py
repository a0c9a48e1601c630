"""What apps add to the platform."""

import pytest
from django.apps import apps

from apps.conversations.forks.handover import hand_over
from parley.registry import Added, LeftOut, ParleyApp, added

OURS = [app for app in apps.get_app_configs() if isinstance(app, ParleyApp)]
OTHERWISE = ("default", "name", "url_prefix", "tool_modules", "links")
NAMES = [name for name in vars(ParleyApp) if not name.startswith("_") and name not in OTHERWISE]


@pytest.mark.parametrize("name", NAMES)
def test_all_that_apps_add_is_found(name, monkeypatch):
    monkeypatch.delitem(added, name, raising=False)
    stated = [getattr(app, name) for app in OURS if getattr(app, name)]
    assert stated
    match added[name]:
        case tuple() as found:
            assert len(found) == sum(map(len, stated)) == len(set(map(id, found)))
        case dict() as found:
            assert len(found) == sum(map(len, stated))
            assert name == "periodic_jobs" or {kind: added[name, kind] for kind in found} == found
        case found:
            assert found is not None
            assert len(stated) == 1


def test_asking_whether_an_app_adds_something_finds_it(monkeypatch):
    fresh = Added()
    assert "before_erasure" in fresh
    assert fresh.get("before_erasure") == added["before_erasure"]
    assert ("executors", "nobody's") not in fresh
    monkeypatch.setattr("parley.registry.parley_apps", list)
    left_out = Added()
    assert "restore_context" not in left_out
    assert left_out.get("restore_context", 1) == 1
    with pytest.raises(LeftOut):
        left_out["restore_context"]


def test_apps_add_only_what_somebody_reads():
    known = {*dir(ParleyApp), "name", "label", "verbose_name"}
    assert {app.name: unknown for app in OURS if (unknown := vars(type(app)).keys() - known)} == {}


def test_shared_past_is_kept_before_an_erasure():
    assert added["before_erasure"][0] is hand_over
