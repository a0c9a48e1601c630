"""The router passes a message on to the best agent, and answers what fits none."""

import pytest

import db as database
from apps.accounts.principals import ANONYMOUS
from apps.agents.models import Agent
from apps.agents.negotiation import Measurements, WorkRequest, assess
from apps.agents.registration import register_hosted
from apps.agents.search import SkillMatch
from apps.engine import send
from apps.engine.send import wait_until_settled
from apps.features.routing.choosing import DelegatedTask, choose, listing, made_for, misnamed, situation_of
from apps.features.routing.router import FORMER_ASSISTANT, register_house_agents
from apps.record import projection
from apps.record.models import Context, Event, Message, Task

pytestmark = pytest.mark.django_db(transaction=True)


def fitting(slug, score, **fields):
    skill = {"id": slug, "name": slug, "description": f"{slug}.", "tags": [slug]}
    told = {"name": slug.title(), "description": f"Does {slug}.", "skills": [skill]}
    return assess(
        WorkRequest("x"), Agent(slug=slug, **told | fields), Measurements(), [SkillMatch(skill, score, (slug,))]
    )


def chosen(text, *scores, earlier=None):
    ranked = sorted((fitting(slug, score) for slug, score in scores), key=lambda one: one.rank)
    before = DelegatedTask(earlier, earlier.title(), "the task before", True) if earlier else None
    return choose(text, ranked, before)


def test_a_message_goes_to_whom_it_names_or_who_worked_before_or_who_fits_best():
    table = [
        ("paint", [("cook", 0.31), ("paint", 0.5)], None, "paint", False),
        ("@cook paint", [("cook", 0.0), ("paint", 0.9)], None, "cook", False),
        ("make it shorter", [("cook", 0.0), ("paint", 0.1)], "cook", "cook", True),
        ("and a soup", [("cook", 0.0), ("paint", 0.59)], "cook", "cook", True),
        ("paint a picture", [("cook", 0.2), ("paint", 0.6)], "cook", "paint", False),
        ("paint and cook", [("cook", 0.7), ("paint", 0.6)], "cook", "cook", True),
        ("@paint this", [("cook", 0.9), ("paint", 0.0)], "cook", "paint", False),
        ("paint", [("paint", 0.5)], "gone", "paint", False),
        ("write to me@cook or cook", [("cook", 0.4)], None, "cook", False),
    ]
    for text, scores, earlier, slug, refines in table:
        choice = chosen(text, *scores, earlier=earlier)
        assert choice, text
        assert (choice.slug, list(choice.refines)) == (slug, ["the task before"] if refines else []), text
    assert "A 0.90 (shares the words a); B 0.50" in chosen("x", ("a", 0.9), ("b", 0.5)).why


def test_nobody_is_chosen_for_greetings_and_what_fits_nobody():
    assert chosen("bake", ("cook", 0.29)) is None
    for greeting in ("Hello", "hi, thanks!", "Hello, what can you do?"):
        assert chosen(greeting, ("hello", 0.9), earlier="hello") is None


def test_a_name_without_an_agent_is_told_which_there_are():
    known = [fitting("gone", 0.9, health=Agent.Health.UNAVAILABLE), fitting("cook", 0.0)]
    assert misnamed("@cook bake", known) is None
    assert misnamed("ask @secret", known) is None
    for name in ("secret", "gone"):
        assert misnamed(f"@{name} bake", known) == name
        assert "@cook: Does cook." in listing(name, known)
        assert "@gone:" not in listing(name, known)


def test_files_without_words_go_to_whom_they_are_made_for():
    table, anything = fitting("table", 0.0, input_modes=["text/csv"]), fitting("echo", 0.0, input_modes=["*/*"])
    assert made_for(["text/csv"], [anything, table]).slug == "table"
    assert made_for(["image/png"], [anything, table]) is None


def test_an_agent_that_passes_messages_on_is_chosen_only_by_name():
    desk = fitting("desk", 0.9)
    desk.agent.skills[0]["tags"] = ["router"]
    ranked = [desk, fitting("cook", 0.5)]
    assert choose("bake", ranked).slug == "cook"
    assert choose("@desk bake", ranked).slug == "desk"


def test_an_agent_that_cannot_work_is_not_chosen():
    assert choose("x", [fitting("gone", 0.9, health=Agent.Health.UNAVAILABLE)]) is None


@pytest.fixture
def cast(worker, echo, countdown):
    register_house_agents()
    register_hosted("club", "examples.agents.echo:Echo", access=Agent.Access.GROUPS)
    return Agent.objects.get(slug="router")


async def routed(principal, agent, message):
    sent = await send.send(principal, agent, message)
    return await wait_until_settled(sent.context, sent.task, sent.index, lambda task: task, sent.since)


def words(task):
    return [part["text"] for part in task.status_message["parts"]]


def children_of(task):
    return list(Task.objects.filter(parent=task.pk).select_related("agent"))


async def test_an_answer_that_was_passed_on_is_that_of_its_agent(ada, cast, said):
    task = await routed(ada.principal, cast, said("count down from 2, please"))
    assert (task.state, words(task)) == ("completed", ["Lift-off."])
    [child] = await database.run(children_of, task)
    assert (child.agent.slug, child.state, child.owner_id) == ("countdown", "completed", ada.pk)

    def look():
        artifacts = [(one.name, [part["text"] for part in one.parts]) for one in task.artifacts.all()]
        assert artifacts == [("countdown", ["2\n", "1\n"])]
        assert Message.objects.get(task=task, role=Message.Role.AGENT).agent == child.agent
        progress = [one.payload["progress"] for one in Event.objects.filter(task=task, payload__has_key="progress")]
        assert "(shares the words count" in progress[0]["detail"]
        assert projection.differences(task.context_id) == []

    await database.run(look)


async def test_an_agent_cannot_speak_for_one_that_it_did_not_call(ada, cast, said):
    own = await database.run(register_hosted, "imitator", "tests.engine.calling_agents:Imitator")
    task = await routed(ada.principal, own, said("count down from 1"))
    author = await database.run(Message.objects.select_related("agent").get, task=task, role=Message.Role.AGENT)
    assert author.agent == own


async def test_it_chooses_among_listed_agents(ada, cast, said):
    await database.run(lambda: Agent.objects.filter(slug="countdown").update(listed=False))
    for text in ("count down from 2, please", "@countdown 2"):
        task = await routed(ada.principal, cast, said(text))
        assert task.state == "completed"
        assert "@countdown:" not in words(task)[0]
        assert await database.run(children_of, task) == []


async def test_a_conversation_stays_with_its_agent_until_it_asks_for_another(ada, cast, said):
    first = await routed(ada.principal, cast, said("count down from 2, please"))
    context = await database.run(lambda: Context.objects.get(pk=first.context_id).context_id)
    children = []
    for text in ("now from 1", "@echo hello", "and again"):
        task = await routed(ada.principal, cast, said(text, contextId=context))
        [child] = await database.run(children_of, task)
        children.append(child)
    assert [child.agent.slug for child in children] == ["countdown", "echo", "echo"]
    [begun] = await database.run(children_of, first)
    assert [child.references for child in children] == [[str(begun.pk)], [], [str(children[1].pk)]]


async def test_a_question_of_the_chosen_agent_is_asked_and_answered_through_it(ada, cast, said):
    asking = await routed(ada.principal, cast, said("count down from 99999999"))
    assert asking.state == "input-required"
    assert "Which number shall I start from?" in words(asking)[0]
    ended = await routed(ada.principal, cast, said("2", taskId=str(asking.pk)))
    assert (ended.state, words(ended)[-1]) == ("completed", "Lift-off.")
    assert len(await database.run(children_of, ended)) == 1


async def test_it_works_in_its_callers_name(ada, cast, said, hello_for_all):
    helped = await routed(ada.principal, cast, said("@club hello"))
    assert helped.state == "completed"
    assert "There is no agent @club" in words(helped)[0]
    assert "@club:" not in words(helped)[0]
    await database.run(Agent.objects.filter(pk=cast.pk).update, access=Agent.Access.PUBLIC)
    agent = await database.run(Agent.objects.get, pk=cast.pk)
    nobody = await routed(ANONYMOUS, agent, said("@nobody there?"))
    assert "@hello:" in words(nobody)[0]
    assert "@echo:" not in words(nobody)[0]


@pytest.fixture
def hello_for_all(db):
    return register_hosted("hello", "examples.agents.hello:Hello", access=Agent.Access.PUBLIC)


async def test_a_turn_that_is_taken_again_stays_with_what_it_began(ada, cast, said):
    task = await routed(ada.principal, cast, said("count down from 1"))
    [child] = await database.run(children_of, task)
    said_before = await database.run(lambda: task.messages.first().message_id)
    situation = await database.run(situation_of, task.pk, said_before)
    assert situation.current == DelegatedTask("countdown", "Countdown", str(child.pk), True)
    assert situation.previous is None


def test_registering_leaves_what_people_changed(echo):
    register_house_agents()
    Agent.objects.filter(slug="router").update(access=Agent.Access.PUBLIC)
    Agent.objects.filter(slug="assistant").update(handler=FORMER_ASSISTANT)
    register_house_agents()
    assert Agent.objects.get(slug="router").access == Agent.Access.PUBLIC
    assert Agent.objects.get(slug="assistant").handler == "apps.features.routing.assistant:Assistant"
    Agent.objects.update(handler=echo.handler, name="My own")
    register_house_agents()
    assert set(Agent.objects.filter(slug__in=["router", "assistant"]).values_list("name", flat=True)) == {"My own"}
