"""One message goes to several answerers in branches, and a choice counts."""

from __future__ import annotations

from dataclasses import replace
from http import HTTPStatus
from types import SimpleNamespace
from typing import Any

import pytest

from apps.accounts.people.erasure import erase
from apps.agents import versions
from apps.conversations.forks.models import ChosenLeaf
from apps.conversations.queue.messages import send_due
from apps.optional.comparing import comparing, counting
from apps.optional.comparing.comparing import Answerer, State
from apps.optional.comparing.models import Comparison, Side
from apps.optional.projects.models import Project
from apps.optional.projects.projects import save
from apps.record.errors import InvalidFields, KeyUsed, UnsupportedOperation
from apps.record.models import Context, Message
from parley import db
from tests.engine.delegating import until
from tests.working import worked_on

pytestmark = pytest.mark.django_db(transaction=True)

PARTS = [{"text": "Name three rivers"}]


def begun(person: Any, *agents: Any, key: str = "k", **how: Any) -> Comparison:
    how = how if "answer" in how else {"parts": PARTS, **how}
    return comparing.begin(person.principal, [Answerer(one) for one in agents], key=key, **how)[0]


def chosen(person: Any, row: Comparison, choice: str, position: int = 0) -> Comparison:
    return comparing.choose(person.principal, row, choice, comparing.side_at(row, position) if position else None)


async def test_each_answerer_gets_the_message_once(ada, echo, upper, worker):
    row = await db.run(begun, ada, echo, upper)
    assert (await db.run(begun, ada, echo, upper)).pk == row.pk
    await until(lambda: all(one.state == State.DONE for one in comparing.shown_sides(row)))
    sides = await db.run(comparing.shown_sides, row)
    assert [one.turn.text for one in sides] == ["Name three rivers", "NAME THREE RIVERS"]
    branches = [one.row.session_id for one in sides]
    assert await db.run(Message.objects.filter(context__in=branches, role="user").count) == 2
    assert {one.row.session.parent_id for one in sides} == {row.session_id}


async def test_message_survives_a_kill_after_the_commit(ada, echo, upper, monkeypatch):
    monkeypatch.setattr(comparing, "QUEUES", SimpleNamespace(publish=lambda key: None))
    row = await db.run(begun, ada, echo, upper)
    for _ in range(2):
        for side in await db.run(lambda: list(row.sides.all())):
            await send_due(side.session_id)
    said = Message.objects.filter(context__in=row.sides.values("session"), role="user")
    assert await db.run(said.count) == 2


async def test_new_session_and_its_branches_are_temporary(ada_calls, echo, upper):
    asked = {"text": "hi", "answerers": [{"agent": "echo"}, {"agent": "upper"}], "temporary": True}
    made = await ada_calls.post("/comparisons", asked)
    assert made.status == HTTPStatus.CREATED
    assert await db.run(lambda: [one.is_temporary for one in Context.objects.all()]) == [True] * 3
    refused = await ada_calls.post("/comparisons", {**asked, "sessionId": made.body["sessionId"]})
    assert refused.status == HTTPStatus.UNPROCESSABLE_ENTITY


def test_branches_are_in_the_project(ada, echo, upper):
    trip = save(ada.principal, Project(name="Trip"))
    row = begun(ada, echo, upper, project=trip.pk)
    assert set(Context.objects.values_list("project", flat=True)) == {trip.pk}
    assert begun(ada, echo, upper, project=trip.pk).pk == row.pk
    with pytest.raises(KeyUsed):
        begun(ada, echo, upper)


def test_refused_comparison_leaves_nothing(ada, echo, upper, monkeypatch):
    monkeypatch.setattr(comparing.Side.objects, "bulk_create", lambda rows: 1 / 0)
    sessions = Context.objects.count()
    with pytest.raises(ZeroDivisionError):
        begun(ada, echo, upper)
    assert not Comparison.objects.exists()
    assert Context.objects.count() == sessions


async def test_answer_is_a_side_of_its_comparison(ada, echo, upper, said, worker):
    task = await worked_on(ada.principal, echo, said("rivers"))
    answer = await db.run(Message.objects.get, task=task, role="agent")
    row = await db.run(lambda: begun(ada, upper, session=task.context_id, answer=answer.pk))
    await until(lambda: all(one.state == State.DONE for one in comparing.shown_sides(row)))
    first, second = await db.run(comparing.shown_sides, row)
    assert (first.row.session_id, first.turn.text) == (task.context_id, "rivers")
    assert (second.row.session.forked_at, second.turn.text) == (0, "RIVERS")


@pytest.mark.parametrize("count", [1, 5])
def test_two_to_four_answerers_are_compared(ada, echo, count):
    with pytest.raises(InvalidFields):
        begun(ada, *[echo] * count)


def test_key_is_for_one_comparison(ada, echo, upper):
    begun(ada, echo, upper)
    with pytest.raises(KeyUsed):
        begun(ada, upper, echo)


def test_chosen_branch_is_where_one_goes_on(ada, echo, upper):
    row = begun(ada, echo, upper)
    chosen(ada, row, "one", 2)
    assert ChosenLeaf.objects.get(user=ada).leaf_id == row.sides.get(position=2).session_id
    assert [one.is_chosen for one in row.sides.all()] == [False, True]


async def test_choice_stays_after_the_next_message(ada, echo, upper, said, worker):
    row = await db.run(begun, ada, echo, upper)
    await until(lambda: all(one.state == State.DONE for one in comparing.shown_sides(row)))
    await db.run(chosen, ada, row, "one", 1)
    await db.run(chosen, ada, row, "both")
    branch = await db.run(lambda: row.sides.first().session)
    await worked_on(ada.principal, echo, said("and more", contextId=branch.context_id))
    with pytest.raises(UnsupportedOperation):
        await db.run(chosen, ada, row, "one", 2)
    assert (await db.run(Comparison.objects.get)).choice == "both"


def test_plain_side_has_no_options_of_another(ada, echo):
    sides = [Answerer(echo, options={"language": "fi"}), Answerer(echo)]
    row = comparing.begin(ada.principal, sides, parts=PARTS, key="k")[0]
    assert [one.session.options for one in row.sides.all()] == [{"language": "fi"}, {}]


def test_plain_side_has_its_projects_options(ada, echo, upper):
    project = save(ada.principal, Project(name="Trip", agent=upper, options={"language": "fi"}))
    row = begun(ada, echo, upper, project=project.pk)
    assert [one.session.options for one in row.sides.all()] == [{}, {"language": "fi"}]


def test_choices_count_for_agents_and_versions(ada, echo, upper):
    old = echo.current_version or versions.save_version(echo, {"kind": "hosted", "handler": "a"})
    new = versions.save_version(echo, {"kind": "hosted", "handler": "b"})
    for number, choice in enumerate([("one", 1), ("one", 1), ("one", 2), ("both",), ("neither",)]):
        row = begun(ada, echo, upper, key=f"k{number}")
        chosen(ada, row, *choice)
    row = begun(ada, echo, upper, key="open")
    Side.objects.filter(comparison=row).update(is_chosen=False)
    pair = comparing.begin(ada.principal, [Answerer(echo, old), Answerer(echo, new)], parts=PARTS, key="versions")[0]
    chosen(ada, pair, "one", 2)
    found = counting.preferences(echo)
    assert (found.whole.wins, found.whole.losses, found.whole.ties) == (2, 1, 2)
    assert dict(found.versions)[old.number].losses == 1
    low, high = found.whole.interval
    assert (found.whole.share, round(low, 3), round(high, 3)) == (0.6, 0.231, 0.882)


def test_erasure_removes_the_choices(ada, echo, upper):
    chosen(ada, begun(ada, echo, upper), "one", 1)
    erase(ada)
    assert counting.preferences(echo).is_empty


def test_archive_of_a_person_has_comparisons(ada, bob, echo, upper):
    chosen(ada, begun(ada, echo, upper), "one", 1)
    [(name, _, content)] = counting.personal_data(ada)
    assert (name, content["comparisons"][0]["sides"][0]["chosen"]) == ("comparisons.json", True)
    [(_, _, content)] = counting.personal_data(bob)
    assert content == {"comparisons": []}


async def test_api_compares_and_chooses(ada_calls, echo, upper):
    asked = {"text": "rivers", "answerers": [{"agent": echo.slug}, {"agent": upper.slug}], "blind": True}
    made = await ada_calls.post("/comparisons", asked)
    assert made.status == 201, made.body
    one = f"/comparisons/{made.body['id']}"
    listed = (await ada_calls.get("/comparisons")).body["items"][0]
    assert {side["agent"] for side in (*made.body["sides"], *listed["sides"])} == {None}
    refused = await ada_calls.put(f"{one}/choice", {"choice": "both", "position": 1})
    assert refused.status == 422
    done = await ada_calls.put(f"{one}/choice", {"choice": "one", "position": 2})
    assert [side["isChosen"] for side in done.body["sides"]] == [False, True]
    assert {side["agent"] for side in done.body["sides"]} == {echo.slug, upper.slug}
    assert (await ada_calls.get(one)).body == done.body


async def test_session_of_others_is_not_found(ada_calls, bob_calls, echo, upper):
    answerers = {"text": "rivers", "answerers": [{"agent": echo.slug}, {"agent": upper.slug}]}
    made = await ada_calls.post("/comparisons", answerers)
    session = (await ada_calls.get("/sessions")).body["items"][-1]["id"]
    assert (await bob_calls.post("/comparisons", {**answerers, "sessionId": session})).status == 404
    assert (await bob_calls.get(f"/comparisons/{made.body['id']}")).status == 404
    project = (await ada_calls.post("/projects", {"name": "Hers"})).body["id"]
    assert (await bob_calls.post("/comparisons", {**answerers, "project": project})).status in (404, 422)
    assert (await ada_calls.post("/comparisons", {**answerers, "sessionId": session})).status == 201


def test_blind_page_hides_names_until_the_choice(ada, ada_browser, echo, upper):
    row = begun(ada, echo, upper, blind=True)
    address = f"/comparisons/{row.pk}"
    before = ada_browser.get(address).content.decode()
    assert "?nameless" in before
    assert "Upper" not in before.partition("comparing-sides")[2].partition("</main>")[0]
    answer = ada_browser.post(f"{address}/choose", {"choice": "1"})
    assert answer["Location"] == f"/sessions/{row.sides.get(position=1).session_id}"
    assert "?nameless" not in ada_browser.get(address).content.decode()


def test_only_our_pages_frame_a_session(ada, ada_browser, echo, upper):
    session = begun(ada, echo, upper).sides.first().session_id
    framed, whole = ada_browser.get(f"/sessions/{session}/framed"), ada_browser.get(f"/sessions/{session}")
    assert "frame-ancestors 'self'" in framed["Content-Security-Policy"]
    assert "frame-ancestors 'none'" in whole["Content-Security-Policy"]


def test_comparisons_go_with_their_workspace(ada, echo, upper):
    begun(ada, echo, upper).workspace.close()
    assert comparing.sweep() == 1
    assert not Comparison.objects.exists()


def test_key_sees_comparisons_of_its_agents_alone(ada, echo, upper):
    row = begun(ada, echo, upper)
    seen = lambda *slugs: Comparison.objects.visible_to(replace(ada.principal, agents=frozenset(slugs)))  # noqa: E731
    assert list(seen("echo", "upper")) == [row]
    assert not seen("echo").exists()


async def test_list_reads_no_answers(ada, ada_calls, echo, upper, monkeypatch):
    row = await db.run(begun, ada, echo, upper)
    whole = await ada_calls.get(f"/comparisons/{row.pk}")
    monkeypatch.setattr(comparing, "shown_sides", None)
    [found] = (await ada_calls.get("/comparisons")).body["items"]
    assert [one["agent"] for one in found["sides"]] == ["echo", "upper"]
    assert whole.body["sides"][0].items() > found["sides"][0].items()
