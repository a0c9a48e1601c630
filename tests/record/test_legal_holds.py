"""What a legal hold covers is deleted by nobody until an operator lifts the hold; the audit has both."""

import datetime

import pytest
from django.db import IntegrityError, models, transaction
from django.utils import timezone

from agentkit import Completed
from apps.accounts.audit_models import AuditEntry
from apps.accounts.models import User
from apps.engine import accept
from apps.features.sessions import deletion, holds
from apps.features.sessions.holds import UnderLegalHold
from apps.features.sessions.models import LegalHold
from apps.record import projection
from apps.record.models import Context
from tests.working import begin, end

pytestmark = [pytest.mark.django_db, pytest.mark.services("what is held is found by SQL")]


@pytest.fixture
def session(ada, echo, said):
    sent = accept.accept(ada.principal, echo, said("evidence"))
    end(begin(sent.run), Completed("done"))
    return Context.objects.get(pk=sent.context)


@pytest.fixture(params=["user", "workspace", "context"])
def held(request, ada, session):
    return {"user": ada, "workspace": ada.personal_workspace, "context": session}[request.param], request.param


@pytest.fixture
def hold(held):
    row, kind = held
    return LegalHold.objects.create(**{kind: row}, reason="Case 7")


def test_its_owner_cannot_delete_it_and_nothing_is_lost(ada, session, hold):
    with pytest.raises(UnderLegalHold):
        deletion.delete_session(ada.principal, session.pk)
    assert projection.differences(session.pk) == []
    assert Context.objects.get(pk=session.pk).deleted_at is None
    hold.delete()
    deletion.delete_session(ada.principal, session.pk)
    assert Context.objects.get(pk=session.pk).deleted_at is not None


def test_retention_and_the_end_of_the_account_leave_it_and_what_is_not_held_goes(ada, bob, echo, said, session, hold):
    other = accept.accept(bob.principal, echo, said("nothing"))
    end(begin(other.run), Completed("done"))
    for person in (ada, bob):
        person.personal_workspace.retention_days = 1
        person.personal_workspace.save()
    Context.objects.update(updated_at=timezone.now() - datetime.timedelta(days=3))
    assert deletion.delete_expired_sessions() == 1
    assert list(Context.objects.filter(deleted_at=None).values_list("pk", flat=True)) == [session.pk]
    User.objects.filter(pk=ada.pk).update(erased_at=timezone.now())
    assert deletion.delete_sessions_of_deleted_accounts() == 0
    hold.delete()
    assert deletion.delete_sessions_of_deleted_accounts() == 1


def test_the_account_is_not_erased_and_the_page_says_why(ada, session, hold, client):
    client.force_login(ada)
    form = {"email": ada.email, "current_password": "correct horse"}
    answer = client.post("/settings/data/delete", form)
    assert answer.status_code == 422
    assert str(UnderLegalHold()) in answer.text
    ada.refresh_from_db()
    assert (ada.is_active, ada.erased_at) == (True, None)


def test_neither_is_the_workspace_and_the_database_refuses_too(ada, session, hold, held):
    with pytest.raises(UnderLegalHold):
        holds.check_workspace(ada.personal_workspace)
    with pytest.raises(models.ProtectedError):
        held[0].delete()


def test_a_session_that_a_held_one_started_is_held_with_it_and_the_other_way_round(ada, echo, said, session):
    task = session.tasks.get()
    child = accept.accept(ada.principal, echo, said("part of it"))
    Context.objects.filter(pk=child.context).update(parent_task=task.pk)
    end(begin(child.run), Completed("done"))
    LegalHold.objects.create(context_id=child.context, reason="Case 8")
    with pytest.raises(UnderLegalHold), transaction.atomic():
        deletion.delete_session(ada.principal, session.pk)
    assert not Context.objects.filter(deleted_at__isnull=False).exists()


def test_a_hold_is_on_one_thing(ada, session):
    for wrong in ({}, {"user": ada, "context": session}, {"user": ada, "workspace": ada.personal_workspace}):
        with pytest.raises(IntegrityError), transaction.atomic():
            LegalHold.objects.create(**wrong, reason="Case 9")


def test_operators_place_and_lift_holds_in_admin_and_the_audit_says_who(ada, bob, session, client):
    bob.is_staff = bob.is_superuser = True
    bob.save()
    client.force_login(bob)
    page = "/admin/session_marks/legalhold/"
    assert client.post(f"{page}add/", {"user": ada.pk, "context": session.pk, "reason": "Case 7"}).status_code == 200
    assert client.post(f"{page}add/", {"user": ada.pk, "reason": "Case 7"}).status_code == 302
    hold = LegalHold.objects.get()
    assert ada.email in client.get(page).text
    assert client.post(f"{page}{hold.pk}/delete/", {"post": "yes"}).status_code == 302
    entries = AuditEntry.objects.filter(object_type="session_marks.legalhold").order_by("number")
    told = [(entry.action, entry.actor_key, entry.object_label) for entry in entries]
    assert told == [(f"admin.{verb}", str(bob.pk), f"legal hold on {ada.email}") for verb in ("created", "deleted")]
    client.force_login(ada)
    assert client.get(page).status_code in (302, 403)
