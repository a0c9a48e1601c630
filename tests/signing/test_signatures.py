"""A signature is valid for exactly the delivered artifact."""

import base64
import copy
import json

import pytest
from django.core.management import CommandError, call_command
from django.db import transaction

from agentkit import Artifact as Made
from agentkit import Completed, Failed
from apps.agents import cards
from apps.agents.identities import identity
from apps.agents.identities.signing import clear_signers, revoke_key, rotate_key, signer_of
from apps.agents.models import SigningKey
from apps.engine import accept
from apps.optional.signing.signatures import INLINE_BYTES, Verdict, verdict_on, verdict_on_wire
from apps.record import projection, wire
from apps.record.execution import Run
from apps.record.models import Artifact, Event, Task
from tests.working import begin, chunk, end, say

pytestmark = pytest.mark.django_db(transaction=True)

DATA = {"b": [1, 2.5, None, "ü"], "a": {"large": 1e23, "small": 1e-7, "whole": 3.0}}
LARGE_TEXT = "long " * INLINE_BYTES
PARTS = [
    {"text": "hello", "mediaType": "text/plain", "metadata": {"n": 1}},
    {"raw": "aGVsbG8=", "filename": "a.bin"},
    {"raw": base64.b64encode(b"x" * (INLINE_BYTES + 1)).decode()},
    {"data": DATA},
    {"url": "https://example.org/elsewhere"},
    {"text": LARGE_TEXT[: INLINE_BYTES + 1], "filename": "long.txt"},
    {"text": LARGE_TEXT, "filename": "longer.txt"},  # kept in a file
    {"data": {"rows": [LARGE_TEXT]}},
]


@pytest.fixture
def signing(echo):
    echo.sign_artifacts = True
    echo.save()
    return echo


@pytest.fixture
def complete(ada, signing, said):
    """The agent delivers; returns the task."""

    def deliver(*artifacts: Made, agent=signing) -> Task:
        held = begin(accept.accept(ada.principal, agent, said()).run)
        end(held, Completed("done", list(artifacts) or [Made(list(PARTS), name="result", artifact_id="one")]))
        return Task.objects.select_related("context").get(pk=held.task.pk)

    return deliver


def shown(task) -> dict:
    return json.loads(json.dumps(wire.load_task(task)))


def only(task) -> Artifact:
    return Artifact.objects.select_related("task__context").get(task=task)


def verdicts(answer) -> list[Verdict]:
    return [verdict_on_wire(one, answer["id"], answer["contextId"]) for one in answer["artifacts"]]


def test_delivered_artifact_is_good_everywhere(complete, signing):
    task = complete()
    assert verdict_on(only(task)) == Verdict.GOOD
    assert verdicts(shown(task)) == [Verdict.GOOD]
    signature = claims(shown(task))
    assert signature["agent"] == identity.did_of(signing)
    assert signature["inputSnapshot"] == Run.objects.get(task=task).input_hash
    assert cards.signature_extension_uri() in [one["uri"] for one in cards.card_extensions(signing)]
    rotate_key(task.agent)
    assert projection.differences(task.context_id) == [], "a replay gives the same signatures"
    [event] = Event.objects.filter(task=task, type="agent_complete")
    assert event.payload["signatures"]["one"] == only(task).signature
    Artifact.objects.filter(task=task).update(signature={})
    assert projection.differences(task.context_id) != []


def test_streams_and_files_are_signed_whole(ada, signing, said):
    held = begin(accept.accept(ada.principal, signing, said()).run)
    say(held, chunk("lines", "1\n", last=False), chunk("lines", "2\n", append=True))
    end(held, Completed("done"))
    assert len(only(held.task).parts) == 2
    assert verdict_on(only(held.task)) == Verdict.GOOD
    held = begin(accept.accept(ada.principal, signing, said()).run)
    say(held, chunk("lines", "1\n"))
    end(held, Failed("no"))
    assert Artifact.objects.get(task=held.task).signature == {}, "nothing of a failed task is signed"


def claims(answer):
    return answer["artifacts"][0]["metadata"][cards.signature_extension_uri()]


def changes():
    """All ways in which an answer may differ from the signed one."""

    def part(number, **values):
        return parts(lambda parts: parts[number].update(values))

    def artifact(**values):
        return lambda answer: answer["artifacts"][0].update(values)

    def claim(**values):
        return lambda answer: claims(answer).update(values)

    def parts(change):
        return lambda answer: change(answer["artifacts"][0]["parts"])

    last = LARGE_TEXT[:-1] + "!"
    return {
        "text": part(0, text="hellp"),
        "media type": part(0, mediaType="text/html"),
        "bytes": part(1, raw="aGVsbG4="),
        "spelling of bytes": part(1, raw="aGVsbG9="),
        "long bytes": part(2, raw=PARTS[2]["raw"].replace("eHh4", "eHh5", 1)),
        "order in data": part(3, data={**DATA, "b": [2.5, 1, None, "ü"]}),
        "long text": part(5, text=LARGE_TEXT[:INLINE_BYTES] + "!"),
        "stored text": part(6, text=last),
        "a second content": part(5, raw="aGVsbG8="),
        "an unknown field": part(0, extra=1),
        "order of parts": parts(lambda parts: parts.reverse()),
        "a part more": parts(lambda parts: parts.append({"text": ""})),
        "name": artifact(name="another"),
        "task id": lambda answer: answer.update(id="another"),
        "context id": lambda answer: answer.update(contextId="another"),
        "agent": claim(agent="did:web:127.0.0.1%3A8000:a2a:hello"),
        "input": claim(inputSnapshot="0" * 64),
        "a claim less": lambda answer: claims(answer).pop("created"),
        "no parts": artifact(parts=None),
        "a file that is none": parts(lambda parts: parts.append({"stored": {"sha256": "../../etc/passwd", "size": 1}})),
        "another shape": artifact(metadata={cards.signature_extension_uri(): "x"}),
    }


def test_any_change_breaks_the_signature(complete):
    signed = shown(complete())
    assert verdicts(signed) == [Verdict.GOOD]
    for name, change in changes().items():
        answer = copy.deepcopy(signed)
        change(answer)
        assert verdicts(answer) == [Verdict.BROKEN], name


def test_tampered_row_or_file_is_never_good(complete, settings):
    row = only(complete())
    for field, value in (
        ("parts", [{"text": "hello"}]),
        ("name", "another"),
        ("artifact_id", "two"),
        ("signature", {"signature": "x"}),
        ("signature", {"signature": "e30..AA", "agent": "a", "created": "c", "inputSnapshot": "i"}),
    ):
        Artifact.objects.filter(pk=row.pk).update(**{field: value})
        assert verdict_on(only(row.task)) not in (Verdict.GOOD, Verdict.MISSING), field
        Artifact.objects.filter(pk=row.pk).update(**{field: getattr(row, field)})
    assert verdict_on(only(row.task)) == Verdict.GOOD
    path = settings.DATA_DIR / "files"
    stored = next(part["stored"]["sha256"] for part in row.parts if "stored" in part)
    (path / stored[:2] / stored[2:]).write_text("something else")
    try:
        assert verdict_on(only(row.task)) == Verdict.BROKEN
    finally:
        (path / stored[:2] / stored[2:]).unlink()
    assert verdict_on(only(row.task)) == Verdict.BROKEN


def test_foreign_signatures_and_keys_are_broken(complete, countdown):
    task = complete(Made([{"text": "a"}], artifact_id="a"), Made([{"text": "a"}], artifact_id="b"))
    answer = shown(task)
    first, second = answer["artifacts"]
    assert verdicts(answer) == [Verdict.GOOD, Verdict.GOOD]
    second["metadata"] = first["metadata"]
    assert verdicts(answer) == [Verdict.GOOD, Verdict.BROKEN]
    row = only(complete())
    for agent in (countdown, None):
        SigningKey.objects.update(agent=agent)
        assert verdict_on(row) == Verdict.BROKEN
        if agent:
            assert verdicts(shown(row.task)) == [Verdict.BROKEN]


def test_revoked_keys_sign_nothing_rotated_ones_do(complete):
    row = only(complete())
    rotate_key(row.task.agent, "ES256")
    later = only(complete())
    assert [verdict_on(row), verdict_on(later)] == [Verdict.GOOD, Verdict.GOOD]
    revoke_key(SigningKey.objects.order_by("pk").first())
    assert [verdict_on(row), verdict_on(later)] == [Verdict.REVOKED, Verdict.GOOD]
    assert verdicts(shown(row.task)) == [Verdict.REVOKED]


def test_unknown_keys_are_not_good(complete):
    row = only(complete())
    name = row.signature["signature"].rpartition(".")[2]
    for kid in ("\0" * 43, "x" * 43, "", None, ["x"]):
        header = base64.urlsafe_b64encode(json.dumps({"alg": "EdDSA", "kid": kid}).encode()).decode().rstrip("=")
        row.signature["signature"] = f"{header}..{name}"
        assert verdict_on(row) == Verdict.UNKNOWN_KEY, kid
    row = only(row.task)
    SigningKey.objects.all().delete()
    assert verdict_on(row) == Verdict.UNKNOWN_KEY


def test_unsigning_agent_forges_no_signature(complete, countdown):
    row = only(complete(agent=countdown))
    assert row.signature == {}
    assert verdict_on(row) == Verdict.MISSING
    assert verdicts(shown(row.task)) == [Verdict.MISSING]
    assert cards.signature_extension_uri() not in [one["uri"] for one in cards.card_extensions(countdown)]
    forged = Made([{"text": "a"}], metadata={cards.signature_extension_uri(): {"signature": "good"}})
    task = complete(forged, agent=countdown)
    assert verdict_on(only(task)) == Verdict.MISSING
    assert verdicts(shown(task)) == [Verdict.BROKEN]


def test_unsignable_results_are_delivered_unsigned(complete, signing, settings):
    """Numbers without a canonical form; an unreadable key. A key of a transaction that failed signs nothing."""
    with transaction.atomic():
        lost = signer_of(signing)
        transaction.set_rollback(True)
    assert signer_of(signing).kid != lost.kid
    for result in ([Made([{"data": 2**53 + 1}])], []):
        task = complete(*result)
        assert (task.state, verdict_on(only(task))) == ("completed", Verdict.MISSING)
        clear_signers()
        settings.MASTER_KEY = "A" * 43


def run(*words) -> int:
    try:
        call_command("verify_artifact", *words)
    except CommandError as error:
        return error.returncode
    return 0


def test_command_tells_the_verdict_by_its_status(complete, countdown, tmp_path, capsys):
    task, file = complete(), tmp_path / "task.json"
    assert run(str(task.pk)) == 0
    assert capsys.readouterr().out == "one: good\n"
    for words in ([], ["nobody"], ["--file", "nowhere.json"], [str(task.pk), "another"]):
        assert run(*words) == 1, words
    answer = shown(task)
    for wrapped in (answer, {"task": answer}, {"jsonrpc": "2.0", "id": 1, "result": {"task": answer}}):
        file.write_text(json.dumps(wrapped))
        assert run("--file", str(file)) == 0
    for nothing in ("", "[]", '{"artifacts": 1, "id": 2}', '{"result": null}', "[" * 100_000):
        file.write_text(nothing)
        assert run("--file", str(file)) == 1, nothing
    assert run(str(complete(agent=countdown).pk)) == 6
    revoke_key(SigningKey.objects.get())
    assert run(str(task.pk)) == 5
    Artifact.objects.update(name="x")
    assert run(str(task.pk)) == 3
    SigningKey.objects.all().delete()
    assert run(str(task.pk)) == 4


def test_links_stand_for_our_own_files_alone(complete, monkeypatch):
    monkeypatch.setattr(wire, "MAX_INLINE_BYTES", 1)
    answer = shown(complete(Made([{"text": LARGE_TEXT}, {"data": {"rows": [LARGE_TEXT]}}])))
    first, second = answer["artifacts"][0]["parts"]
    assert first["url"].startswith("http://127.0.0.1:8000/files/")
    assert verdicts(answer) == [Verdict.GOOD]
    swapped, where = (first["url"], second["url"]), first["url"].rpartition("/")[0]
    second["url"], first["url"] = swapped
    assert verdicts(answer) == [Verdict.BROKEN]
    second["url"] = swapped[1]
    for name in ("..%2F..%2Fetc", "x" * 64, "0" * 64):
        first["url"] = f"{where}/{name}"
        assert verdicts(answer) == [Verdict.BROKEN], name
    first["url"] = swapped[0]
    assert verdicts(answer) == [Verdict.GOOD]
