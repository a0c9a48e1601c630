"""What each resource's pages promise, from its declaration."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.db.models import Model
from django.urls import NoReverseMatch, reverse

from apps.accounts.models import Membership
from apps.accounts.permissions import NEEDED_FOR_SCOPE, Permission, Role
from apps.accounts.resources import Act, Resource
from apps.web.resources import Pages
from apps.web.settings.resources import SectionPages
from tests.isolation.world import Place
from tests.resources import declared
from tests.resources.declared import changed, everything

each = pytest.mark.parametrize("pages", declared.pages(), ids=lambda one: one.resource.name)
each_section_act = pytest.mark.parametrize("one", declared.section_acts(), ids=lambda one: one.name)
ALWAYS = {"updated_at", "problem"}  # what saving changes in any case
KITS_OWN = {"web/_acts.html", "web/settings_resource.html"}  # they have a button for each act that is offered


def row_of(resource: Resource[Any], place: Place) -> Any:
    row = resource.visible_to(place.principal).first()
    assert row is not None, f"Make a {resource.noun} in tests/isolation/world.py."
    return row


def address(pages: Pages[Any], name: str, *key: Any) -> str:
    return reverse(pages.names[name], args=key)


def act_address(pages: Pages[Any], act: Act[Any], row: Model) -> str:
    is_section = isinstance(pages, SectionPages)
    return f"{address(pages, 'one', row.pk)}/{act.name}" if is_section else address(pages, "act", row.pk)


def typed(form: Any) -> dict[str, Any]:
    """A form's values, as they are posted."""
    values = {field.html_name: field.value() for field in form}
    found = {name: str(value) if type(value) is int else value for name, value in values.items()}
    return {name: value for name, value in found.items() if value not in (None, False, "", [])}


def buttons(pages: Pages[Any], html: str, row: Model) -> set[str]:
    """The acts that a row's page offers."""
    below = re.escape(address(pages, "one", row.pk))
    found = re.findall(rf'name="do" value="([\w-]+)"|(?:action|href)="{below}/([\w-]+)"', html)
    return {one or other for one, other in found} & {act.name for act in pages.resource.acts}


def is_for_viewers(act: Act[Any]) -> bool:
    return (act.permission or NEEDED_FOR_SCOPE.get(act.scope, Permission.READ)) == Permission.READ


def become_viewer(place: Place) -> None:
    Membership.objects.filter(user=place.owner, workspace=place.workspace).update(role=Role.VIEWER)


@each
def test_pages_show_own_rows_alone(pages, ours, browser, strange_browser):
    row = row_of(pages.resource, ours)
    mark = re.compile(rf"/{row.pk}\b")
    assert mark.search(browser.get(address(pages, "list")).text)
    assert browser.get(address(pages, "one", row.pk)).status_code == 200
    assert not mark.search(strange_browser.get(address(pages, "list")).text)
    before = everything()
    for method, name in (("get", "one"), ("get", "edit"), ("post", "edit")):
        assert getattr(strange_browser, method)(address(pages, name, row.pk)).status_code == 404
    for act in pages.resource.acts:
        assert strange_browser.post(act_address(pages, act, row), {"do": act.name}).status_code == 404
    assert not changed(before)


@each
def test_form_saves_or_keeps_what_was_typed(pages, ours, browser):
    row = row_of(pages.resource, ours)
    edit, values = address(pages, "edit", row.pk), type(row)._default_manager.filter(pk=row.pk).values()
    form = browser.get(edit).context["form"]
    data, before, was = typed(form), everything(), values.get()
    text = "name" if "name" in data else next(name for name in data if isinstance(was.get(name), str))
    for required in [name for name, field in form.fields.items() if field.required and name in data]:
        given = data | {text: "Another", required: ""}
        refused = browser.post(edit, given)
        assert refused.status_code == (422 if isinstance(pages, SectionPages) else 200)
        assert list(refused.context["form"].errors) == [required]
        assert typed(refused.context["form"]) == {name: value for name, value in given.items() if value}
    assert not changed(before)
    assert browser.post(edit, data | {text: "Another"}).status_code == 302
    assert {name for name, value in values.get().items() if value != was[name]} - ALWAYS == {text}


@each
def test_new_row_is_the_persons_own(pages, ours, browser):
    try:
        new = address(pages, "new")
    except NoReverseMatch:
        pytest.skip("its rows are created elsewhere")
    row = row_of(pages.resource, ours)
    filled = [browser.get(place).context["form"] for place in (new, address(pages, "edit", row.pk))]
    rows = pages.resource.visible_to(ours.principal)
    before = set(rows.values_list("pk", flat=True))
    answer = browser.post(new, typed(filled[0]) | typed(filled[1]))
    assert answer.status_code in (200, 302), answer.context["form"].errors
    made = rows.exclude(pk__in=before).get()
    assert (made.owner_id, made.workspace_id) == (ours.owner.pk, ours.workspace.pk)
    made.delete()


@each
def test_row_has_buttons_that_are_offered(pages, ours, browser):
    row = row_of(pages.resource, ours)
    for act in (None, *pages.resource.acts):
        if act is not None and not act.is_grave:
            before, is_offered = everything(), act.is_offered(row)
            assert browser.post(act_address(pages, act, row), {"do": act.name}).status_code in (200, 302)
            assert changed(before) or not is_offered or act.name == "test"
        row.refresh_from_db()
        page = browser.get(address(pages, "one", row.pk))
        shown, offered = (
            buttons(pages, page.text, row),
            {one.name for one in pages.resource.acts if one.is_offered(row)},
        )
        is_kits_own = bool(KITS_OWN & {template.name for template in page.templates})
        assert shown == offered if is_kits_own else shown <= offered


@each
def test_viewer_has_no_buttons_and_saves_nothing(pages, ours, browser):
    row, edit = row_of(pages.resource, ours), address(pages, "edit", row_of(pages.resource, ours).pk)
    data = typed(browser.get(edit).context["form"])
    become_viewer(ours)
    before = everything()
    shown = browser.get(address(pages, "one", row.pk))
    if pages.resource.permission != Permission.READ:
        assert not buttons(pages, shown.text, row)
        assert browser.post(edit, data | {"name": "Another"}).status_code in (403, 422)
    for act in pages.resource.acts:
        if not is_for_viewers(act):
            browser.post(act_address(pages, act, row), {"do": act.name})
    assert not changed(before)


@each
def test_unknown_act_is_not_found(pages, ours, browser):
    row, before = row_of(pages.resource, ours), everything()
    place = f"{address(pages, 'one', row.pk)}/" + ("nothing" if isinstance(pages, SectionPages) else "act")
    assert browser.post(place, {"do": "nothing"}).status_code == 404
    assert not changed(before)


@each_section_act
def test_settings_ask_before_a_grave_act(one, ours, browser, strange_browser, monkeypatch):
    monkeypatch.setattr("apps.web.settings.sections.may_invite", lambda person: True)
    row = row_of(one.resource, ours)
    place, before = reverse(one.name, args=[row.pk]), everything()
    assert strange_browser.post(place).status_code == 404
    asked = browser.get(place)
    assert asked.status_code == (200 if one.act.is_grave and one.act.is_offered(row) else 302)
    assert not one.act.is_grave or "You cannot undo this." in asked.text
    if not is_for_viewers(one.act):
        become_viewer(ours)
        browser.post(place)
        Membership.objects.filter(user=ours.owner, workspace=ours.workspace).update(role=Role.OWNER)
    assert not changed(before)
    if one.act.is_grave:
        assert browser.post(place).status_code == 302
        assert changed(before)
        if not type(row)._default_manager.filter(pk=row.pk).exists():
            row.save(force_insert=True)  # for the other tests of the module
