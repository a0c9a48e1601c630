"""A credential's value is never printed."""

import logging

import pytest

from agentkit import AuthRequired, Completed, Credential, SkillHandler, testing
from agentkit.outcomes import as_outcome

SECRET = "k-5f1d2a90-secret"


class Calendar(SkillHandler):
    async def on_request(self, task):
        credential = await task.credential("calendar")
        return Completed(credential.secret) if credential else AuthRequired("Your key?", service="calendar")


class InAThread(SkillHandler):
    def on_request(self, task):
        credential = task.credential("calendar")
        return Completed(credential.secret) if credential else AuthRequired("Your key?", service="calendar")


def test_no_way_of_showing_it_tells_the_secret(caplog):
    credential = Credential("calendar", "basic", SECRET, "the-user")
    logging.getLogger().warning("with %s", credential)
    shown = [repr, str, "{}".format, "%s".__mod__, lambda one: f"{one!r:>200}"]
    for text in (*(show(credential) for show in shown), caplog.text):
        assert "calendar" in text
        assert SECRET not in text
        assert "the-user" not in text


def test_bearer_and_basic_credentials_have_a_header():
    assert Credential("c", "bearer", "token").authorization == "Bearer token"
    assert Credential("c", "basic", "open sesame", "Aladdin").authorization == "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="
    with pytest.raises(ValueError, match=r"credential\.secret"):
        _ = Credential("c", "api_key", "key").authorization


@pytest.mark.parametrize("handler", [Calendar, InAThread])
async def test_a_handler_without_a_credential_asks_for_it(handler):
    asked = await testing.run(handler, "open", credentials={"mail": SECRET})
    assert asked.outcome == AuthRequired("Your key?", service="calendar")
    for given in (SECRET, Credential("calendar", "basic", SECRET, "a")):
        assert (await asked.answer(credentials={"calendar": given})).said == SECRET


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"auth_type": "oauth2"}, "one of api_key, bearer, basic"),
        ({"service": "a\nb"}, "one line"),
        ({"service": "x" * 101}, "at most 100"),
    ],
)
def test_what_no_host_can_ask_for_is_refused(wrong, told):
    with pytest.raises(ValueError, match=told):
        AuthRequired("Your key?", **{"service": "calendar", **wrong})


def test_a_directive_asks_for_the_named_credential():
    said = {"state": "auth-required", "prompt": "Your token?", "service": "calendar", "auth_type": "bearer"}
    outcome = as_outcome(said)
    assert (outcome.service, outcome.auth_type, outcome.message) == ("calendar", "bearer", "Your token?")
    for unknown in ({"auth_type": "oauth2"}, {"service": ["calendar"]}, {"service": ""}):
        outcome = as_outcome(said | unknown)
        assert (outcome.service, outcome.message) == ("", "Your token?")
