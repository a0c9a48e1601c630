"""An artifact's provenance is complete, and for its owner only."""

import base64
import hashlib
import uuid
from dataclasses import dataclass

import pytest
from django.conf import settings

from agentkit import Artifact as Made
from agentkit import Completed, InputRequired
from apps.agents.registration import register_hosted
from apps.conversations.forks.forking import fork
from apps.conversations.provenance import graph
from apps.conversations.provenance.graph import PROV_RELATIONS, PROV_TYPES, EdgeKind, NodeKind, Provenance
from apps.conversations.provenance.traversal import provenance_of
from apps.conversations.sessions import deletion
from apps.engine import accept
from apps.optional.archive.archiving import move_to_cold_storage
from apps.record.content import blobs
from apps.record.execution import Run
from apps.record.models import Artifact, Context, Message, Task
from tests.archive.archiving import put_away
from tests.working import begin, end

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.services("values are kept by each in its way")]

CSV = b"compound,effect\na,1.5\nb,2.5\n"
FILE = {"raw": base64.b64encode(CSV).decode(), "filename": "screening.csv", "mediaType": "text/csv"}


@dataclass
class Reading:
    graph: Provenance

    def ends(self, kind, later=""):
        found = {(one.later, one.earlier) for one in self.graph.edges if one.kind == kind}
        return {one for one in found if not later or one[0] == later}

    def of(self, kind):
        return {node.id: node.details for node in self.graph.nodes if node.kind == kind}


def task(receipt):
    return f"task:{receipt.task}"


def made(receipt, name):
    return f"artifact:{receipt.task}/{name}"


def row(receipt, name):
    return Artifact.objects.select_related("task__context").get(task=receipt.task, artifact_id=name)


def read(user, receipt, name, **options):
    return Reading(provenance_of(user.principal, row(receipt, name), **options))


def texts(*names):
    return [Made([{"text": f"what {name} says"}], name=name, artifact_id=name) for name in names]


@pytest.fixture
def ask(ada, echo):
    """Ada's task; completed if it has artifacts."""

    def asked(parts=None, artifacts=(), *, refers=(), parent=None, context=None, agent=echo, user=ada):
        more = {"referenceTaskIds": [str(one.task) for one in refers]} if refers else {}
        if context:
            more["contextId"] = context.context_id
        parts = blobs.store_large(parts or [{"text": "Begin"}])
        message = {"messageId": str(uuid.uuid4()), "role": "ROLE_USER", "parts": parts, **more}
        known = {"parent": parent.task, "sender": f"task:{parent.task}"} if parent else {}
        receipt = accept.accept(user.principal, agent, message, **known)
        if artifacts:
            end(begin(receipt.run), Completed("Done.", list(artifacts)))
        return receipt

    return asked


@pytest.fixture
def chain(ask):
    """Three tasks that each refer to the previous one; the first has a file."""
    first = ask([{"text": "Look at this"}, FILE], texts("cleaned"))
    second = ask([{"text": "Go on"}], texts("effects"), refers=[first])
    return [first, second, ask([{"text": "Write it up"}], texts("report"), refers=[second])]


def test_references_lead_to_the_first_file(ada, bob, chain):
    first, second, third = chain
    found = read(ada, third, "report")
    names = [(first, "cleaned"), (second, "effects"), (third, "report")]
    assert found.ends(EdgeKind.DELIVERED_BY) == {(made(one, name), task(one)) for one, name in names}
    assert found.ends(EdgeKind.REFERS_TO) == {
        (task(third), task(second)),
        (task(third), made(second, "effects")),
        (task(second), task(first)),
        (task(second), made(first, "cleaned")),
    }
    [file] = found.of(NodeKind.FILE).values()
    given = ("screening.csv", "text/csv", len(CSV), hashlib.sha256(CSV).hexdigest())
    assert (file["name"], file["mediaType"], file["size"], file["sha256"]) == given
    assert {later for later, _ in found.ends(EdgeKind.GIVEN)} == {task(first)}
    assert set(read(ada, second, "effects").of(NodeKind.TASK)) == {task(first), task(second)}, "nothing later is told"
    once, again = (read(ada, third, "report").graph.json for _ in range(2))
    assert once == again
    assert once["artifact"] == once["nodes"][0]["id"] == made(third, "report")
    assert Message.objects.count() == sum(node["kind"] == "message" for node in once["nodes"])
    assert (set(PROV_TYPES), set(PROV_RELATIONS)) == (set(NodeKind), set(EdgeKind)), "each has its term of PROV"
    with pytest.raises(Task.DoesNotExist):
        read(bob, first, "cleaned")
    for receipt in chain[:2]:
        move_to_cold_storage(put_away(Context.objects.get(pk=receipt.context)).pk)
    assert not Task.objects.filter(pk=first.task).exists()
    assert read(ada, third, "report").graph.json == once, "archived sessions are restored for it"
    Task.objects.filter(pk=first.task).update(references=[str(third.task)], parent=third.task)
    Task.objects.filter(pk=third.task).update(parent=first.task)
    assert set(read(ada, third, "report").of(NodeKind.TASK)) == {task(one) for one in chain}, "a circle comes once"


def test_questions_and_answers_are_named(ada, ask, echo):
    parent = ask()
    child = ask([{"text": "Decide"}], parent=parent)
    end(begin(child.run), InputRequired("Yes or no?", "decision"))
    message = {"messageId": "m2", "role": "ROLE_USER", "parts": [{"text": "Yes"}], "taskId": str(child.task)}
    end(begin(accept.accept(ada.principal, echo, message).run), Completed("Done.", texts("decision")))
    found = read(ada, child, "decision")
    messages = found.of(NodeKind.MESSAGE)
    said = {messages[later]["text"]: earlier for later, earlier in found.ends(EdgeKind.SENT_BY)}
    said |= {messages[later]["text"]: earlier for later, earlier in found.ends(EdgeKind.SAID_BY)}
    assert said == {"Begin": "person:owner", "Decide": task(parent), "Yes": "person:owner"}
    assert {messages[earlier]["text"] for _, earlier in found.ends(EdgeKind.ASKED_IN)} == set(said)
    assert {messages[later]["text"] for later, _ in found.ends(EdgeKind.ANSWERED_IN)} == {"Yes or no?", "Done."}
    assert found.of(NodeKind.PERSON) == {"person:owner": {"name": "Ada"}}


def test_agent_versions_are_named(ada, ask, echo):
    first = ask(artifacts=texts("one"))
    register_hosted("echo", "examples.agents.echo:Echo", description="Says it again, and better.")
    echo.refresh_from_db()
    second = ask(artifacts=texts("two"), refers=[first])
    found = read(ada, second, "two")
    versions = {one.number: one.sha256 for one in echo.versions.all()}
    assert len(versions) == 2
    assert found.of(NodeKind.AGENT_VERSION) == {
        f"agent:echo@{number}": {"agent": "echo", "name": echo.name, "version": number, "sha256": sha256}
        for number, sha256 in versions.items()
    }
    assert found.ends(EdgeKind.CARRIED_OUT_BY) == {(task(first), "agent:echo@1"), (task(second), "agent:echo@2")}
    [turns] = [
        one.details for one in found.graph.edges if one.kind == EdgeKind.CARRIED_OUT_BY and one.later == task(first)
    ]
    assert turns == {"turns": [{"turn": 1, "inputHash": Run.objects.get(task=first.task).input_hash}]}


def test_children_and_their_caller_are_connected(ada, ask):
    parent = ask([{"text": "Do all of it"}, FILE])
    step = ask([{"text": "The first"}, FILE], texts("cleaned"), parent=parent)
    last = ask([{"text": "The second"}], texts("effects"), parent=parent, refers=[step])
    other = ask([{"text": "Something else"}], texts("other"), parent=parent)
    end(begin(parent.run), Completed("Done.", texts("report")))
    whole = read(ada, parent, "report")
    children = {task(one) for one in (step, last, other)}
    assert whole.ends(EdgeKind.CALLED_FOR_BY) == {(child, task(parent)) for child in children}
    assert {earlier for _, earlier in whole.ends(EdgeKind.RECEIVED)} == {
        made(step, "cleaned"),
        made(last, "effects"),
        made(other, "other"),
    }
    part = read(ada, last, "effects")
    assert set(part.of(NodeKind.TASK)) == {task(last), task(step), task(parent)}
    assert not part.ends(EdgeKind.RECEIVED)
    [(given, source)] = part.ends(EdgeKind.CAME_FROM)
    assert part.ends(EdgeKind.GIVEN) == {(task(parent), source), (task(step), given)}
    senders = {one for _, one in part.ends(EdgeKind.SENT_BY)} | {one for _, one in part.ends(EdgeKind.SAID_BY)}
    assert senders == {task(parent), "person:owner"}


def test_passed_on_content_has_its_origin(ada, ask):
    for size in (2_000, settings.INLINE_PART_BYTES + 1):
        long = "x" * size
        parent = ask()
        first = ask(artifacts=[Made([{"text": long}], name="long", artifact_id="long")], parent=parent)
        last = ask([{"text": "Sum up:"}, {"text": long}], texts("sum"), parent=parent)
        found = read(ada, last, "sum")
        assert {earlier for _, earlier in found.ends(EdgeKind.CAME_FROM)} == {made(first, "long")}
        assert (made(first, "long"), task(first)) in found.ends(EdgeKind.DELIVERED_BY)
    first = ask(artifacts=[Made.json("hits", {"b": [1, 2], "a": 0.5})])
    last = ask([{"data": {"a": 0.5, "b": [1, 2]}}], texts("sum"), refers=[first])  # in any order of the database
    source = Artifact.objects.get(task=first.task).artifact_id
    assert {earlier for _, earlier in read(ada, last, "sum").ends(EdgeKind.CAME_FROM)} == {made(first, source)}


def test_conversations_and_forks_continue(ada, ask):
    first = ask(artifacts=texts("one"))
    talk = Context.objects.get(pk=first.context)
    second = ask(artifacts=texts("two"), context=talk)
    child = fork(ada.principal, talk, Task.objects.get(pk=second.task).first_event - 1, reason="fork")
    other = ask(artifacts=texts("three"), context=child)
    assert read(ada, second, "two").ends(EdgeKind.CONTINUES) == {(task(second), task(first))}
    found = read(ada, other, "three")
    assert found.ends(EdgeKind.CONTINUES) == {(task(other), task(first))}
    assert (task(other), made(first, "one")) in found.ends(EdgeKind.REFERS_TO)
    assert set(found.of(NodeKind.TASK)) == {task(first), task(other)}


def test_deleted_and_foreign_tasks_are_unavailable(ada, bob, ask, echo):
    first, strange = ask(artifacts=texts("one")), ask(artifacts=texts("his"), user=bob)
    last = ask(artifacts=texts("two"), refers=[first])
    Task.objects.filter(pk=last.task).update(references=[str(first.task), str(strange.task), "no id"])
    deletion.delete_session(ada.principal, first.context)
    found = read(ada, last, "two")
    assert set(found.of(NodeKind.UNAVAILABLE)) == {task(first), task(strange)}
    assert found.ends(EdgeKind.REFERS_TO) == {(task(last), task(first)), (task(last), task(strange))}
    assert not any("his" in node.id for node in found.graph.nodes)
    [version] = echo.versions.all()
    assert Run.objects.get(task=last.task).input == {}, "what it was given is forgotten"
    assert found.of(NodeKind.AGENT_VERSION)["agent:echo@1"]["sha256"] == version.sha256


def test_graph_is_bounded_and_says_so(ada, ask, chain, monkeypatch):
    """Also of two fan-outs, where each task of the second refers to each of the first."""
    whole = read(ada, chain[2], "report").graph
    assert not whole.truncated
    assert not read(ada, chain[2], "report", most=len(whole.nodes)).graph.truncated
    for most in (1, len(whole.nodes) - 1):
        part = read(ada, chain[2], "report", most=most).graph
        assert (len(part.nodes), part.truncated) == (most, True)
        known = {node.id for node in part.nodes}
        assert all({one.later, one.earlier} <= known for one in part.edges)
    first = [ask([{"text": "One"}], texts("part")) for _ in range(6)]
    second = [ask([{"text": "Two"}], texts("part"), refers=first) for _ in range(6)]
    last = ask([{"text": "Join"}], texts("whole"), refers=second)
    whole = read(ada, last, "whole").graph
    most = len(whole.nodes)
    monkeypatch.setattr(graph, "EDGES_PER_NODE", 2)
    cut = read(ada, last, "whole", most=most)
    assert (len(whole.edges) > 2 * most, len(cut.graph.edges), cut.graph.truncated) == (True, 2 * most, True)
    assert cut.graph.nodes == whole.nodes
    assert cut.ends(EdgeKind.DELIVERED_BY, made(last, "whole"))
    assert {task(one) for one in second} <= {earlier for _, earlier in cut.ends(EdgeKind.REFERS_TO, task(last))}
