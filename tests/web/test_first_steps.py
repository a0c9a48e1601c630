"""Operators of a new installation see what is left to set up; people join by a link."""

import re

import pytest
from django.contrib.auth import authenticate
from django.contrib.auth.models import Permission
from django.test import Client
from django.urls import reverse

from apps.accounts.models import User
from apps.agents.definitions import Definition
from apps.agents.registration import register_model
from apps.installation.models import ModelConnection
from apps.web.first_steps import first_steps, may_connect_model

pytestmark = pytest.mark.django_db

INVITE = reverse("admin:accounts_user_invite")
PASSWORD = "long and never seen 7"


@pytest.fixture
def admin(client: Client) -> User:
    person = User.objects.create_superuser("admin@parley.local", "let me in")
    client.force_login(person)
    return person


def done(rf, person: User) -> list[bool] | None:
    request = rf.get("/")
    request.user = User.objects.get(pk=person.pk)
    steps = first_steps(request)
    return None if steps is None else [step.is_done for step in steps.steps]


def test_each_step_is_done_when_its_fact_is_in_the_database(rf, admin, echo):
    User.objects.create_user("demo@parley.local")  # of the showcase
    assert done(rf, admin) == [False, False, False]
    ModelConnection.objects.create(name="Lab", slug="lab", base_url="https://models.example.org", model="small")
    assert done(rf, admin) == [True, False, False]
    text = {"name": "Clerk", "description": "Helps.", "instructions": "Help."}
    register_model("clerk", Definition.read(text))
    assert done(rf, admin) == [True, True, False]
    User.objects.create_user("grace@example.org")
    assert done(rf, admin) is None


def test_only_who_can_connect_a_missing_model_is_shown_the_way(rf, admin, settings):
    request = rf.get("/")
    for person, may in ((admin, True), (User.objects.create_user("grace@example.org"), False)):
        request.user = person
        assert may_connect_model(request) is may
    request.user = admin
    settings.LLM_MODEL, settings.LLM_BASE_URL = "small", "http://127.0.0.1:11434/v1"
    assert not may_connect_model(request)


def test_a_model_of_the_environment_counts(rf, admin, settings):
    settings.LLM_MODEL, settings.LLM_BASE_URL = "small", "http://127.0.0.1:11434/v1"
    assert done(rf, admin) == [True, False, False]


def test_home_shows_them_to_operators_with_links_that_work(client, admin, ada):
    page = client.get(reverse("web:home"))
    for step in page.context["first_steps"].steps:
        assert step.url in page.content.decode()
        assert client.get(step.url).status_code == 200
    client.force_login(ada)
    assert client.get(reverse("web:home")).context["first_steps"] is None


def test_they_show_only_what_an_operator_may_do(rf, ada):
    ada.is_staff = True
    ada.save()
    ada.user_permissions.set(Permission.objects.filter(codename="add_user"))
    assert done(rf, ada) == [False]


def test_dismissed_they_stay_away_for_this_person_on_every_device(client, rf, admin):
    assert client.post(reverse("web:dismiss-first-steps")).url == reverse("web:home")
    assert done(rf, admin) is None
    other = User.objects.create_superuser("other@parley.local")
    assert done(rf, other) is not None


def link_in(answer) -> str:
    return re.search(r"https?://[^/]+(/welcome/[^<\"]+)", answer.content.decode())[1]


def test_an_invited_person_sets_a_password_by_a_link_that_works_once(client, admin):
    answer = client.post(INVITE, {"email": "Grace@Example.org", "name": "Grace"})
    assert "no-store" in answer["Cache-Control"]
    guest, link = Client(), link_in(answer)
    form = guest.get(link).url
    assert "new_password1" in guest.get(form).content.decode()
    assert guest.post(form, {"new_password1": "short", "new_password2": "short"}).context["form"].errors
    assert guest.post(form, {"new_password1": PASSWORD, "new_password2": PASSWORD}).url == reverse("web:home")
    person = authenticate(username="grace@example.org", password=PASSWORD)
    assert person is not None
    assert (person.is_staff, person.personal_workspace.name) == (False, "Grace")
    assert guest.get(reverse("web:home")).context["user"] == person
    late = Client().get(link, follow=True)
    assert (late.status_code, late.context["validlink"]) == (200, False)


def test_a_link_of_somebody_who_was_switched_off_does_not_work(client, admin):
    link = link_in(client.post(INVITE, {"email": "grace@example.org"}))
    User.objects.filter(email="grace@example.org").update(is_active=False)
    assert not Client().get(link, follow=True).context["validlink"]


def test_a_taken_address_is_refused(client, admin, ada):
    answer = client.post(INVITE, {"email": "ADA@example.org"})
    assert answer.context["form"].errors["email"]
    assert User.objects.filter(email__iexact="ada@example.org").count() == 1


def test_only_superusers_invite_operators_or_make_links_for_them(client, admin, ada):
    client.post(INVITE, {"email": "second@example.org", "is_superuser": "on"})
    assert User.objects.get(email="second@example.org").is_superuser
    ada.is_staff = True
    ada.save()
    ada.user_permissions.set(Permission.objects.filter(codename__in=["add_user", "change_user", "view_user"]))
    client.force_login(ada)
    client.post(INVITE, {"email": "third@example.org", "is_superuser": "on"})
    assert not User.objects.get(email="third@example.org").is_superuser
    assert client.post(reverse("admin:accounts_user_link", args=[admin.pk])).status_code == 403
    assert client.get(INVITE).status_code == 200


def test_somebody_who_forgot_the_password_gets_a_new_link(client, admin, ada):
    address = reverse("admin:accounts_user_link", args=[ada.pk])
    assert "/welcome/" not in client.get(address).content.decode()
    guest, link = Client(), link_in(client.post(address))
    form = guest.get(link).url
    guest.post(form, {"new_password1": PASSWORD, "new_password2": PASSWORD})
    assert authenticate(username="ada@example.org", password=PASSWORD) == ada


def test_members_invite_nobody(client, ada):
    client.force_login(ada)
    assert client.post(INVITE, {"email": "grace@example.org"}).status_code == 302
    assert not User.objects.filter(email="grace@example.org").exists()
