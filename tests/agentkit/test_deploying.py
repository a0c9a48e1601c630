"""`agentkit deploy` sends a folder and tells what became of it."""

import json
import re

import httpx2
import pytest

from agentkit.command import deploying, main
from agentkit.command.packing import pack_folder

URL, TOKEN = "https://parley.example", "parley_canary"
DONE = {"state": "done", "progress": ["uv venv", "starting"], "version": 3, "url": f"{URL}/a2a/loud"}
FAILED = {
    "state": "failed",
    "progress": ["uv venv"],
    "log": "\x1b[31mno wheel\x1b]0;x\x07\n",
    "problem": "It cannot be made.",
}


class Server:
    """Answers as a Parley does, and breaks off where a test says so. `sent` is what came, by method and path."""

    def __init__(self, *looks, **refusals):
        self.looks = [
            {"id": "d", "state": "waiting", "progress": [], "log": "", "problem": ""} | look for look in looks
        ]
        self.refusals = {re.sub("_", " /", name, count=1): answer for name, answer in refusals.items()}
        self.sent, self.received, self.lost = [], b"", 0

    def __call__(self, request):
        path = request.url.path.removeprefix("/api/v1")
        assert request.headers["authorization"] == f"Bearer {TOKEN}"
        self.sent.append((request.method, path, request.content))
        if answer := self.refusals.get(f"{request.method} {path}"):
            return answer() if callable(answer) else answer
        if self.lost:
            self.lost -= 1
            raise httpx2.ReadError("gone")
        return httpx2.Response(200, json=self.answer(request, path))

    def answer(self, request, path):
        match request.method, path:
            case "PATCH", _:
                assert int(request.headers["upload-offset"]) == len(self.received)
                self.received += request.content
            case "DELETE", _:
                return None
            case ("POST", "/deployments") | ("GET", "/deployments/d"):
                return self.looks.pop(0)
        return {"id": "u", "offset": len(self.received)}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    at = tmp_path / "loud"
    main(["new", str(at)])
    monkeypatch.setenv("PARLEY_TOKEN", TOKEN)
    monkeypatch.setattr(deploying, "LOOK_SECONDS", 0)
    monkeypatch.setattr(deploying, "PAUSES", (0, 0))
    return at


@pytest.fixture
def deploy(folder, monkeypatch, capsys):
    """Its exit code, and what it printed: to standard output and to standard error."""

    def run(server, *words):
        client = httpx2.Client
        monkeypatch.setattr(
            httpx2, "Client", lambda **given: client(**given | {"transport": httpx2.MockTransport(server)})
        )
        capsys.readouterr()
        try:
            main(["deploy", URL, str(folder), *words])
            code = 0
        except SystemExit as ended:
            code = ended.code
        return code, *capsys.readouterr()

    return run


def test_progress_ends_with_the_address(deploy, folder):
    server = Server({}, {"state": "working", "progress": ["uv venv"]}, DONE)
    code, said, _ = deploy(server, "--access", "public")
    assert code == 0
    assert said.splitlines()[1:] == [
        "- waits for a worker", "- uv venv", "- starting", f"loud answers at {URL}/a2a/loud, version 3.",
    ]  # fmt: skip
    assert server.received == pack_folder(folder).archive
    asked = json.loads(next(body for method, path, body in server.sent if (method, path) == ("POST", "/deployments")))
    assert asked == {"slug": "loud", "uploadId": "u", "access": "public", "secrets": {}}


def test_candidate_leads_to_its_versions(deploy):
    server = Server(DONE)
    _, said, _ = deploy(server, "--candidate")
    assert json.loads(server.sent[-2][2])["asCandidate"]
    assert f"{URL}/agents/loud/versions" in said


def test_failed_setup_shows_its_log_as_plain_text(deploy):
    code, _, error = deploy(Server({}, FAILED))
    assert code == 1
    assert "no wheel" in error
    assert "It cannot be made." in error
    assert "\x1b" not in error


def test_secrets_come_from_the_environment(deploy, monkeypatch):
    monkeypatch.setenv("MODEL_KEY", "canary")
    server = Server(DONE)
    code, said, error = deploy(server, "--secret", "MODEL_KEY", "--secret", "OTHER=a=b")
    asked = json.loads(next(body for _, path, body in server.sent if path == "/deployments" and body))
    assert (code, asked["secrets"]) == (0, {"MODEL_KEY": "canary", "OTHER": "a=b"})
    assert "canary" not in said + error


def test_missing_variable_sends_nothing(deploy):
    server = Server()
    code, _, error = deploy(server, "--secret", "NO_SUCH_KEY")
    assert (code, server.sent) == (2, [])
    assert "NO_SUCH_KEY" in error


def test_lost_upload_goes_on_where_it_was(deploy, folder, monkeypatch):
    monkeypatch.setattr(deploying, "PIECE", 100)
    server = Server(DONE)

    def break_once():
        del server.refusals["PATCH /uploads/u"]
        raise httpx2.ReadError("gone")

    server.refusals["PATCH /uploads/u"] = break_once
    assert deploy(server)[0] == 0
    assert server.received == pack_folder(folder).archive


def problem(status, detail):
    return httpx2.Response(status, json={"status": status, "detail": detail})


@pytest.mark.parametrize(
    ("refusals", "said"),
    [
        ({"GET_deployments": problem(401, "Send a key.")}, "does not accept the token"),
        ({"GET_deployments": problem(403, "Only operators do this.")}, "Only operators do this."),
        ({"GET_deployments": problem(404, "Nothing here.")}, "takes no folders"),
        ({"GET_deployments": httpx2.Response(200, text="<html>")}, "is no Parley"),
        ({"GET_deployments": httpx2.Response(404, json=[])}, "is no Parley"),
        ({"GET_deployments": httpx2.Response(301, headers={"location": "https://other.example/"})}, "other.example"),
        ({"POST_deployments": problem(422, "agent.yaml: handler: wrong.")}, "agent.yaml: handler: wrong."),
        ({"GET_deployments": lambda: (_ for _ in ()).throw(httpx2.ConnectError("no route"))}, "no route"),
    ],
)
def test_refusal_says_what_to_do(deploy, refusals, said):
    code, _, error = deploy(Server(**refusals))
    assert code == 1
    assert said in error
    assert TOKEN not in error
    assert "Traceback" not in error


def test_restart_of_the_server_is_waited_for(deploy):
    server = Server({}, DONE)
    answers = [httpx2.Response(502, text="<html>")]
    server.refusals["GET /deployments/d"] = lambda: server.refusals.clear() or answers[0]
    assert deploy(server)[0] == 0


def test_without_a_token_nothing_is_sent(deploy, monkeypatch):
    monkeypatch.delenv("PARLEY_TOKEN")
    server = Server()
    code, _, error = deploy(server)
    assert (code, server.sent) == (2, [])
    assert "PARLEY_TOKEN" in error


@pytest.mark.parametrize("url", ["ftp://x", "http://", "https://user:pass@x.example", "https://x.example/?a=b"])
def test_wrong_address_is_refused(url):
    with pytest.raises(deploying.HandlerError, match="address of a Parley"):
        deploying.Parley(url, TOKEN)
