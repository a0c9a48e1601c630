"""A run is a span of its caller's trace (W3C Trace Context)."""

import re

import pytest

from agentkit import Completed, InputRequired
from apps.engine import accept
from apps.engine.accept import resume
from apps.record.execution import Run
from parley.telemetry import tracing
from tests.working import begin, end

pytestmark = pytest.mark.django_db(transaction=True)

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
CALLER = f"00-{TRACE}-{SPAN}-01"
FORM = re.compile(r"00-([0-9a-f]{32})-([0-9a-f]{16})-0[01]")


def parts_of(traceparent):
    found = FORM.fullmatch(traceparent)
    assert found, traceparent
    return found.groups()


def trace_of(run):
    return parts_of(Run.objects.get(pk=run).traceparent)[0]


def test_run_and_its_calls_are_spans_below_caller(ada, echo, said):
    sent = accept.accept(ada.principal, echo, said(), traceparent=CALLER)
    held = begin(sent.run)
    spans = [parts_of(one) for one in (Run.objects.get().traceparent, held.traceparent, held.traceparent)]
    assert {trace for trace, _ in spans} == {TRACE}
    assert len({SPAN} | {span for _, span in spans}) == 4
    without = [trace_of(accept.accept(ada.principal, echo, said()).run) for _ in range(2)]
    assert len({TRACE, *without}) == 3


@pytest.mark.parametrize(
    "header",
    ["garbage", CALLER.upper(), f"ff-{TRACE}-{SPAN}-01", f"00-{'0' * 32}-{SPAN}-01", f"{CALLER}-more", "\0" * 9_999],
    ids=range(6),
)
def test_malformed_header_is_ignored(header):
    assert parts_of(tracing.child_of(header))[0] != TRACE


def test_later_turns_stay_in_the_trace(ada, echo, said):
    def answer(run, text, **more):
        end(begin(run), InputRequired("Which?", slot="word"))
        return accept.accept(ada.principal, echo, said(text, taskId=str(sent.task)), **more).run

    sent = accept.accept(ada.principal, echo, said(), traceparent=CALLER)
    second = answer(sent.run, "this")
    accept.accept(ada.principal, echo, said("and", taskId=str(sent.task)))
    third = end(begin(second), Completed("done"))
    end(begin(third), InputRequired("Which?", slot="word"))
    resume(sent.task, because="A test.")
    fourth = Run.objects.get(task=sent.task, turn=4).pk
    assert [trace_of(run) for run in (second, third, fourth)] == [TRACE] * 3
    other = CALLER.replace("4bf", "5bf")
    assert trace_of(answer(fourth, "that", traceparent=other)) == other[3:35]
