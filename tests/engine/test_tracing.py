"""A run is a span of its caller's trace (W3C Trace Context)."""

import re

import pytest

import db
from agentkit import Completed, InputRequired, SkillHandler, TaskContext
from apps.agents.registration import register_hosted
from apps.engine import accept, send
from apps.engine.accept import resume
from apps.record.execution import Run
from apps.record.models import Task
from telemetry import tracing
from tests.working import begin, end

pytestmark = pytest.mark.django_db(transaction=True)

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
CALLER = f"00-{TRACE}-00f067aa0ba902b7-01"
FORM = re.compile(r"00-([0-9a-f]{32})-([0-9a-f]{16})-0[01]")


def parts_of(traceparent):
    found = FORM.fullmatch(traceparent)
    assert found, traceparent
    return found.groups()


def test_a_run_is_a_span_of_its_own_in_the_callers_trace_or_in_one_of_its_own(ada, echo, said):
    def span_of(**more):
        return parts_of(Run.objects.get(pk=accept.accept(ada.principal, echo, said(), **more).run).traceparent)

    trace, span = span_of(traceparent=CALLER)
    assert trace == TRACE
    assert span != "00f067aa0ba902b7"
    assert span_of()[0] != span_of()[0]


def test_a_header_that_is_malformed_is_ignored():
    malformed = [
        "garbage",
        CALLER.upper(),
        f"ff-{TRACE}-00f067aa0ba902b7-01",
        f"00-{'0' * 32}-00f067aa0ba902b7-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"{CALLER}-more",
        f"{CALLER},{CALLER}",
        "00-" + "x" * 10_000,
        "\0",
    ]
    assert [header for header in malformed if parts_of(tracing.child_of(header))[0] == TRACE] == []


def test_a_later_version_is_read_as_far_as_it_is_known_and_who_does_not_record_is_not_made_to():
    assert parts_of(tracing.child_of(f"cc-{TRACE}-00f067aa0ba902b7-01-more"))[0] == TRACE
    assert tracing.child_of(CALLER[:-1] + "0").endswith("-00")
    assert tracing.child_of(CALLER[:-2] + "ff").endswith("-01")


def test_each_outgoing_call_is_a_span_below_the_run(ada, echo, said):
    sent = accept.accept(ada.principal, echo, said(), traceparent=CALLER)
    held = begin(sent.run)
    calls = [parts_of(held.traceparent) for _ in "ab"]
    assert {trace for trace, _ in calls} == {TRACE}
    spans = {span for _, span in calls} | {parts_of(Run.objects.get(pk=sent.run).traceparent)[1]}
    assert len(spans) == 3


def test_later_turns_of_a_task_go_on_in_its_trace_or_in_that_of_who_answers(ada, echo, said):
    sent = accept.accept(ada.principal, echo, said(), traceparent=CALLER)
    end(begin(sent.run), InputRequired("Which?", slot="word"))
    answered = accept.accept(ada.principal, echo, said("this", taskId=str(sent.task)))
    assert parts_of(Run.objects.get(pk=answered.run).traceparent)[0] == TRACE
    queued = accept.accept(ada.principal, echo, said("and", taskId=str(sent.task)))
    assert queued.run is None
    third = end(begin(answered.run), Completed("done"))
    assert parts_of(Run.objects.get(pk=third).traceparent)[0] == TRACE
    end(begin(third), InputRequired("Which?", slot="word"))
    resume(sent.task, because="A test.")
    resumed = Run.objects.get(task=sent.task, turn=4)
    assert (parts_of(resumed.traceparent)[0], resumed.resumed) == (TRACE, True)
    end(begin(resumed.pk), InputRequired("Which?", slot="word"))
    other = CALLER.replace("4bf", "5bf")
    last = accept.accept(ada.principal, echo, said("that", taskId=str(sent.task)), traceparent=other)
    assert parts_of(Run.objects.get(pk=last.run).traceparent)[0] == other[3:35]


async def test_what_a_task_calls_for_is_in_its_trace(ada, echo, worker, said):
    parent = await db.run(register_hosted, "passing", "tests.engine.test_tracing:Passing")
    sent = await send.send(ada.principal, parent, said(), traceparent=CALLER)
    await send.wait_until_settled(sent.context, sent.task, sent.index, lambda _: None)
    child = await db.run(lambda: Run.objects.get(task=Task.objects.get(parent=sent.task)))
    assert parts_of(child.traceparent)[0] == TRACE


class Passing(SkillHandler):
    """Passes on to another agent."""

    async def on_request(self, task: TaskContext) -> str:
        return (await task.call("echo", "hello")).text
