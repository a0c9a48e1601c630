"""Callers of the client API: Ada, Bob, and one without a key."""

import pytest
from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from django.contrib.sessions.backends.db import SessionStore

from apps.accounts.models import ApiKey
from apps.accounts.principals import READ
from apps.agents.registration import register_hosted
from apps.engine import accept
from tests.clients.calling import Caller
from tests.clients.delivering import Making


@pytest.fixture
def ada_calls(transactional_db, ada):
    return Caller(ApiKey.issue(ada, "test")[1])


@pytest.fixture
def bob_calls(transactional_db, bob):
    return Caller(ApiKey.issue(bob, "test")[1])


@pytest.fixture
def reads(transactional_db, ada):
    return Caller(ApiKey.issue(ada, "reads", scopes=[READ])[1])


@pytest.fixture
def made(transactional_db, ada, echo, said):
    return Making(ada, echo, said)


@pytest.fixture
def begun(made):
    return lambda **more: accept.accept(made.ada.principal, made.agent, made.said(**more)).context


@pytest.fixture
def anybody():
    return Caller()


@pytest.fixture
def ada_browses(transactional_db, ada):
    """Ada's signed-in browser; it sends no CSRF token by default."""
    session = SessionStore()
    session[SESSION_KEY] = str(ada.pk)
    session[BACKEND_SESSION_KEY] = settings.AUTHENTICATION_BACKENDS[0]
    session[HASH_SESSION_KEY] = ada.get_session_auth_hash()
    session.save()
    return Caller(cookies={"sessionid": str(session.session_key), "csrftoken": "a" * 32})


@pytest.fixture
def works(transactional_db):
    return register_hosted("works", "tests.clients.agents:Worker")


@pytest.fixture
def talks(transactional_db):
    return register_hosted("talks", "tests.clients.agents:Talker")
