"""The server that other tests talk to stands, on both profiles."""

from __future__ import annotations

import urllib.request

from tests.stack import Stack


def test_it_answers(server: Stack) -> None:
    with urllib.request.urlopen(f"{server.url}/admin/login/") as answer:
        assert answer.status == 200


def test_its_secrets_can_be_read(server: Stack) -> None:
    assert server.demo_key.startswith("parley_")
    assert server.demo_password != server.admin_password


def test_manage_speaks_to_its_database(server: Stack) -> None:
    again = server.manage("load_showcase")
    assert "The showcase is loaded" in again.stdout
