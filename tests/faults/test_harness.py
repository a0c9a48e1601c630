"""The parts of `make faults` that stand between it and a wrong verdict: options, the record's reader, the receiver."""

from __future__ import annotations

import sqlite3
import uuid
from pathlib import Path
from unittest import mock

import pytest

from faults import history
from faults.planted import DEFECTS

TASK, SESSION = uuid.UUID(int=1), uuid.UUID(int=2)


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
