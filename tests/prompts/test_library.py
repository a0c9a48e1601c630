"""Commands, sharing, versions and uses of prompts."""

import pytest

from apps.accounts.permissions import Role
from apps.optional.prompts import library
from apps.optional.prompts.library import NotYours
from apps.optional.prompts.models import Prompt
from apps.record.errors import InvalidFields
from tests.members import member

pytestmark = pytest.mark.django_db


def make(principal, name="Summary", text="Summarize {{topic}}.", **fields):
    return library.save(principal, Prompt(name=name, text=text, **fields))


@pytest.fixture
def shared(ada):
    return make(ada.principal, is_shared=True)


def test_new_prompt_gets_a_free_command(ada, bob):
    made = [
        make(ada.principal).slug,
        make(ada.principal).slug,
        make(ada.principal, "日本").slug,
        make(bob.principal).slug,
    ]
    assert made == ["summary", "summary-2", "prompt", "summary"]


def test_changed_command_must_be_free(ada):
    make(ada.principal)
    other = make(ada.principal, "Other")
    other.slug = "summary"
    with pytest.raises(InvalidFields):
        library.save(ada.principal, other)
    assert Prompt.objects.get(pk=other.pk).slug == "other"


def test_workspace_has_each_shared_command_once(ada, bob, shared):
    guest = member(bob, ada)
    assert make(guest, slug="summary").slug == "summary"
    assert make(guest, slug="summary", is_shared=True).slug == "summary-2"


@pytest.mark.parametrize(
    ("role", "may"), [(Role.VIEWER, False), (Role.MEMBER, False), (Role.MANAGER, True)], ids=lambda one: str(one)
)
def test_owner_and_managers_change_shared_prompts(ada, bob, shared, role, may):
    guest = member(bob, ada, role)
    found = Prompt.objects.find(guest, shared.pk)
    found.text = "Another"
    if may:
        library.save(guest, found)
    else:
        with pytest.raises(NotYours):
            library.save(guest, found)
        with pytest.raises(NotYours):
            library.DELETE.check(found, guest)
    shared.refresh_from_db()
    assert (shared.text == "Another") is may


def test_private_and_withdrawn_prompts_are_the_owners(ada, bob, shared):
    guest, private = member(bob, ada), make(ada.principal, "Private")
    assert set(Prompt.objects.visible_to(guest)) == {shared}
    shared.is_shared = False
    library.save(ada.principal, shared)
    assert not Prompt.objects.visible_to(guest).exists()
    assert set(Prompt.objects.visible_to(ada.principal)) == {shared, private}


def test_copy_is_private_and_ones_own(ada, bob, shared):
    made = library.COPY.perform(member(bob, ada), shared)
    assert (made.owner, made.is_shared, made.text, made.slug) == (bob, False, shared.text, "summary")


def test_each_text_is_a_version_that_returns(ada, bob, shared):
    manager = member(bob, ada, Role.MANAGER)
    shared.text = "Second"
    library.save(manager, shared)
    shared.description = "Nothing new"
    library.save(manager, shared)
    first = shared.versions.get(number=1)
    library.RESTORE.perform(ada.principal, first)
    said = list(shared.versions.order_by("number").values_list("text", "author"))
    assert said == [("Summarize {{topic}}.", ada.pk), ("Second", bob.pk), ("Summarize {{topic}}.", ada.pk)]
    assert Prompt.objects.get(pk=shared.pk).text == "Summarize {{topic}}."


def test_own_prompt_hides_shared_one(ada, bob, shared):
    guest = member(bob, ada)
    own = make(guest, text="Mine")
    library.use(guest, shared, {"topic": "energy"})
    assert library.usable(guest) == [own]


def test_only_who_may_write_counts_as_use(ada, bob, shared):
    for role in (Role.VIEWER, Role.MEMBER):
        assert library.use(member(bob, ada, role), shared, {"topic": "energy"}) == "Summarize energy."
    assert Prompt.objects.get(pk=shared.pk).used == 1


def test_prompts_go_with_their_workspace(ada, bob):
    gone = library.save(ada.principal, Prompt(name="Gone", text="x"))
    library.save(bob.principal, Prompt(name="Kept", text="x"))
    gone.workspace.close()
    assert library.sweep() == 1
    assert Prompt.objects.get().name == "Kept"
