"""Whose a row is, is asked in one way: `visible_to(principal)`."""

from __future__ import annotations

import pytest
from django.apps import apps
from django.db.models import Model

from apps.accounts.models import User, Workspace

OPERATORS = "operators see it in admin, and nobody else"
MACHINE = "only code reads it, after the row that it belongs to was found"
PERSON = "a page reads it by the person who signed in, who alone has it"
WITHOUT = {
    "accounts.User": "a person is found by their membership",
    "accounts.AccessChange": MACHINE,
    "installation.ModelConnection": OPERATORS,
    "installation.NetworkAllowance": OPERATORS,
    "installation.Operation": OPERATORS,
    "installation.DismissedSteps": PERSON,
    "limits.Limit": OPERATORS,
    "record.Message": "it is found by its session",
    "record.Blob": MACHINE,
    "budgets.Budget": OPERATORS,
    "chats.LinkCode": PERSON,
    "credentials.CredentialRequest": "it is found by the secret of its link; `may_answer` says who may",
    "evaluations.Example": OPERATORS,
    "evaluations.Evaluation": OPERATORS,
    "evaluations.Sampling": OPERATORS,
    "forks.ChosenLeaf": MACHINE,
    "housekeeping.PeriodicJob": OPERATORS,
    "notifications.WebhookSigning": PERSON,
    "queue.QueuedMessage": "it is found by its session",
    "session_marks.SessionMark": MACHINE,
    "session_marks.LegalHold": OPERATORS,
    "sharing.Presence": MACHINE,
    "remote.RemoteAgent": "it is found by its agent",
    "remote.OpenWork": MACHINE,
    "remote.Peer": OPERATORS,
    "remote.PeerUser": MACHINE,
    "operators.BulkAction": OPERATORS,
    "operators.FailureGroup": OPERATORS,
    "operators.SavedFilter": OPERATORS,
}
"""Models that belong to a person or a workspace and need no `visible_to`, and why."""
OURS = [one for one in apps.get_models() if one.__module__.startswith("apps.") and not one._meta.proxy]


def belongs_to_somebody(model: type[Model]) -> bool:
    return any(field.related_model in (User, Workspace) for field in model._meta.concrete_fields)


@pytest.mark.parametrize("model", OURS, ids=lambda one: one._meta.label)
def test_owned_models_say_who_sees_them(model):
    has_it = hasattr(model._default_manager.none(), "visible_to")
    needs_it = belongs_to_somebody(model) and model._meta.label not in WITHOUT
    assert has_it or not needs_it, (
        f"Give the queryset of {model._meta.label} a `visible_to(principal)`, or say in WITHOUT why it needs none."
    )


def test_each_exception_is_still_needed():
    without = {one._meta.label for one in OURS if not hasattr(one._default_manager.none(), "visible_to")}
    assert {*WITHOUT} - without == set()
