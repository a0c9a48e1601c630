"""Model failures: a sentence for people, details for operators, the key for nobody."""

import logging
import time

import pytest

from agentkit import AgentFailure, Failed, testing
from agentkit.llm import LlmFunction, LlmWorker, NoModel, has_model, use_models
from apps.model_agents import language_models
from tests.model_agents.agents import handler_of
from tests.model_agents.conftest import KEY
from tests.model_agents.endpoint import Asking, Reply, breaks_off, calls, hangs, refuses, says, sends

LATER = "Try again later."

UNFIT = "The language model's answer could not be used. Try again, or choose another model."
KEY_REFUSED = "The language model refuses the key. An operator must correct it."
REFUSED = {
    "model_key": (refuses(401, f"Incorrect API key provided: {KEY}.", "invalid_api_key"), KEY_REFUSED),
    "model_unknown": (
        refuses(404, "no such model", "model_not_found"), "Its endpoint does not know the language model test-model.",
    ),
    "model_busy": (
        refuses(429, "slow down", "rate_limit_exceeded", retry_after_ms="1"),
        f"The language model has too much to do. {LATER}",
    ),
    "too_long": (
        refuses(400, "maximum context length is 10", "context_length_exceeded"),
        "The conversation is too long for the language model.",
    ),
    "model_refused": (refuses(400, "no images please"), "The language model does not take this request."),
    "model_failed": (refuses(500, "oops", retry_after_ms="1"), f"The language model failed. {LATER}"),
    "model_unfit page of HTML": (sends(b"<html>Welcome to the wifi</html>", "text/html"), UNFIT),
    "model_unreachable": (
        refuses(302, "elsewhere", location="http://127.0.0.1:1/"), f"The language model cannot be reached. {LATER}",
    ),
}  # fmt: skip
"""By its code and case, what the endpoint answers and what people read."""


@pytest.mark.parametrize("case", REFUSED)
async def test_each_failure_shows_no_key(endpoint, caplog, case):
    caplog.set_level(logging.DEBUG)
    endpoint.usual, sentence = REFUSED[case]
    for asking in (LlmFunction("Help.")(None, "x"), LlmWorker("Help.").run(message="x")):
        with pytest.raises(AgentFailure) as failed:
            await asking
        assert (str(failed.value), failed.value.code) == (sentence, case.partition(" ")[0])
        assert failed.value.detail
        assert KEY in endpoint.headers[0]["authorization"]
        assert KEY not in failed.value.detail + str(failed.value) + caplog.text


async def test_a_refusal_for_now_is_retried_unless_long(endpoint):
    endpoint.replies = [
        refuses(429, "slow down", retry_after_ms="100"),
        refuses(500, "oops", retry_after_ms="1"),
        says("At last."),
    ]
    began = time.monotonic()
    assert await LlmFunction("Help.")(None, "x") == "At last."
    assert time.monotonic() - began >= 0.1
    assert len(endpoint.requests) == 3
    endpoint.usual = refuses(429, "slow down", retry_after="3600")
    with pytest.raises(AgentFailure, match="too much to do"):
        await LlmFunction("Help.")(None, "x")
    assert len(endpoint.requests) == 4


async def test_a_cut_stream_keeps_what_was_said(endpoint):
    endpoint.replies = [breaks_off("It ", "is ")]
    run = await testing.run(handler_of(LlmWorker("Help.")), "x")
    assert isinstance(run.outcome, Failed)
    assert run.outcome.message == f"The language model cannot be reached. {LATER}"
    assert run.text == "It is "


def streams(*events: str) -> Reply:
    async def reply(asking: Asking) -> None:
        asking.begin_stream()
        for event in events:
            await asking.event(event)

    return reply


SAID = '{"model": "m", "created": 1, "choices": [{"index": 0, "delta": {"content": "It "}}]}'


@pytest.mark.parametrize(
    "content",
    [
        "[]",
        '{"model": "m", "created": 1, "choices": [1]}',
        "[" * 200_000,
    ],
    ids=["list", "choices", "tower"],
)
async def test_an_answer_of_another_shape_cannot_be_used(endpoint, content):
    for ask, reply in [
        (LlmWorker("Help.").run(message="x"), streams(content)),
        (LlmWorker("Help.").run(message="x"), streams(SAID, content)),
        (LlmFunction("Help.")(None, "x"), sends(content.encode())),
    ]:
        endpoint.usual = reply
        with pytest.raises(AgentFailure) as failed:
            await ask
        assert (str(failed.value), failed.value.code) == (UNFIT, "model_unfit")


async def test_a_silent_or_absent_endpoint_is_left(endpoint, settings):
    settings.LLM_SECONDS = 0.2
    endpoint.usual = hangs("It ")
    with pytest.raises(AgentFailure) as failed:
        await LlmWorker("Help.").run(message="x")
    assert str(failed.value) == f"The language model did not answer in time. {LATER}"
    assert endpoint.hung_up.wait(10)
    settings.LLM_BASE_URL = "http://127.0.0.1:1/v1"
    with pytest.raises(AgentFailure) as failed:
        await LlmFunction("Help.")(None, "x")
    assert failed.value.code == "model_unreachable"
    assert "127.0.0.1 cannot be reached" in failed.value.detail


async def test_without_a_model_settings_are_named(endpoint, settings, monkeypatch):
    assert await has_model()
    assert endpoint.requests == [], "nobody is called for that"
    for given, named in (
        ({}, "LLM_MODEL"),
        ({"LLM_API_KEY": KEY}, "LLM_MODEL"),
        ({"LLM_MODEL": "gpt-5"}, "LLM_API_KEY"),
    ):
        for name in ("LLM_MODEL", "LLM_BASE_URL", "LLM_API_KEY"):
            setattr(settings, name, given.get(name, ""))
            monkeypatch.setenv(name, given.get(name, ""))
        for host in (None, language_models.build_model):  # the last restores the platform's own
            use_models(host)
            assert not await has_model()
            for ask in (LlmFunction("Help.")(None, "x"), LlmWorker("Help.").run(message="x")):
                with pytest.raises(NoModel) as failed:
                    await ask
                assert named in str(failed.value)
                assert failed.value.code == "no_model"


async def test_a_script_takes_its_model_from_the_environment(endpoint, monkeypatch):
    for name, value in {"LLM_MODEL": "script-model", "LLM_BASE_URL": endpoint.url, "LLM_API_KEY": KEY}.items():
        monkeypatch.setenv(name, value)
    use_models(None)
    try:
        endpoint.replies = [calls(("final_result", {"response": 4}))]
        assert await LlmFunction("Add.", int)(None, "2 and 2") == 4
    finally:
        use_models(language_models.build_model)
    assert endpoint.requests[0]["model"] == "script-model"
