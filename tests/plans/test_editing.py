"""People edit a plan on its picture: the server changes the text, which keeps its comments."""

import pytest

from apps.agents.models import Agent
from apps.conversations.sessions.commands import switch_agent
from apps.plans.definitions import MOST_BYTES, PlanDefinition, read_yaml
from apps.plans.editing import edits, texts
from apps.plans.editing.starts import starts
from apps.plans.editing.trials import samples_of
from apps.plans.models import Step
from apps.plans.registry import validate
from apps.plans.running.runs import begin_run
from apps.record.errors import InvalidParams
from apps.record.models import Context, Message, Task
from parley import templating
from tests.clients import telling
from tests.plans.conftest import agents, plan  # noqa: F401 fixtures

STORY = """\
# A story for everybody
name: Short story  # as people see it
description: Writes a story.
steps:
  draft:
    title: First draft  # never empty
    agent: loud
    message: |
      # this is text
      Write about {{ inputs.text }}.

  # A person reads it
  reading:
    person: {ask: "Read {{ steps.draft.text }}"}
    attach: [steps.draft.artifacts]

  story:
    agent: loud
    message: "The reader of steps.reading says {{ steps.reading.text }}"
    depends_on: [draft]
outputs: [story]
# The end
"""
REMARKS = ("# A story for everybody", "# as people see it", "# A person reads it", "# The end")


def edited(edit: str, step: str = "draft", text: str = STORY, **values):
    return edits.apply(text, edit, step, {"agent": "loud", **values})


def needs(text: str) -> dict[str, set[str]]:
    return edits.needs_of(read_yaml(text))


@pytest.mark.parametrize("edit", sorted(edits.EDITS))
def test_edits_keep_what_they_do_not_change(edit):
    values = {"rename": {"key": "first"}, "connect": {"to": "story"}, "change": {"title": "New"}}.get(edit, {})
    made = edited(edit, "reading" if edit in ("delete", "move_up") else "draft", **values).text
    kept = [one for one in REMARKS if edit != "delete" or "person" not in one]
    assert [one for one in kept if one not in made] == []
    assert "# this is text" in read_yaml(made)["steps"].get("draft", read_yaml(made)["steps"].get("first"))["message"]
    PlanDefinition.from_yaml(made)


@pytest.mark.parametrize(
    ("edit", "step", "expected"),
    [
        ("add_after", "draft", {"step": {"draft"}, "story": {"draft", "reading"}}),
        ("add_between", "draft", {"step": {"draft"}, "story": {"step", "reading"}, "reading": {"draft", "step"}}),
        ("add_before", "story", {"step": {"draft"}, "story": {"step", "reading"}}),
        ("add_beside", "reading", {"step": {"draft"}, "reading": {"draft"}}),
        ("delete", "draft", {"reading": set(), "story": {"reading"}}),
    ],
)
def test_added_and_removed_steps_stay_connected(edit, step, expected):
    found = needs(edited(edit, step).text)
    assert {key: found[key] for key in expected} == expected


def test_new_key_is_used_by_templates_alone():
    made = read_yaml(edited("rename", "reading", key="opinion").text)
    assert made["steps"]["story"]["message"] == "The reader of steps.reading says {{ steps.opinion.text }}"
    assert list(made["steps"]) == ["draft", "opinion", "story"]
    assert read_yaml(edited("rename", "story", key="end").text)["outputs"] == ["end"]


@pytest.mark.parametrize(
    ("edit", "step", "values", "field"),
    [
        ("connect", "story", {"to": "draft"}, "to"),  # it would be a circle
        ("connect", "draft", {"to": "draft"}, "to"),
        ("connect", "draft", {"to": "nobody"}, "to"),
        ("rename", "draft", {"key": "story"}, "key"),
        ("rename", "draft", {"key": "Not a key"}, "key"),
        ("move_up", "draft", {}, ""),
        ("change", "nobody", {}, "step"),
        ("dance", "draft", {}, "do"),
    ],
)
def test_impossible_edit_says_why(edit, step, values, field):
    with pytest.raises(InvalidParams) as refused:
        edited(edit, step, **values)
    assert refused.value.field == field


@pytest.mark.parametrize("text", ["steps: [", "name: x", "steps: {a: 1}", "- a", ""])
def test_unreadable_text_is_not_edited(text):
    with pytest.raises(InvalidParams):
        edited("add_after", "a", text)


@pytest.mark.parametrize(
    "text", [STORY, '{"name": "x", "steps": {"draft": {"agent": "loud"}}}', "a: 1\n\n\nb: |+\n  x\n\n"]
)
def test_rewritten_text_has_exactly_its_content(text):
    content = read_yaml(text)
    assert texts.rewrite(text, content) == text
    reversed_ = dict(reversed([*content.items(), ("more", {"x": ["y\nz", " "]})]))
    assert list(read_yaml(texts.rewrite(text, reversed_)).items()) == list(reversed_.items())


@pytest.fixture
def changed(ada_browser, agents):  # noqa: F811
    def post(do: str = "", step: str = "draft", text: str = STORY, **fields):
        return ada_browser.post("/plans/check", {"definition": text, "do": do, "step": step, **fields})

    return post


@pytest.mark.django_db
def test_picture_and_text_stay_in_step(changed):
    drawn = changed("add_after").json()
    assert drawn["step"] == "step"
    assert 'href="#step-step"' in drawn["picture"]
    typed = changed("", "", drawn["text"].replace("New step", "Translation")).json()
    assert "Translation" in typed["picture"]
    assert (typed["panel"], "No problems" in typed["problems"]) == ("", True)
    broken = changed("", "draft", "steps: [").json()
    assert (broken["picture"], broken["panel"], "YAML" in broken["problems"]) == ("", "", True)


@pytest.mark.django_db
def test_form_of_a_step_changes_its_fields(changed):
    form = {"answer-agent": "loud", "answer-message": "Say {{ inputs.text }}", "answer-title": "Loud"}
    more = {"answer-when": "inputs.text", "answer-repeat.until": "last.text", "answer-repeat.max": "3"}
    made = read_yaml(changed("change", **form, **more, **{"answer-on_failure": "agent:counting"}).json()["text"])
    assert made["steps"]["draft"] == {
        "title": "Loud",
        "agent": "loud",
        "message": "Say {{ inputs.text }}",
        "when": "inputs.text",
        "repeat": {"until": "last.text", "max": 3},
        "on_failure": {"agent": "counting"},
    }
    asked = read_yaml(changed("change", **{**form, "answer-agent": "?person"}).json()["text"])["steps"]["draft"]
    assert asked == {"title": "Loud", "person": {"ask": "Say {{ inputs.text }}"}}
    refused = changed("change", **form, **{"answer-retries": "many"})
    assert (refused.status_code, refused.json()["field"]) == (422, "answer-retries")


@pytest.mark.django_db
def test_form_offers_only_what_a_step_can_use(changed, ada, plan):  # noqa: F811
    Agent.objects.filter(slug="counting").update(access=Agent.Access.GROUPS)
    panel = changed("", "reading").json()["panel"]
    assert 'value="steps.draft.text"' in panel
    assert 'value="steps.story.text"' not in panel, "it runs later"
    assert 'value="counting"' not in panel, "she may not use it"


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("agents", "worker")
def test_one_step_is_tried_and_leaves_nothing(ada_browser):
    def tried(step: str, **samples: str):
        given = {f"sample-{name}": text for name, text in samples.items()}
        return ada_browser.post("/plans/try", {"definition": STORY, "step": step, **given})

    answer = tried("story", **{"steps.reading": "more colour"})
    assert (answer.status_code, "MORE COLOUR" in answer.json()["html"]) == (200, True)
    assert not Message.objects.exists(), "the session is deleted"
    person = tried("reading", **{"steps.draft": "x"})
    assert (person.status_code, "person" in person.json()["error"]) == (422, True)
    Agent.objects.filter(slug="loud").update(access=Agent.Access.GROUPS)
    assert tried("draft").status_code == 404, "she may not use this agent"
    assert not Message.objects.exists()


@pytest.mark.django_db
def test_samples_come_from_the_last_run_or_examples(ada, plan):  # noqa: F811
    steps = {
        "first": {"agent": "loud", "message": "{{ inputs.city }}"},
        "then": {"agent": "loud", "message": "{{ steps.first.text }}"},
    }
    inputs = {"type": "object", "properties": {"city": {"type": "string", "examples": ["Lisbon"]}}}
    made = plan(steps, inputs=inputs)
    content = {"inputs": inputs, "steps": steps}

    def sampled(step: str) -> dict[str, str]:
        return {one.name: one.text for one in samples_of(content, step, ada.principal, made.slug)}

    assert sampled("first") == {"inputs.city": "Lisbon"}
    task = Task.objects.get(pk=telling.begun(ada, made, "go", parts=[{"data": {"city": "Oslo"}}]).task)
    begin_run(task, made.current_version)
    child = telling.finished(ada, Agent.objects.get(slug="loud"), {"said.txt": telling.text("OSLO")})
    Step.objects.filter(run=task.pk, key="first").update(state="done", task=child.task)
    assert (sampled("first"), sampled("then")) == ({"inputs.city": "Oslo"}, {"steps.first": "OSLO"})


@pytest.mark.django_db
@pytest.mark.parametrize("slug", list(starts()))
def test_each_start_is_a_valid_plan(ada, ada_browser, agents, slug):  # noqa: F811
    start = starts()[slug]
    chosen = {role: ("loud", "counting")[number % 2] for number, role in enumerate(start.roles)}
    page = ada_browser.get("/plans/new", {"start": slug, **chosen})
    definition = PlanDefinition.from_yaml(page.context["form"]["definition"].value())
    assert {step.agent for step in definition.steps.values()} == set(chosen.values())
    validate(definition, "", ada.principal)


@pytest.mark.django_db
def test_starts_use_only_visible_agents(ada_browser, agents):  # noqa: F811
    Agent.objects.filter(slug="counting").update(access=Agent.Access.GROUPS)
    assert 'value="counting"' not in ada_browser.get("/plans/new").text
    page = ada_browser.get("/plans/new", {"start": "empty", "agent": "counting"})
    assert "agent: counting" not in page.context["form"]["definition"].value()


@pytest.mark.django_db
def test_session_becomes_a_plan_and_says_what_it_lacks(ada, ada_browser, bob_browser, agents):  # noqa: F811
    loud, counting, hidden = (Agent.objects.get(slug=slug) for slug in ("loud", "counting", "brittle"))
    sheet = telling.raw(b"a,b", "text/csv", filename="a.csv")
    first = telling.finished(ada, loud, {"x.txt": telling.text("X")}, parts=[{"text": "Read {{ this }}"}, sheet])
    context = Context.objects.get(pk=first.context)
    for agent, words in ((counting, "Count it"), (hidden, "Break it")):
        switch_agent(ada.principal, context.pk, agent)
        telling.finished(ada, agent, words=words, contextId=context.context_id, parts=[{"text": words}])
    switch_agent(ada.principal, context.pk, loud)
    telling.begun(ada, loud, "Not yet", contextId=context.context_id)
    Agent.objects.filter(pk=hidden.pk).update(access=Agent.Access.GROUPS)
    page = ada_browser.get("/plans/new", {"session": str(context.pk)})
    content = read_yaml(page.context["form"]["definition"].value())
    one, two = content["steps"].values()
    assert (one["agent"], one["attach"]) == ("loud", ["inputs.files"])
    assert templating.render(one["message"], {}) == "Read { { this }}"
    assert (two["agent"], two["attach"]) == ("counting", ["steps.step_1.artifacts"])
    assert "{{ steps.step_1.text }}" in two["message"]
    left_out = " ".join(page.context["beginning"].left_out)
    assert [words in left_out for words in ("Break it", "Not yet", "files of")] == [True] * 3
    assert not Agent.objects.filter(kind="plan").exists()
    assert bob_browser.get("/plans/new", {"session": str(context.pk)}).context.get("form") is None


def test_key_of_any_signs_can_be_renamed():
    text = "name: A\nsteps:\n  a(b: {agent: loud, message: x}\n  c: {agent: loud, message: y, depends_on: [a(b]}\n"
    assert needs(edited("rename", "a(b", text, key="first").text)["c"] == {"first"}


def test_long_text_is_refused_before_its_edit():
    with pytest.raises(InvalidParams, match="larger than"):
        edited("delete", text=STORY + "#" * MOST_BYTES)
