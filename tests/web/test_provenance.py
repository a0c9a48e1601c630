"""The page that says what led to an artifact: its picture, its lists, and its JSON."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Sequence
from html import unescape
from typing import Any
from urllib.parse import quote

import pytest
from django.test import Client

from agentkit import Artifact as Made
from agentkit import Completed
from apps.accounts.models import User
from apps.agents.models import Agent
from apps.conversations import clearing, intake
from apps.conversations.forking import fork
from apps.conversations.intake import Receipt
from apps.conversations.models import Artifact, Context
from apps.conversations.provenance.graphs import Kind, Link, Node, Provenance
from apps.conversations.provenance.walking import provenance_of
from apps.web import provenance
from apps.web.provenance_graphs import MOST_BOXES, WORDS, Picture, drawn
from tests.web import telling
from tests.working import begin, end

pytestmark = pytest.mark.django_db(transaction=True)

CSV = telling.raw(b"a,b\n1,2\n", "text/csv", filename="screening.csv")
Do = Callable[..., Receipt]


def address(receipt: Receipt, name: str, session: uuid.UUID | None = None) -> str:
    return f"/sessions/{session or receipt.context}/artifacts/{receipt.task}/{quote(name)}/provenance"


def picture(user: User, receipt: Receipt, name: str) -> Picture:
    row = Artifact.objects.select_related("task__context").get(task=receipt.task, artifact_id=name)
    return drawn(provenance_of(user.principal, row))


def lines(found: Picture) -> set[tuple[str, str, str]]:
    return {(line.begins.node.name, line.word, line.ends.node.name) for line in found.lines}


@pytest.fixture
def do(ada: User, echo: Agent) -> Do:
    def done(
        words: str,
        made: str = "",
        *files: telling.JSON,
        agent: Agent = echo,
        parent: Receipt | None = None,
        refers: Sequence[Receipt] = (),
    ) -> Receipt:
        message = telling.said(words, parts=[{"text": words}, *files], referenceTaskIds=[str(r.task) for r in refers])
        known: dict[str, Any] = {"parent": parent.task, "sender": f"task:{parent.task}"} if parent else {}
        receipt = intake.accept(ada.principal, agent, message, **known)
        if made:
            artifact = Made([{"text": f"<b>{made}</b>"}], name=made, artifact_id=made)
            end(begin(receipt.run), Completed("Done.", [artifact]))
        return receipt

    return done


@pytest.fixture
def chain(do: Do, hello: Agent) -> list[Receipt]:
    first = do("Look at this", "cleaned.csv", CSV)
    second = do("Go on", "effects.json", refers=[first], agent=hello)
    return [first, second, do("Write <i>it</i> up", "a/b report", refers=[second])]


def test_a_page_shows_the_chain_as_a_picture_as_lists_and_as_json(ada_browser: Client, chain: list[Receipt]) -> None:
    answer = ada_browser.get(address(chain[2], "a/b report"))
    assert answer.status_code == 200
    drawing, _, rest = answer.text.partition('<svg class="graph"')[2].partition('<h2 id="list-title">')
    for receipt in chain:
        assert f'href="/tasks/{receipt.task}"' in drawing
        assert f'href="/tasks/{receipt.task}"' in rest
    for name in ("screening.csv", "cleaned.csv", "effects.json", "a/b report", "Done · version 1"):
        assert name in drawing
    assert f'href="{address(chain[1], "effects.json")}"' in drawing
    assert f'href="/sessions/{chain[0].context}#m-1"' in drawing
    assert "Write &lt;i&gt;it&lt;/i&gt; up" in answer.text
    assert "<i>it</i>" not in answer.text
    assert "style=" not in drawing, "the policy of pages would leave it out"
    assert '"wasGeneratedBy"' in unescape(rest)


def test_the_whole_json_is_what_its_button_copies(ada_browser: Client, ada: User, chain: list[Receipt]) -> None:
    page = ada_browser.get(address(chain[2], "a/b report")).text
    [copied] = re.findall(r'data-copy="([^"]*)"', page)
    answer = ada_browser.get(unescape(copied))
    row = Artifact.objects.select_related("task__context").get(task=chain[2].task)
    assert answer["Content-Type"].startswith("application/json")
    assert answer.json() == provenance_of(ada.principal, row).json


def test_long_json_is_cut_in_the_page(
    ada_browser: Client, chain: list[Receipt], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(provenance, "LONGEST_SHOWN", 100)
    page = ada_browser.get(address(chain[2], "a/b report")).text
    assert "This is its beginning." in page
    assert "wasGeneratedBy" not in page


def test_of_very_many_links_the_first_are_listed(
    ada_browser: Client, chain: list[Receipt], monkeypatch: pytest.MonkeyPatch
) -> None:
    there = ada_browser.get(address(chain[2], "a/b report")).text
    assert "are listed; the JSON has all" not in there
    monkeypatch.setattr(provenance, "MOST_LINKS", 3)
    cut = ada_browser.get(address(chain[2], "a/b report")).text
    assert "The first 3 are listed; the JSON has all." in cut
    assert cut.count("<tr>") < there.count("<tr>")


def test_an_artifact_s_panel_leads_to_it(ada_browser: Client, chain: list[Receipt]) -> None:
    look = ada_browser.get(f"/sessions/{chain[0].context}/artifacts/{chain[0].task}/cleaned.csv/look").text
    [found] = re.findall(r'class="artifact-provenance" href="([^"]*)"', look)
    assert ada_browser.get(found).status_code == 200


def test_somebody_elses_artifact_is_not_found(
    ada_browser: Client, bob_browser: Client, client: Client, chain: list[Receipt]
) -> None:
    place = address(chain[0], "cleaned.csv")
    answers = [browser.get(place).status_code for browser in (ada_browser, bob_browser, client)]
    assert answers == [200, 404, 302]
    assert ada_browser.get(address(chain[0], "other")).status_code == 404
    assert ada_browser.get(address(chain[0], "cleaned.csv", chain[1].context)).status_code == 404


def test_a_fork_shows_it_of_what_it_goes_on_from(ada_browser: Client, ada: User, chain: list[Receipt]) -> None:
    talk = Context.objects.get(pk=chain[1].context)
    child = fork(ada.principal, talk, talk.last_event, reason="fork")
    page = ada_browser.get(address(chain[1], "effects.json", child.pk)).text
    assert "screening.csv" in page


def test_what_was_deleted_is_a_box_without_a_link(ada_browser: Client, ada: User, chain: list[Receipt]) -> None:
    clearing.clear_session(ada.principal, chain[0].context)
    page = ada_browser.get(address(chain[1], "effects.json")).text
    assert "Deleted, or not yours" in page
    assert f"/tasks/{chain[0].task}" not in page


def test_the_picture_goes_from_what_was_given_to_the_artifact(ada: User, chain: list[Receipt]) -> None:
    found = picture(ada, chain[2], "a/b report")
    assert lines(found) == {
        ("Look at this", "asked for", "Echo"),
        ("screening.csv", "was given to", "Echo"),
        ("Echo", "delivered", "cleaned.csv"),
        ("cleaned.csv", "is referred to by", "Hello"),
        ("Go on", "asked for", "Hello"),
        ("Hello", "delivered", "effects.json"),
        ("effects.json", "is referred to by", "Echo"),
        ("Write <i>it</i> up", "asked for", "Echo"),
        ("Echo", "delivered", "a/b report"),
    }
    assert all(line.begins.x < line.ends.x for line in found.lines)
    assert len({(box.x, box.y) for box in found.boxes}) == len(found.boxes)
    assert all(box.x < found.width and box.y < found.height for box in found.boxes)
    [here] = [box for box in found.boxes if box.is_here]
    assert (here.node.name, here.href) == ("a/b report", "")


def test_what_was_handed_down_is_drawn_from_where_it_came_from(ada: User, do: Do, hello: Agent) -> None:
    whole = do("Do all of it", "", CSV)
    first = do("The first step", "cleaned.csv", CSV, parent=whole, agent=hello)
    last = do("The second step", "effects.json", parent=whole, refers=[first], agent=hello)
    end(begin(whole.run), Completed("Done.", [Made([{"text": "report"}], name="report", artifact_id="report")]))
    up = picture(ada, last, "effects.json")
    assert ("screening.csv", "was given to", "Hello") in lines(up)
    assert ("screening.csv", "was given to", "Echo") in lines(up)
    assert [line.ends.node.id for line in up.lines if line.kind == Link.CALLED_FOR_BY] == [f"task:{first.task}"]
    down = picture(ada, whole, "report")
    assert {("cleaned.csv", "was handed to", "Echo"), ("effects.json", "was handed to", "Echo")} <= lines(down)
    assert all(line.begins.x < line.ends.x for line in (*up.lines, *down.lines))


def test_a_very_large_picture_is_bounded_and_quickly_drawn() -> None:
    graph = Provenance("artifact:0", 2_000)
    for number in range(MOST_BOXES):
        about = {"taskId": str(uuid.uuid4()), "sessionId": str(uuid.uuid4()), "artifactId": "one"}
        made = {**about, "size": 1}
        graph.add(Node(f"artifact:{number}", Kind.ARTIFACT, "one", None, made))
        graph.add(Node(f"task:{number}", Kind.TASK, "Echo", None, {**about, "state": "completed", "agent": "echo"}))
        graph.link(f"artifact:{number}", Link.DELIVERED_BY, f"task:{number}")
        if number:
            graph.link(f"task:{number - 1}", Link.REFERS_TO, f"artifact:{number}")
    found = drawn(graph)
    assert (len(found.boxes), found.is_cut_off) == (MOST_BOXES, True)
    assert len({box.x for box in found.boxes}) == MOST_BOXES


def test_each_link_that_is_drawn_has_a_word_and_each_that_is_listed_too() -> None:
    assert set(provenance.SAID) == set(Link)
    assert set(WORDS) <= set(Link)
