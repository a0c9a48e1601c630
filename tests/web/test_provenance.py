"""The page about an artifact's provenance: picture, lists and JSON."""

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
from apps.engine import accept
from apps.engine.accept import Receipt
from apps.features.provenance.traversal import provenance_of
from apps.features.sessions import deletion
from apps.record.models import Artifact
from apps.web.sessions.provenance import Picture, provenance_picture
from tests.web import telling
from tests.working import begin, end

pytestmark = pytest.mark.django_db(transaction=True)

CSV = telling.raw(b"a,b\n1,2\n", "text/csv", filename="screening.csv")
Do = Callable[..., Receipt]


def address(receipt: Receipt, name: str, session: uuid.UUID | None = None) -> str:
    return f"/sessions/{session or receipt.context}/artifacts/{receipt.task}/{quote(name)}/provenance"


def picture(user: User, receipt: Receipt, name: str) -> Picture:
    row = Artifact.objects.select_related("task__context").get(task=receipt.task, artifact_id=name)
    return provenance_picture(provenance_of(user.principal, row))


def lines(found: Picture) -> set[tuple[str, str, str]]:
    return {(line.begins.node.name, line.word, line.ends.node.name) for line in found.lines}


@pytest.fixture
def do(ada: User, echo: Agent) -> Do:
    def done(
        words: str,
        made: str,
        *files: telling.JSON,
        agent: Agent = echo,
        refers: Sequence[Receipt] = (),
        parent: Any = None,
    ) -> Receipt:
        message = telling.said(words, parts=[{"text": words}, *files], referenceTaskIds=[str(r.task) for r in refers])
        known: dict[str, Any] = {"parent": parent, "sender": f"task:{parent}"} if parent else {}
        receipt = accept.accept(ada.principal, agent, message, **known)
        if not made:
            return receipt
        artifact = Made([{"text": f"<b>{made}</b>"}], name=made, artifact_id=made)
        end(begin(receipt.run), Completed("Done.", [artifact]))
        return receipt

    return done


@pytest.fixture
def chain(do: Do, hello: Agent) -> list[Receipt]:
    first = do("Look at this", "cleaned.csv", CSV)
    second = do("Go on", "effects.json", refers=[first], agent=hello)
    return [first, second, do("Write <i>it</i> up", "a/b report", refers=[second])]


def test_a_page_shows_the_chain_as_a_picture_as_lists_and_as_json(
    ada_browser: Client, ada: User, chain: list[Receipt]
) -> None:
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
    [copied] = re.findall(r'data-copy="([^"]*)"', answer.text)
    row = Artifact.objects.select_related("task__context").get(task=chain[2].task)
    assert ada_browser.get(unescape(copied)).json() == provenance_of(ada.principal, row).json


def test_what_is_somebody_elses_is_not_found_and_what_was_deleted_is_a_box_without_a_link(
    ada_browser: Client, bob_browser: Client, client: Client, chain: list[Receipt], ada: User
) -> None:
    place = address(chain[0], "cleaned.csv")
    answers = [browser.get(place).status_code for browser in (ada_browser, bob_browser, client)]
    assert answers == [200, 404, 302]
    assert ada_browser.get(address(chain[0], "other")).status_code == 404
    assert ada_browser.get(address(chain[0], "cleaned.csv", chain[1].context)).status_code == 404
    deletion.delete_session(ada.principal, chain[0].context)
    page = ada_browser.get(address(chain[1], "effects.json")).text
    assert "Deleted, or not yours" in page
    assert f"/tasks/{chain[0].task}" not in page


def test_the_picture_goes_from_what_was_given_to_the_artifact(ada: User, chain: list[Receipt]) -> None:
    found = picture(ada, chain[2], "a/b report")
    assert lines(found) == {
        ("Look at this", "asked for", "Echo"),
        ("screening.csv", "was given to", "Echo"),
        ("Echo", "delivered", "cleaned.csv"),
        ("cleaned.csv", "is referenced by", "Hello"),
        ("Go on", "asked for", "Hello"),
        ("Hello", "delivered", "effects.json"),
        ("effects.json", "is referenced by", "Echo"),
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
    first = do("The first step", "cleaned.csv", CSV, parent=whole.task, agent=hello)
    last = do("The second step", "effects.json", parent=whole.task, refers=[first], agent=hello)
    end(begin(whole.run), Completed("Done.", [Made([{"text": "report"}], name="report", artifact_id="report")]))
    up, down = picture(ada, last, "effects.json"), picture(ada, whole, "report")
    given = {("screening.csv", "was given to", "Hello"), ("screening.csv", "was given to", "Echo")}
    assert given <= lines(up)
    assert {("cleaned.csv", "was handed to", "Echo"), ("effects.json", "was handed to", "Echo")} <= lines(down)
    assert all(line.begins.x < line.ends.x for line in (*up.lines, *down.lines))
