"""Resources and their acts check the caller's rights, whichever door is used."""

import pytest
from django.apps import AppConfig
from django.apps import apps as registry
from django.core.exceptions import ObjectNotUpdated

import apps
from apps.accounts.resources import faces, save_own
from apps.automation.models import Schedule
from apps.automation.schedules import PAUSE, SCHEDULES

pytestmark = pytest.mark.django_db


@pytest.fixture
def made(ada, echo):
    about = {"name": "Nightly", "agent": echo, "text": "Hello", "kind": "cron", "cron": "0 3 * * *"}
    return SCHEDULES.store(ada.principal, Schedule(**about))


def test_an_edit_keeps_acts_done_meanwhile(ada, made):
    stale = Schedule.objects.get()
    PAUSE.perform(ada.principal, made)
    stale.name = "Weekly"
    save_own(ada.principal, stale)
    kept = Schedule.objects.get()
    assert (kept.name, kept.paused_at is not None) == ("Weekly", True)
    assert kept.updated_at > made.updated_at
    made.delete()
    with pytest.raises(ObjectNotUpdated):
        save_own(ada.principal, stale)


def test_features_have_faces_in_their_own_folder(tmp_path, monkeypatch):
    """Neither a face that is missing nor one of another app is loaded."""
    folder = tmp_path / "sample_feature"
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "api.py").write_text("urlpatterns = ['an address']")
    monkeypatch.setattr(apps, "__path__", [*apps.__path__, str(tmp_path)])
    before, installed = {name: faces(name) for name in ("api", "pages")}, [*registry.get_app_configs()]
    sample = AppConfig.create("apps.sample_feature")
    monkeypatch.setattr(registry, "get_app_configs", lambda: [*installed, sample])
    assert [one.urlpatterns for one in faces("api") if one not in before["api"]] == [["an address"]]
    assert faces("pages") == before["pages"]
    assert all(one.__name__.startswith(("apps.", "parley.")) for one in faces("models"))
