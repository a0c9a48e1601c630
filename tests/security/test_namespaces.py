"""Names that others choose meet nobody else's: users of paired installations, senders, sessions and keys."""

from __future__ import annotations

import time

import pytest
from django.utils import timezone

from apps.accounts.models import User
from apps.accounts.principals import Principal
from apps.accounts.requests.authentication import BadCredentials
from apps.agents.identities import identity, signing
from apps.agents.identities.signing import Signer
from apps.engine import accept
from apps.optional.federation import pairing
from apps.record.models import Context
from apps.remote.federation import tokens
from apps.remote.federation.calls import federated_caller
from apps.remote.models import Peer
from tests.security.knocking import said

pytestmark = pytest.mark.django_db

LONG = "did:web:" + "a" * 60 + ".example"


class Installation:
    """A paired installation, and tokens for its people."""

    def __init__(self, did: str) -> None:
        private = signing.generate_key("EdDSA")
        self.signer, self.did = Signer.of(private, "EdDSA", timezone.now()), did
        key = {**signing.public_jwk(private), "kid": self.signer.kid}
        self.peer: Peer = pairing._pair(did, f"https://{did.rpartition(':')[2]}", "Other", [key], None)

    def caller(self, subject: str, **claims: str) -> Principal:
        now = int(time.time())
        about = {"iss": self.did, "aud": identity.did_of(None), "iat": now, "exp": now + 100, "sub": subject}
        token = self.signer.token({**about, **claims}, tokens.CALL)
        return federated_caller(token, "echo", is_open=False)[0]


def test_equal_subjects_of_two_installations_are_two_people(echo):
    one, other = (Installation(did).caller("ada") for did in ("did:web:a.example", "did:web:b.example"))
    assert one.user_id != other.user_id


def test_subjects_cannot_spell_another_installations_person(echo):
    """Their names are joined by what neither may contain."""
    installation = Installation("did:web:a.example")
    for subject in ("ada bob", "ada\n", "", "did:web:b.example ada", "ada@example.org"):
        with pytest.raises(BadCredentials):
            installation.caller(subject)


def test_claimed_name_makes_nobody_of_here(ada, echo):
    caller = Installation("did:web:a.example").caller("ada", name=ada.email)
    assert caller.user_id != ada.pk
    assert User.objects.get(pk=caller.user_id).email.endswith("@peer.invalid")


def test_long_identities_are_counted_apart(echo):
    keys = [Installation(LONG + end).caller("ada").key for end in ("", ".org")]
    assert len(set(keys)) == 2
    assert all(len(key) <= 60 for key in keys)


def test_sessions_of_one_name_are_each_persons_own(ada, bob, echo):
    for name in ("talk", "a/../b", "talk ", "TALK", "tälk"):
        for person in (ada, bob):
            accept.accept(person.principal, echo, said("hello", name))
        assert Context.objects.filter(context_id=name).count() == 2, name


def test_foreign_message_id_answers_nothing(ada, bob, echo):
    message = said("hello")
    ours, theirs = (accept.accept(person.principal, echo, message) for person in (ada, bob))
    assert ours.task != theirs.task
