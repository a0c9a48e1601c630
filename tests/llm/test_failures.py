"""Model failures: a sentence for people, details for operators, the key for nobody."""

import logging
import time

import pytest

from agentkit import AgentFailure, Failed, TaskContext, testing
from agentkit.llm import LlmFunction, LlmWorker, NoModel, has_model, use_models
from apps.features.model_agents import language_models
from tests.llm.conftest import KEY
from tests.llm.endpoint import Asking, Endpoint, Reply, breaks_off, calls, hangs, refuses, says, sends

LATER = "Try again later."
FOREVER = 5  # more tries than a request gets

REFUSED = {
    "a wrong key": (
        refuses(401, f"Incorrect API key provided: {KEY}.", "invalid_api_key"),
        "model_key", "The language model refuses the key. An operator must correct it.",
    ),
    "a key without rights": (
        refuses(403, "not yours"),
        "model_key", "The language model refuses the key. An operator must correct it.",
    ),
    "an unknown model": (
        refuses(404, "no such model", "model_not_found"),
        "model_unknown", "Its endpoint does not know the language model test-model.",
    ),
    "no more money": (
        refuses(429, "You exceeded your quota", "insufficient_quota", retry_after_ms="1"),
        "model_quota", "The quota of the language model is used up.",
    ),
    "too many requests": (
        refuses(429, "slow down", "rate_limit_exceeded", retry_after_ms="1"),
        "model_busy", f"The language model has too much to do. {LATER}",
    ),
    "too long a conversation": (
        refuses(400, "maximum context length is 10", "context_length_exceeded"),
        "too_long", "The conversation is too long for the language model.",
    ),
    "a request that it does not like": (
        refuses(400, "no images please"),
        "model_refused", "The language model does not take this request.",
    ),
    "an error of its own": (
        refuses(500, "oops", retry_after_ms="1"),
        "model_failed", f"The language model failed. {LATER}",
    ),
    "an overloaded server": (
        refuses(503, "busy", retry_after_ms="1"),
        "model_failed", f"The language model failed. {LATER}",
    ),
    "a page of HTML": (
        sends(b"<html>Welcome to the wifi</html>", "text/html"),
        "model_unfit", "The language model's answer could not be used. Try again, or choose another model.",
    ),
    "other JSON": (
        sends(b'{"hello": "world"}'),
        "model_unfit", "The language model's answer could not be used. Try again, or choose another model.",
    ),
    "a redirect": (
        refuses(302, "elsewhere", location="http://127.0.0.1:1/"),
        "model_unreachable", f"The language model cannot be reached. {LATER}",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
async def test_each_is_a_sentence_with_the_detail_for_operators_and_without_the_key(
    endpoint: Endpoint, caplog: pytest.LogCaptureFixture, case: str
):
    caplog.set_level(logging.DEBUG)
    reply, code, sentence = REFUSED[case]
    for asking in (LlmFunction("Help.")(None, "x"), LlmWorker("Help.").run(message="x")):
        endpoint.replies = [reply] * FOREVER
        with pytest.raises(AgentFailure) as failed:
            await asking
        assert (str(failed.value), failed.value.code) == (sentence, code)
        assert failed.value.detail
        assert KEY in endpoint.headers[0]["authorization"]
        assert KEY not in failed.value.detail + str(failed.value) + caplog.text


async def test_what_is_refused_for_now_is_asked_for_again_when_it_says_unless_that_is_long(endpoint: Endpoint):
    endpoint.replies = [
        refuses(429, "slow down", retry_after_ms="100"),
        refuses(500, "oops", retry_after_ms="1"),
        says("At last."),
    ]
    began = time.monotonic()
    assert await LlmFunction("Help.")(None, "x") == "At last."
    assert time.monotonic() - began >= 0.1
    assert len(endpoint.requests) == 3
    endpoint.replies = [refuses(429, "slow down", retry_after="3600")] * FOREVER
    with pytest.raises(AgentFailure, match="too much to do"):
        await LlmFunction("Help.")(None, "x")
    assert len(endpoint.requests) == 4


async def test_a_stream_that_is_cut_fails_and_keeps_what_was_said(endpoint: Endpoint):
    async def handler(task: TaskContext) -> str:
        return await LlmWorker("Help.").run(task)

    endpoint.replies = [breaks_off("It ", "is ")]
    run = await testing.run(handler, "x")
    assert isinstance(run.outcome, Failed)
    assert run.outcome.message == f"The language model cannot be reached. {LATER}"
    assert run.text == "It is "


MISSHAPEN = {
    "nothing": "null",
    "a list": "[]",
    "choices that are none": '{"model": "m", "created": 1, "choices": [1]}',
    "usage that is none": '{"model": "m", "created": 1, "choices": [], "usage": "much"}',
    "a tower of lists": "[" * 200_000,
}


def streams(*events: str) -> Reply:
    async def reply(asking: Asking) -> None:
        asking.begin_stream()
        for event in events:
            await asking.event(event)

    return reply


async def test_an_answer_of_another_shape_or_no_json_cannot_be_used(endpoint: Endpoint):
    said = '{"model": "m", "created": 1, "choices": [{"index": 0, "delta": {"content": "It "}}]}'
    for name, content in MISSHAPEN.items():
        for ask, reply in [
            (LlmWorker("Help.").run(message="x"), streams(content)),
            (LlmWorker("Help.").run(message="x"), streams(said, content)),
            (LlmFunction("Help.")(None, "x"), sends(content.encode())),
        ]:
            endpoint.replies = [reply] * FOREVER
            with pytest.raises(AgentFailure) as failed:
                await ask
            assert str(failed.value).startswith("The language model's answer could not be used."), name
            assert failed.value.code == "model_unfit", name
    for body in (b"{nonsense", b""):
        endpoint.replies = [sends(body)] * FOREVER
        with pytest.raises(AgentFailure, match="The language model failed"):
            await LlmFunction("Help.")(None, "x")
        endpoint.replies = [sends(body)] * FOREVER
        with pytest.raises(AgentFailure, match="answer could not be used"):
            await LlmWorker("Help.").run(message="x")


@pytest.mark.parametrize("reply", [hangs(), hangs("It ")], ids=["before the answer", "in the middle"])
async def test_an_endpoint_that_falls_silent_is_left(endpoint: Endpoint, settings, reply):
    settings.LLM_SECONDS = 0.2
    endpoint.replies = [reply] * FOREVER
    with pytest.raises(AgentFailure) as failed:
        await LlmWorker("Help.").run(message="x")
    assert str(failed.value) == f"The language model did not answer in time. {LATER}"
    assert endpoint.hung_up.wait(10)


async def test_an_endpoint_that_is_not_there(endpoint: Endpoint, settings):
    settings.LLM_BASE_URL = "http://127.0.0.1:1/v1"
    with pytest.raises(AgentFailure) as failed:
        await LlmFunction("Help.")(None, "x")
    assert failed.value.code == "model_unreachable"
    assert "127.0.0.1 cannot be reached" in failed.value.detail


async def test_without_a_model_the_agent_says_what_to_set_on_the_platform_and_in_a_script(settings, monkeypatch):
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
            for ask in (LlmFunction("Help.")(None, "x"), LlmWorker("Help.").run(message="x")):
                with pytest.raises(NoModel) as failed:
                    await ask
                assert named in str(failed.value)
                assert failed.value.code == "no_model"


async def test_a_script_takes_its_model_from_the_environment(endpoint: Endpoint, monkeypatch):
    for name, value in {"LLM_MODEL": "script-model", "LLM_BASE_URL": endpoint.url, "LLM_API_KEY": KEY}.items():
        monkeypatch.setenv(name, value)
    use_models(None)
    try:
        endpoint.replies = [calls(("final_result", {"response": 4}))]
        assert await LlmFunction("Add.", int)(None, "2 and 2") == 4
    finally:
        use_models(language_models.build_model)
    assert endpoint.requests[0]["model"] == "script-model"


async def test_whether_there_is_a_model_can_be_asked(endpoint: Endpoint, settings):
    assert await has_model()
    assert endpoint.requests == [], "nobody is called for that"
    settings.LLM_MODEL = ""
    assert not await has_model()
