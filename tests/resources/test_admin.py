"""What admin promises of each resource and its acts, from its declaration."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.db.models import Model
from django.test import Client
from django.urls import reverse

from apps.accounts.audit_models import AuditEntry
from apps.accounts.models import User
from apps.operators.actions import ActingAdmin, button_path
from apps.operators.bulk import RowAction
from apps.operators.models import BulkAction
from parley.faces.cells import list_url, page_url
from tests import members
from tests.isolation.world import Place
from tests.resources import declared
from tests.resources.declared import changed, everything
from tests.resources.samples import MAKERS, NEEDS_ANOTHER_SERVER, OF_ANOTHER_KIND

ADMINS = declared.admins()
DONE_HERE = [
    pytest.param(shown, act, id=declared.action_of(shown, act).key)
    for shown in ADMINS
    for act in shown.acts
    if declared.action_of(shown, act).key not in NEEDS_ANOTHER_SERVER | OF_ANOTHER_KIND
]
each = pytest.mark.parametrize("shown", ADMINS, ids=lambda one: one.model.__name__)


@pytest.fixture
def root(ours):
    return User.objects.filter(is_superuser=True).first() or User.objects.create_superuser("root@example.org", "root")


@pytest.fixture
def admin_client(root):
    return browser_of(root)


def browser_of(person: User) -> Client:
    client = Client()
    client.force_login(person)
    return client


def button(shown: ActingAdmin, act: Any, row: Model) -> str:
    name = button_path(act).replace("-", "_")
    return reverse(f"admin:{shown.model._meta.app_label}_{shown.model._meta.model_name}_{name}", args=[row.pk])


def of_list(act: Any) -> str:
    return f"{act.name}_selected".replace("-", "_")


def press(client: Client, shown: ActingAdmin, act: Any, row: Model) -> Any:
    return client.post(button(shown, act, row), {"_form_submitted": "True"})


def choose(client: Client, shown: ActingAdmin, act: Any, row: Model) -> Any:
    asked = client.post(list_url(shown.model), {"action": of_list(act), "_selected_action": [str(row.pk)]})
    question = BulkAction.objects.filter(state="asked").first()
    return asked if question is None else client.post(reverse("admin:operators_bulkaction_start", args=[question.pk]))


def is_offered(shown: ActingAdmin, act: Any, row: Model) -> bool:
    """As the act says; some classes show an act's button elsewhere."""
    shows_all = type(shown).is_offered is ActingAdmin.is_offered
    return bool(act.is_offered(row)) and (shows_all or shown.is_offered(button_path(act), row))


def row_of(shown: ActingAdmin, place: Place) -> Any:
    make = MAKERS.get(shown.model)
    row = make(place) if make else shown.model._default_manager.order_by("-pk").first()
    assert row is not None, f"Add {shown.model.__name__} to MAKERS in tests/resources/samples.py."
    return row


def offered_row(client: Client, shown: ActingAdmin, action: RowAction, place: Place) -> Any:
    """A row for which it is offered, perhaps after another of its acts."""
    row = row_of(shown, place)
    for other in (None, *shown.acts):
        if other is not None and declared.action_of(shown, other) is not action:
            press(client, shown, other, row)
            row.refresh_from_db()
        if action.is_offered(row):
            return row
    raise AssertionError(f"A row that offers {action.key}: let MAKERS in tests/resources/samples.py make one.")


@each
def test_admin_needs_the_permission(shown, ours, admin_client):
    row, name = row_of(shown, ours), shown.model._meta.model_name
    nobody = browser_of(members.operator(f"nobody-{name}@example.org"))
    viewer = browser_of(members.operator(f"viewer-{name}@example.org", f"view_{name}"))
    before, entries = everything(), AuditEntry.objects.count()
    places = (list_url(shown.model), page_url(shown.model, row.pk))
    assert [nobody.get(place).status_code for place in places] == [403, 403]
    pages = [viewer.get(place, follow=True) for place in places]
    assert [page.status_code for page in pages] == [200, 200]
    for act in shown.acts:
        place = button(shown, act, row)
        assert not any(mark in page.text for page in pages for mark in (f'"{place}"', f'value="{of_list(act)}"'))
        assert press(viewer, shown, act, row).status_code == 403
    choose(viewer, shown, act, row)
    assert admin_client.get(place).status_code == 200
    assert (changed(before), AuditEntry.objects.count()) == ([], entries)


@each
def test_page_has_the_buttons_that_are_offered(shown, ours, admin_client):
    row = row_of(shown, ours)
    for act in (None, *shown.acts):
        if act is not None and declared.action_of(shown, act).key not in NEEDS_ANOTHER_SERVER:
            press(admin_client, shown, act, row)
            if (row := shown.model._default_manager.filter(pk=row.pk).first()) is None:
                break
        page = admin_client.get(page_url(shown.model, row.pk)).text
        buttons = {one.name for one in shown.acts if f'"{button(shown, one, row)}"' in page}
        assert buttons == {one.name for one in shown.acts if is_offered(shown, one, row)}


FIRST_OF_EACH = {one.values[0]: one for one in reversed(DONE_HERE)}.values()
WAYS = [*((one, press) for one in DONE_HERE), *((one, choose) for one in FIRST_OF_EACH)]
"""A list does all acts in one way."""


@pytest.mark.parametrize(
    ("shown", "act", "do"), [pytest.param(*one.values, do, id=f"{one.id}-{do.__name__}") for one, do in WAYS]
)
def test_act_is_done_and_in_the_audit(shown, act, do, ours, admin_client, root):
    action = declared.action_of(shown, act)
    row = offered_row(admin_client, shown, action, ours)
    if do is choose and admin_client.get(list_url(shown.model)).status_code == 302:
        pytest.skip("it is one row, and has no list")
    key, before, entries, notes = str(row.pk), everything(), AuditEntry.objects.count(), LogEntry.objects.count()
    answer = do(admin_client, shown, act, row)
    assert answer.status_code in (200, 302)
    told = [str(one) for one in answer.wsgi_request._messages]
    new = AuditEntry.objects.order_by("number")[entries:]
    assert [one.actor_key for one in new] == [str(root.pk)], told
    assert action.records or (new[0].object_type, new[0].object_key) == (shown.model._meta.label_lower, key)
    assert LogEntry.objects.order_by("pk")[notes:].get().object_id == key
    assert changed(before)
    if do is choose:
        assert BulkAction.objects.latest("created_at").rows.get().outcome == "done"
