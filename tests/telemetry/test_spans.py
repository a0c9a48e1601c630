"""Spans: which there are, what is above each, and what they say."""

import secrets
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes as gen_ai
from opentelemetry.trace import StatusCode, format_span_id

from agentkit.llm import LlmWorker
from agentkit.llm.endpoints import openai_model
from apps.agents.models import Agent
from apps.agents.registration import register_hosted
from apps.engine.send import send, wait_until_settled
from apps.plans.definitions import PlanDefinition
from apps.plans.registry import register_plan
from apps.record import wire
from apps.record.execution import Run
from parley import db
from parley.telemetry import tracing
from tests import stack
from tests.model_agents import endpoint as endpoints
from tests.outbound import certificates
from tests.telemetry.agents import HERE
from tests.telemetry.calling import ask, body, headers
from tests.telemetry.collector import collecting

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
CALLER = f"00-{TRACE}-00f067aa0ba902b7-01"
CANARY = "canary-5e1d-words"
EDGE = "POST /a2a/<slug>"


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("worker")
async def test_models_and_tools_are_below_callers_span(http, ada_key, spans):
    await db.run(register_hosted, "front", f"{HERE}:Front")
    await db.run(register_hosted, "near", "tests.model_agents.agents:Actor")
    task = await ask(http, ada_key, "front", CANARY, CALLER)
    assert task["status"]["state"] == "TASK_STATE_COMPLETED"
    await spans.finished(EDGE, "invoke_agent front")
    await spans.finished("invoke_agent near", count=2)  # the turn, and its use of a model
    line = [EDGE, "queue run", "invoke_agent front", "queue run", "invoke_agent near", "invoke_agent near"]
    assert spans.line("chat scripted:actor") == [*line, "chat scripted:actor"]
    assert spans.line("execute_tool double") == [*line, "execute_tool double"]
    assert {format(span.context.trace_id, "032x") for span in spans.get_finished_spans()} == {TRACE}
    assert format_span_id(spans.named[EDGE].parent.span_id) == CALLER[36:52]
    run = await db.run(Run.objects.get, task=task["id"])
    assert run.traceparent[36:52] == format_span_id(spans.named["invoke_agent front"].parent.span_id)
    assert CANARY not in spans.text


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("worker")
async def test_spans_follow_conventions_for_generative_ai(http, ada_key, spans):
    near = await db.run(register_hosted, "near", "tests.model_agents.agents:Actor")
    task = await ask(http, ada_key, "near", CANARY)
    await spans.finished(EDGE)
    await spans.finished("invoke_agent near", count=2)
    of_agent = {
        gen_ai.GEN_AI_AGENT_ID: str(near.pk), gen_ai.GEN_AI_AGENT_NAME: "near",
        gen_ai.GEN_AI_AGENT_VERSION: near.version, gen_ai.GEN_AI_CONVERSATION_ID: task["contextId"],
    }  # fmt: skip
    more = {
        "invoke_agent near": {},
        "chat scripted:actor": {
            gen_ai.GEN_AI_PROVIDER_NAME: "function", gen_ai.GEN_AI_REQUEST_MODEL: "scripted:actor",
            gen_ai.GEN_AI_RESPONSE_MODEL: "scripted:actor", gen_ai.GEN_AI_USAGE_INPUT_TOKENS: 50,
        },
        "execute_tool double": {gen_ai.GEN_AI_TOOL_NAME: "double", gen_ai.GEN_AI_TOOL_CALL_ID: "call-1-0"},
    }  # fmt: skip
    for name, expected in more.items():
        wanted = {gen_ai.GEN_AI_OPERATION_NAME: name.split()[0], **of_agent, **expected}
        for span in (one for one in spans.get_finished_spans() if one.name == name):
            assert {key: span.attributes.get(key) for key in wanted} == wanted


async def test_endpoint_is_named_in_its_spans(spans):
    with endpoints.running() as endpoint:
        endpoint.replies = [endpoints.says(CANARY)]
        async with openai_model("gpt-5-mini", endpoint.url, "key") as model:
            await LlmWorker("Help.", model=model).run(message=CANARY)
    chat = spans.named["chat gpt-5-mini"].attributes
    there = urlsplit(endpoint.url)
    assert (chat["server.address"], chat["server.port"]) == (there.hostname, there.port)
    assert (chat[gen_ai.GEN_AI_USAGE_INPUT_TOKENS], chat[gen_ai.GEN_AI_USAGE_OUTPUT_TOKENS]) == (20, 5)
    assert chat[gen_ai.GEN_AI_RESPONSE_FINISH_REASONS] == ("stop",)
    assert CANARY not in spans.text


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("worker")
async def test_messages_are_in_spans_if_switched_on(http, ada_key, spans, monkeypatch):
    from apps.model_agents import language_models

    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "true")
    language_models.trace_calls()
    await db.run(register_hosted, "actor", "tests.model_agents.agents:Actor")
    await ask(http, ada_key, "actor", CANARY)
    assert CANARY in spans.named["chat scripted:actor"].attributes["gen_ai.input.messages"]


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("worker")
async def test_error_marks_its_span_without_its_text(http, ada_key, spans):
    await db.run(register_hosted, "failing", f"{HERE}:Failing")
    await ask(http, ada_key, "failing", CANARY)
    await spans.finished(EDGE, "invoke_agent failing")
    run = spans.named["invoke_agent failing"]
    assert (run.status.status_code, run.attributes["error.type"]) == (StatusCode.ERROR, "agent_error")
    assert spans.named[EDGE].status.status_code is StatusCode.UNSET  # the request itself did not fail
    assert CANARY not in spans.text


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("worker")
async def test_plan_steps_are_below_its_run(ada, said, spans, echo):
    steps = {
        "first": {"agent": "echo", "message": "one"},
        "second": {"agent": "echo", "message": "two", "depends_on": ["first"]},
    }
    content: dict[str, Any] = {"name": "Plan", "description": "A plan.", "steps": steps}
    plan = await db.run(register_plan, "plan", PlanDefinition.read(content), access=Agent.Access.AUTHENTICATED)
    with tracing.span("page"):  # no caller's header: a person's page
        sent = await send(ada.principal, plan, said())
    await wait_until_settled(sent.context, sent.task, sent.index, wire.load_task)
    await spans.finished("invoke_agent echo", count=2)
    await spans.finished("invoke_agent plan")
    assert spans.line("invoke_agent echo") == ["page", "queue run", "queue run", "invoke_agent echo"]
    assert spans.line("invoke_agent plan") == ["page", "queue run", "invoke_agent plan"]


async def test_model_calls_cost_operators_prices(spans):
    with endpoints.running() as endpoint:
        for stream in (True, False):
            spans.clear()
            model = openai_model("gpt-5-mini", endpoint.url, "key")  # the library has a price of its own for it
            model.prices = (3.0, 8.0)
            endpoint.replies = [endpoints.says("Yes.")]
            async with model:
                await LlmWorker("Help.", model=model).run(message="Well?", stream=stream)
            [chat] = [span for span in spans.get_finished_spans() if span.name.startswith("chat ")]
            assert chat.attributes["operation.cost"] == pytest.approx((20 * 3 + 5 * 8) / 1_000_000)


def test_environment_says_where_spans_go(monkeypatch):
    with collecting() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        monkeypatch.setenv("OTEL_SERVICE_NAME", "ours")
        provider = tracing.build_provider("1.2")
        tracing.use(provider)
        try:
            with pytest.raises(LookupError), tracing.span("outer"), tracing.span("inner"):
                raise LookupError(CANARY)
        finally:
            tracing.use(None)
        provider.shutdown()
    outer, inner = sorted(collector.spans, key=lambda one: one.span.parent_span_id)
    assert (inner.span.name, inner.span.parent_span_id, inner.failed) == ("inner", outer.span.span_id, True)
    assert (outer.service["service.name"], outer.service["service.version"]) == ("ours", "1.2")
    assert CANARY not in str(collector.spans)


def test_exporter_trusts_the_authorities_of_calls(monkeypatch, tmp_path):
    company = certificates.certificate(is_strict=True)
    (tmp_path / "company.pem").write_bytes(certificates.pem(company[0]))
    tls = certificates.serving(tmp_path, certificates.certificate("127.0.0.1", by=company, is_strict=True))
    with collecting(tls) as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "company.pem"))
        for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):  # the exporter's library prefers these
            monkeypatch.delenv(name, raising=False)
        provider = tracing.build_provider("1.2")
        provider.get_tracer("test").start_span("one").end()
        provider.shutdown()
    assert [one.span.name for one in collector.spans] == ["one"]


@pytest.mark.services("the trace passes through several processes", only=True)
def test_trace_leads_through_all_processes():
    trace_id, caller = secrets.token_hex(16), secrets.token_hex(8)
    with collecting() as collector:
        environment = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
            "OTEL_EXPORTER_OTLP_HEADERS": "x-token=abc",
            "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment.name=test",
            "OTEL_BSP_SCHEDULE_DELAY": "600000",  # so that processes send what they have when they end
            "OUTBOUND_ALLOW": "127.0.0.1",
        }
        with stack.running(**environment) as traced:
            traced.python("-m", "tests.telemetry.agents", traced.url)
            told = headers(traced.demo_key, f"00-{trace_id}-{caller}-01")
            answer = httpx.post(f"{traced.url}/a2a/front", json=body(CANARY), headers=told, timeout=60).json()
            assert answer["result"]["task"]["status"]["state"] == "TASK_STATE_COMPLETED"
            traced.terminate()
        edge = "POST /a2a/<slug>"
        expected = [edge, "queue run", "invoke_agent front", "queue run", "invoke_agent near", "invoke_agent near"]
        expected += [edge, "queue run", "invoke_agent solver", "invoke_agent solver"]
        for name in ("chat scripted:actor", "execute_tool double"):
            assert collector.line(trace_id, name, caller) == [*expected, name]
        spans = [one for one in collector.spans if one.span.trace_id.hex() == trace_id]
        assert CANARY not in str(collector.spans)
        assert {span.service["service.name"] for span in spans} == {"parley"}
        assert {span.service["deployment.environment.name"] for span in spans} == {"test"}
        assert {told["x-token"] for told in collector.headers} == {"abc"}


@pytest.mark.parametrize(
    ("name", "value"), [("OTEL_TRACES_SAMPLER_ARG", "10%"), ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")]
)
def test_impossible_values_are_refused_by_name(monkeypatch, name, value):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "parentbased_traceidratio")
    monkeypatch.setenv(name, value)
    with pytest.raises(ValueError, match=name):
        tracing.configure("1")
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    tracing.configure("1")
    assert not tracing.is_on
