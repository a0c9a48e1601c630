"""The dependencies of a plan's steps; errors name the path."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.plans import graphs
from apps.plans.definitions import PlanDefinition
from parley.templating import TimeBudget
from tests.plans.plans import ASK, plan

PERSON = {"agent": "", "message": "", "person": {"ask": "Which one?"}}


def test_a_step_waits_for_what_it_names():
    given = plan(
        {
            "read": {},
            "sum_up": {"message": "{{ steps.read.text }}"},
            "count": {"for_each": "steps['read'].data", "message": "{{ item }} of {{ index }}"},
            "judge": {"when": "steps.count|length > 2", "attach": ["steps.sum_up.artifacts"]},
            "tell": {"depends_on": ["judge"], "repeat": {"until": "last.data.good or steps.read.data"}},
            "ask": {**PERSON, "person": {"ask": "Is {{ steps.tell.text }} right?"}},
        }
    )
    assert graphs.graph_problems(given) == []
    assert graphs.dependencies(given) == {
        "read": set(),
        "sum_up": {"read"},
        "count": {"read"},
        "judge": {"count", "sum_up"},
        "tell": {"judge", "read"},
        "ask": {"tell"},
    }
    assert graphs.with_descendants(given, ["judge"]) == {"judge", "tell", "ask"}


def test_a_plan_delivers_its_outputs_or_last_steps():
    steps = {"one": {}, "two": {"depends_on": ["one"]}, "three": {"depends_on": ["one"]}}
    assert graphs.output_steps(plan(steps)) == ["two", "three"]
    assert graphs.output_steps(plan(steps, outputs=["one"])) == ["one"]
    assert graphs.graph_problems(plan(outputs=["look"])) == []
    assert graphs.graph_problems(plan(outputs=["see"])) == [("outputs.0", "There is no step `see`; there are `look`.")]
    assert graphs.graph_problems(plan(outputs=["look", "look"])) == [("outputs.1", "`look` is named twice.")]


@pytest.mark.parametrize(
    ("steps", "path", "sentence"),
    [
        ({"a": {"depends_on": ["b"]}}, "steps.a.depends_on.0", "There is no step `b`; there are `a`."),
        ({"a": {"depends_on": ["a"]}}, "steps.a.depends_on.0", "A step cannot wait for itself."),
        ({"a": {}, "b": {"depends_on": ["a", "a"]}}, "steps.b.depends_on.1", "`a` is named twice."),
        ({"a": {"message": "{{ steps.b.text }}"}}, "steps.a.message", "There is no step `b`; there are `a`."),
        ({"a": {"message": "{{ steps.a.text }}"}}, "steps.a.message", "It speaks of its own step."),
        ({"a": {"message": "{{ steps|length }}"}}, "steps.a.message", "Say which step is meant"),
        ({"a": {"message": "{{ oops }}"}}, "steps.a.message", "There is no `oops` here."),
        ({"a": {"message": "{{ inputs.dose }}"}}, "steps.a.message", "`inputs` has no `dose`; it has `files`, `text`."),
        ({"a": {"message": "{{ 1"}}, "steps.a.message", "It cannot be read"),
        ({"a": {"attach": ["inputs.files", "steps."]}}, "steps.a.attach.1", "It cannot be read"),
        ({"a": {"message": "{{ item }}"}}, "steps.a.message", "with `for_each` alone"),
        ({"a": {"for_each": "inputs.files", "when": "item"}}, "steps.a.when", "with `for_each` alone"),
        ({"a": {"message": "{{ last.text }}"}}, "steps.a.message", "with `repeat` alone"),
        ({"a": {"when": "1 > 2"}}, "steps.a.when", "This never holds, so the step is never reached."),
        ({"a": {"for_each": "[]"}}, "steps.a.for_each", "always empty, so the step is never reached"),
        ({"a": {"for_each": "'abc'"}}, "steps.a.for_each", "This is no list."),
        ({"a": {"when": "1 / 0"}}, "steps.a.when", "division by zero"),
        ({"a": {"for_each": "[1]", "repeat": {"until": "last"}}}, "steps.a.repeat", "is not repeated"),
        ({"a": {**PERSON, "approve": "after"}}, "steps.a.approve", "nobody else has to agree"),
        ({"a": {**PERSON, "skill": "s"}}, "steps.a.skill", "a person does this step"),
        ({"a": {**PERSON, "message": "m"}}, "steps.a.message", "`person.ask`"),
        ({"a": {**PERSON, "on_failure": {"agent": "b"}}}, "steps.a.on_failure", "No agent takes over"),
        ({"a": {"on_failure": {"agent": "echo"}}}, "steps.a.on_failure.agent", "the agent that failed"),
    ],
)
def test_impossible_steps_are_refused_by_their_path(steps, path, sentence):
    [(found, said)] = graphs.graph_problems(plan(steps))
    assert (found, sentence in said) == (path, True)


CAN = [
    {"when": "1 < 2"},
    {"for_each": "[1, 2]", "message": "{{ item }}", "approve": "before"},
    {"repeat": {"until": "last.data.good", "max": 3}, "message": "{% if last %}{{ last.text }}{% endif %}"},
    {**PERSON, "on_failure": "ask"},
    {"on_failure": {"agent": "clerk"}},
    {"message": "{{ inputs.text }} and {{ inputs.files|length }}"},
]


def test_steps_that_can_work_are_not_refused():
    for step in CAN:
        assert graphs.graph_problems(plan({"a": step})) == [], step
    spoken = {"a": {"message": "{{ inputs.dose }}"}}
    assert graphs.graph_problems(plan(spoken, inputs={"type": "object", "properties": {"dose": {}}})) == []
    assert graphs.graph_problems(plan(spoken, inputs={"type": "object", "additionalProperties": True})) == []


def test_constants_share_one_time_budget(monkeypatch):
    monkeypatch.setattr(graphs, "TimeBudget", lambda: TimeBudget(running=0.05))
    slow = "range(9999)|map(attribute='q', default=range(9999)|list)"
    found = dict(graphs.graph_problems(plan({key: {"for_each": slow} for key in "abc"} | {"last": {"when": "true"}})))
    assert set(found.values()) == {graphs.NO_TIME}
    assert len(found) == 4
    quick = {f"s{number}": {"when": f"{number} < 500", "for_each": f"[{number}]"} for number in range(9)}
    assert graphs.graph_problems(plan(quick)) == []


def test_a_circle_is_told_as_its_way():
    waits = {"start": [], "a": ["c", "start"], "c": ["b"]}
    steps = {key: {"depends_on": keys} for key, keys in waits.items()} | {"b": {"message": "{{ steps.a }}"}}
    [(path, sentence)] = graphs.graph_problems(plan(steps))
    assert (path, sentence) == ("steps.a", "These steps wait for each other in a circle: a → b → c → a.")


def test_many_steps_are_judged_up_to_a_limit():
    steps = {f"s{number}": {"repeat": {"until": "last", "max": 50}} for number in range(40)}
    assert graphs.graph_problems(plan(steps)) == []
    [(path, sentence)] = graphs.graph_problems(plan({**steps, "more": {}}))
    assert (path, "up to 2,001 steps" in sentence) == ("steps", True)
    steps = {f"s{n}": {"depends_on": [f"s{n - 1}"]} if n else {} for n in range(2_000)}
    assert graphs.graph_problems(plan(steps)) == []
    steps["s0"] = {"depends_on": ["s1999"]}
    assert "s0 → s1 → s2" in graphs.graph_problems(plan(steps))[0][1]


@st.composite
def acyclic(draw: st.DrawFn) -> dict[str, list[str]]:
    keys = [f"s{number}" for number in range(draw(st.integers(2, 12)))]
    edges = {key: draw(st.lists(st.sampled_from(keys[:at]), unique=True)) if at else [] for at, key in enumerate(keys)}
    return {key: edges[key] for key in draw(st.permutations(keys))}


def drawn(edges: dict[str, list[str]]) -> PlanDefinition:
    return plan({key: {**ASK, "depends_on": waits} for key, waits in edges.items()})


@given(acyclic(), st.data())
def test_a_circle_and_nothing_else_is_refused(edges, data):
    made = drawn(edges)
    assert graphs.graph_problems(made) == []
    key = data.draw(st.sampled_from([key for key in edges if edges[key]] or [min(edges)]))
    if not edges[key]:
        edges[key] = [next(other for other in edges if other != key)]
    first = edges[key][0]
    back = data.draw(st.sampled_from(sorted(graphs.with_descendants(made, [key]))))
    edges[first] = [*edges[first], back]
    [(_, sentence)] = graphs.graph_problems(drawn(edges))
    circle = sentence.partition(": ")[2].rstrip(".").split(" → ")
    assert circle[0] == circle[-1]
    assert all(before in edges[after] for before, after in pairwise(circle))
