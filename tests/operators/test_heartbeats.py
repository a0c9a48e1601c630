"""A watcher outside is told while all works, and fails nothing here."""

import http.server
import threading
from unittest.mock import Mock

import pytest
from django.core.management import CommandError, call_command
from django.db import OperationalError, connections

from apps.operators import heartbeats
from tests.stack import free_port

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def watcher():
    """A server that notes the paths of calls; `/broken` is refused."""
    called = []

    class Watcher(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            called.append(self.path)
            self.send_response(500 if self.path == "/broken" else 200)
            self.end_headers()

        def log_message(self, *_):
            """Calls are not logged."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Watcher) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        server.url, server.called = f"http://127.0.0.1:{server.server_port}", called
        yield server
        server.shutdown()


def test_watcher_is_told_where_one_is_set(watcher, settings):
    assert heartbeats.tell_all_works() is None
    settings.HEARTBEAT_URL = f"{watcher.url}/beat"
    heartbeats.tell_all_works()
    assert watcher.called == ["/beat"]


def test_watcher_hears_nothing_without_the_database(watcher, settings, monkeypatch):
    settings.HEARTBEAT_URL = watcher.url
    monkeypatch.setattr(connections["default"], "get_new_connection", Mock(side_effect=OperationalError))
    connections.close_all()
    with pytest.raises(OperationalError):
        heartbeats.tell_all_works()
    assert watcher.called == []


def test_broken_watcher_fails_no_job(watcher):
    assert "500" in heartbeats.tell(f"{watcher.url}/broken")
    for url in (f"http://127.0.0.1:{free_port()}/", "no address", "ftp://example.org/"):
        assert "cannot be called" in heartbeats.tell(url)


def test_only_a_good_backup_is_told(watcher, settings, tmp_path):
    settings.BACKUP_HEARTBEAT_URL = f"{watcher.url}/backup"
    call_command("backup", file := str(tmp_path / "parley.tar"))
    assert watcher.called == ["/backup"]
    with pytest.raises(CommandError):
        call_command("backup", file)
    assert watcher.called == ["/backup"]
