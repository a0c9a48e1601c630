"""The router passes a message on to the best agent: by words, and by meaning where a model is configured."""

import asyncio
import json
import logging

import pytest

from apps.accounts.principals import ANONYMOUS
from apps.agents.models import Agent
from apps.agents.negotiation import Measurements, WorkRequest, assess
from apps.agents.registration import register_hosted
from apps.agents.search import SkillMatch
from apps.record import projection
from apps.record.models import Event, Message, Task
from apps.routing import embeddings, ranking
from apps.routing.choosing import DelegatedTask, choose, situation_of
from apps.routing.router import register_house_agents
from parley import db as database
from tests.engine.delegating import done
from tests.engine.delegating import words as told
from tests.outbound.receiving import answer, server

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


@pytest.mark.parametrize(
    ("text", "scores", "earlier", "slug", "refines"),
    [
        ("paint", [("cook", 0.31), ("paint", 0.5)], None, "paint", False),
        ("@cook paint", [("cook", 0.0), ("paint", 0.9)], None, "cook", False),
        ("make it shorter", [("cook", 0.0), ("paint", 0.1)], "cook", "cook", True),
        ("and a soup", [("cook", 0.0), ("paint", 0.59)], "cook", "cook", True),
        ("paint a picture", [("cook", 0.2), ("paint", 0.6)], "cook", "paint", False),
        ("paint and cook", [("cook", 0.7), ("paint", 0.6)], "cook", "cook", True),
        ("@paint this", [("cook", 0.9), ("paint", 0.0)], "cook", "paint", False),
        ("paint", [("paint", 0.5)], "gone", "paint", False),
        ("write to me@cook or cook", [("cook", 0.4)], None, "cook", False),
    ],
)
def test_named_earlier_or_best_agent_is_chosen(text, scores, earlier, slug, refines):
    choice = chosen(text, *scores, earlier=earlier)
    assert choice
    assert (choice.slug, list(choice.refines)) == (slug, ["the task before"] if refines else [])


@pytest.mark.parametrize("greeting", ["Hello", "hi, thanks!", "Hello, what can you do?"])
def test_nobody_is_chosen_for_greetings(greeting):
    assert chosen(greeting, ("hello", 0.9), earlier="hello") is None


def test_unfit_agents_are_not_chosen():
    assert chosen("bake", ("cook", 0.29)) is None
    assert choose("x", [fitting("gone", 0.9, health=Agent.Health.UNAVAILABLE)]) is None
    desk = fitting("desk", 0.9)
    desk.agent.skills[0]["tags"] = ["router"]  # those are chosen by name only
    ranked = [desk, fitting("cook", 0.5)]
    assert [choose(text, ranked).slug for text in ("bake", "@desk bake")] == ["cook", "desk"]


@pytest.fixture
def cast(worker, echo, countdown):
    register_house_agents()
    register_hosted("club", "examples.agents.echo:Echo", access=Agent.Access.GROUPS)
    return Agent.objects.get(slug="router")


def test_registering_leaves_what_people_changed(echo):
    register_house_agents()
    Agent.objects.filter(slug="router").update(access=Agent.Access.PUBLIC)
    register_house_agents()
    assert Agent.objects.get(slug="router").access == Agent.Access.PUBLIC
    Agent.objects.filter(slug="router").update(handler="apps.features.routing.router:Router")  # of a version before
    register_house_agents()
    assert Agent.objects.get(slug="router").handler == "apps.routing.router:Router"
    Agent.objects.update(handler=echo.handler, name="My own")
    register_house_agents()
    assert set(Agent.objects.filter(slug__in=["router", "assistant"]).values_list("name", flat=True)) == {"My own"}


def children_of(task):
    return list(Task.objects.filter(parent=task.pk).select_related("agent"))


async def test_answer_that_was_passed_on_names_its_author(ada, cast, said):
    task = await done(ada.principal, cast, said("count down from 2, please"))
    assert (task.state, told(task)) == ("completed", "Lift-off.")
    [child] = await database.run(children_of, task)
    assert (child.agent.slug, child.state, child.owner_id) == ("countdown", "completed", ada.pk)
    artifact = await task.artifacts.aget()
    assert (artifact.name, [part["text"] for part in artifact.parts]) == ("countdown", ["2\n", "1\n"])
    author = await Message.objects.select_related("agent").aget(task=task, role=Message.Role.AGENT)
    assert author.agent == child.agent
    progress = await Event.objects.filter(task=task, payload__has_key="progress").afirst()
    assert "(shares the words count" in progress.payload["progress"]["detail"]
    assert await database.run(projection.differences, task.context_id) == []
    situation = await database.run(lambda: situation_of(task.pk, task.messages.first().message_id))
    assert situation.current == DelegatedTask("countdown", "Countdown", str(child.pk), True)
    assert situation.previous is None


async def test_agent_cannot_speak_for_others(ada, cast, said):
    own = await database.run(register_hosted, "imitator", "tests.engine.calling_agents:Imitator")
    task = await done(ada.principal, own, said("count down from 1"))
    assert (await Message.objects.aget(task=task, role=Message.Role.AGENT)).agent_id == own.pk


async def test_conversation_stays_with_its_agent(ada, cast, said):
    tasks, children = [], []
    for text in ("count down from 2, please", "now from 1", "@echo hello", "and again"):
        where = {"contextId": str(tasks[0].context_id)} if tasks else {}
        tasks.append(await done(ada.principal, cast, said(text, **where)))
        children += await database.run(children_of, tasks[-1])
    assert [child.agent.slug for child in children] == ["countdown", "countdown", "echo", "echo"]
    assert [child.references for child in children] == [[], [str(children[0].pk)], [], [str(children[2].pk)]]


async def test_router_knows_only_its_callers_agents(ada, cast, said):
    await database.run(register_hosted, "hello", "examples.agents.hello:Hello", access=Agent.Access.PUBLIC)
    await Agent.objects.filter(slug="countdown").aupdate(listed=False)
    await Agent.objects.filter(pk=cast.pk).aupdate(access=Agent.Access.PUBLIC)
    router = await Agent.objects.aget(pk=cast.pk)
    for principal, text, listed, unlisted in (
        (ada.principal, "@club hello", "@echo:", "@club:"),
        (ada.principal, "@countdown 2", "@echo:", "@countdown:"),
        (ANONYMOUS, "@nobody there?", "@hello:", "@echo:"),
    ):
        task = await done(principal, router, said(text))
        assert (task.state, "There is no agent @" in told(task)) == ("completed", True)
        assert listed in told(task)
        assert unlisted not in told(task)
        assert await database.run(children_of, task) == []


# Meaning


def vector_of(text):
    """The test model's vector: two directions and a rest."""
    horse = any(word in text.lower() for word in ("horse", "pony", "echo"))
    number = any(word in text.lower() for word in ("count", "integer"))
    return [3.0 * horse, 2.0 * number, 0.1]


async def embed(request, writer):
    _, _, body = request.partition(b"\r\n\r\n")
    asked = json.loads(body)
    rows = [{"index": at, "embedding": vector_of(text)} for at, text in enumerate(asked["input"])]
    writer.write(answer(json.dumps({"data": rows[::-1]}).encode(), "200 OK", "Content-Type: application/json"))
    await writer.drain()


@pytest.fixture
def model(settings):
    """Settings of a model; tests set the URL. `LLM_BASE_URL`'s host may be called."""
    settings.EMBEDDING_MODEL, settings.LLM_API_KEY, settings.EMBEDDING_SECONDS = "embedder", "a-secret", 2.0
    embeddings._kept = {}
    return settings


async def ranked(ada, text):
    found = await ranking.rank_agents(ada.principal, WorkRequest(text))
    return {one.agent.slug: one for one in found}


async def test_meaning_is_blended_with_words(ada, echo, countdown, model):
    async with server(embed) as service:
        model.LLM_BASE_URL = f"{service.url}v1"
        found = await ranked(ada, "a pony")
        assert list(found) == ["echo", "countdown"]
        [match] = found["echo"].matches
        assert match.score == pytest.approx(0.5, abs=0.01)  # half of the similarity; no shared words
        assert "means something like it (1.00)" in match.reasons
        assert found["countdown"].subscores.skill < 0.05
        request = service.requests[0]
        assert request.startswith(b"POST /v1/embeddings HTTP/1.1")
        assert b"authorization: bearer a-secret" in request.lower()
        assert json.loads(request.partition(b"\r\n\r\n")[2])["model"] == "embedder"


async def slow(request, writer):
    await asyncio.sleep(30)


ROW = {"index": 0, "embedding": [1.0]}


TROUBLE = {
    "an error": answer(b"{}", "500 Internal Server Error"),
    "a redirect": answer(b"", "302 Found", "Location: http://127.0.0.1:1/"),
    "a tower of lists": answer(b"[" * 200_000),
    "too few": answer(json.dumps({"data": [ROW]}).encode()),
    "no direction": answer(json.dumps({"data": [ROW | {"embedding": [0.0]}] * 2}).encode()),
    "silence": slow,
}


@pytest.mark.parametrize("trouble", TROUBLE)
async def test_without_working_model_words_decide(ada, echo, model, caplog, trouble):
    model.EMBEDDING_SECONDS = 0.3
    async with server(TROUBLE[trouble]) as service:
        model.LLM_BASE_URL = service.url.rstrip("/")
        with caplog.at_level(logging.WARNING, "parley.engine"):
            found = await ranked(ada, "echo")
    assert found["echo"].subscores.skill > 0.4
    assert found["echo"].matches[0].likeness is None
    assert "compared by their words alone" in caplog.text
    assert "a-secret" not in caplog.text
