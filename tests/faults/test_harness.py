"""The parts of `make faults` that stand between it and a wrong verdict: options, the record's reader, the receiver."""

from __future__ import annotations

import sqlite3
import uuid
from pathlib import Path
from unittest import mock

import httpx
import pytest

from faults import __main__ as program
from faults import history, upgrade
from faults.history import Seen
from faults.planted import DEFECTS
from faults.receiver import TRAP, Receiver

TASK, SESSION = uuid.UUID(int=1), uuid.UUID(int=2)


def test_unknown_fault_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        program.parsed(["--only", "earthquake"])
    assert "earthquake" in capsys.readouterr().err


@pytest.mark.parametrize("name", DEFECTS)
def test_each_defect_can_be_planted(name: str) -> None:
    plant, _ = DEFECTS[name]
    try:
        plant()
    finally:
        mock.patch.stopall()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A database with one session, task, message and event, as SQLite stores them."""
    path = tmp_path / "record.sqlite3"
    with sqlite3.connect(path) as database:
        database.executescript(f"""
            CREATE TABLE record_context (id, owner_id, last_event, forked_at);
            INSERT INTO record_context VALUES ('{SESSION.hex}', 1, 1, NULL);
            CREATE TABLE record_event (context_id, task_id, "index", type, artifact_id, payload, at);
            INSERT INTO record_event VALUES ('{SESSION.hex}', '{TASK.hex}', 1, 'agent_status', '',
                '{{"state": "failed"}}', '2027-01-01 00:00:00.5');
            CREATE TABLE agents_agent (id, slug);
            INSERT INTO agents_agent VALUES (1, 'echo');
            CREATE TABLE record_task (id, context_id, owner_id, agent_id, state);
            INSERT INTO record_task VALUES ('{TASK.hex}', '{SESSION.hex}', 1, 1, 'failed');
            CREATE TABLE record_run (task_id, state, attempt);
            INSERT INTO record_run VALUES ('{TASK.hex}', 'failed', 1);
            CREATE TABLE record_message (context_id, task_id, role, message_id);
            INSERT INTO record_message VALUES ('{SESSION.hex}', NULL, 'user', 'said');
            CREATE TABLE a2a_pushconfig (id, task_id);
            CREATE TABLE a2a_delivery (config_id, state);
            INSERT INTO a2a_pushconfig VALUES (1, '{TASK.hex}');
            INSERT INTO a2a_delivery VALUES (1, 'waiting'), (1, 'delivered');
        """)
    return path


def test_record_is_read_without_being_changed(file: Path) -> None:
    query = history.querying(f"sqlite:///{file}")
    record = history.read_record(query)
    assert record.contexts[str(SESSION)].forked_at == 0
    assert record.tasks[str(TASK)].agent == "echo"
    assert [(event.task, event.state) for event in record.events] == [(str(TASK), "failed")]
    assert record.messages[0].task == ""
    assert record.waiting_deliveries == [str(TASK)]
    with pytest.raises(sqlite3.OperationalError):
        query("DELETE FROM record_run")


def test_receiver_notices_a_followed_redirect() -> None:
    seen = Seen()
    receiver = Receiver(seen, seed=1)
    body = {"statusUpdate": {"status": {"state": "TASK_STATE_WORKING", "timestamp": "then"}}}
    try:
        with httpx.Client(base_url=receiver.url, trust_env=False) as caller:
            statuses = {caller.post("/hook/a", json=body).status_code for _ in range(40)}
            turned = [caller.post("/turned/a", json=body).status_code for _ in range(2)]
            assert seen.strayed == []
            caller.post("/turned/b", json=body, follow_redirects=True)
    finally:
        receiver.close()
    assert statuses == {204, 500}
    assert turned[0] == 307
    assert {call.key for call in seen.called} == {("status", "TASK_STATE_WORKING then")}
    assert seen.strayed == [f"{TRAP}/turned/b"]


@pytest.mark.parametrize(
    "line",
    [
        'ERROR:  column "is_notified" of relation "accounts_user" does not exist at character 28',
        'ERROR:  relation "record_task" does not exist at character 15',
        'ERROR:  null value in column "kind" of relation "record_run" violates not-null constraint',
        'ERROR:  update or delete on table "agents_agent" violates foreign key constraint "to_agent" on table "hook"',
    ],
)
def test_version_unfit_for_tables_is_found(line: str) -> None:
    log = f"[7] LOG:  checkpoint starting: time\n[8] {line}\n[8] STATEMENT:  SELECT 1\n[8] {line}\n"
    assert upgrade.lines_with(upgrade.MISFIT, log) == [f"2 times {line}"]
    assert upgrade.lines_with(upgrade.MISFIT, 'ERROR:  duplicate key value violates unique constraint "once"\n') == []


def test_version_that_misunderstands_messages_is_found() -> None:
    log = "worker is ready.\nReceived unregistered task of type 'transfers.make'.\n"
    assert len(upgrade.lines_with(upgrade.NOT_UNDERSTOOD, log)) == 1


def test_upgrade_clients_repeat_only_cut_off_calls() -> None:
    assert upgrade.unmended({"503": 2, "ConnectError": 3}) == []
    assert len(upgrade.unmended({"500": 1, "502": 1, "ReadTimeout": 1})) == 3
