"""`agentkit deploy`: sends an agent's folder to a Parley, and says what becomes of it until its process runs there."""

from __future__ import annotations

import argparse
import os
import re
import sys
import time
from collections.abc import Callable
from typing import Any

import httpx2

from agentkit.command.folders import slug_of
from agentkit.command.packing import Packed, pack_folder
from agentkit.errors import HandlerError

TOKENS = ("PARLEY_TOKEN", "PARLEY_API_KEY")  # the latter is the terminal client's, too
TRY_AGAIN = (429, 502, 503, 504)  # statuses: it starts again just now, or has too much to do
PIECE = 4 * 1024 * 1024  # bytes of one request
LOOK_SECONDS = 1.0  # between looks at a deployment
PAUSES = (1.0, 2.0, 4.0, 8.0)  # seconds before each further attempt, where the connection is lost
LOCAL = ("localhost", "127.0.0.1", "::1")
UNPRINTABLE = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""In what an agent printed: it may not write to this terminal as it likes."""

type Json = dict[str, Any]
type Say = Callable[[str], None]


class DeployFailed(Exception):
    """The agent was not deployed. The text says why, and what to do; `log` is what its setup or process printed."""

    def __init__(self, why: str, log: str = "") -> None:
        super().__init__(why)
        self.log = log


def run(asked: argparse.Namespace) -> None:
    """`agentkit deploy`. Raises HandlerError for a mistake of the caller's, DeployFailed."""
    token = asked.token or next(filter(None, map(os.environ.get, TOKENS)), "")
    if not token or not (token.isascii() and token.isprintable()) or " " in token:
        raise HandlerError(f"Put an operator's API key into {TOKENS[0]}, whole: Settings, API keys.")
    secrets = dict(map(_secret, asked.secret))
    packed = pack_folder(asked.folder)
    slug = asked.slug or slug_of(asked.folder.resolve().name)
    with Parley(asked.url, token) as parley:
        wanted = {"slug": slug, "access": asked.access, "secrets": secrets}
        if asked.candidate:  # a Parley from before refuses it
            wanted["asCandidate"] = True
        done = deploy(parley, packed, wanted, lambda line: print(line, flush=True))
    if asked.candidate and done["version"] > 1:
        print(f"{slug} has version {done['version']}. Try it with some sessions: {parley.url}/agents/{slug}/versions")
    else:
        print(f"{slug} answers at {printable(done['url'])}, version {done['version']}.")


def _secret(given: str) -> tuple[str, str]:
    """Raises HandlerError."""
    name, is_given, value = given.partition("=")
    if not is_given and name not in os.environ:
        raise HandlerError(f"This environment has no variable {name}. Set it, or write --secret {name}=….")
    return name, value if is_given else os.environ[name]


def deploy(parley: Parley, packed: Packed, wanted: Json, say: Say) -> Json:
    """The deployment, which is done. `say` hears its progress. Raises DeployFailed, with the log of a failed setup.

    `wanted` is the body of `POST /deployments`, without the upload.
    """
    parley.check()
    say(f"Packed {packed.files} files, {len(packed.archive) // 1024 + 1} KiB.")
    upload = parley.upload(f"{wanted['slug']}.zip", packed.archive)
    made: Json = parley.ask("POST", "/deployments", json={**wanted, "uploadId": upload})
    parley.ask("DELETE", f"/uploads/{upload}")
    said = 0
    if made["state"] == "waiting":
        say("- waits for a worker")
    while True:
        lines = made["progress"]
        for line in lines[said:]:
            say(f"- {printable(line)}")
        said = len(lines)
        if made["state"] == "done":
            return made
        if made["state"] == "failed":
            raise DeployFailed(printable(made["problem"]), printable(made["log"]).strip())
        time.sleep(LOOK_SECONDS)
        made = parley.ask("GET", f"/deployments/{made['id']}")


def printable(text: str) -> str:
    """Without what would move a terminal's cursor, color it, or name it."""
    return UNPRINTABLE.sub("", str(text))


class Parley:
    """An installation's client API, as the holder of a token. Every method raises DeployFailed."""

    def __init__(self, url: str, token: str, transport: httpx2.BaseTransport | None = None) -> None:
        """Raises HandlerError: this is no address."""
        try:
            found = httpx2.URL(url if "://" in url else f"https://{url}")
        except (httpx2.InvalidURL, ValueError):
            found = httpx2.URL("")
        if found.scheme not in ("http", "https") or not found.host or found.userinfo or found.query or found.fragment:
            raise HandlerError("That is not the address of a Parley. Give one such as https://parley.example.")
        if found.scheme == "http" and found.host not in LOCAL:
            print(f"agentkit: the token goes to {found.host} unencrypted. Use https there.", file=sys.stderr)
        self.url = str(found).rstrip("/")
        self._http = httpx2.Client(
            base_url=f"{self.url}/api/v1",
            headers={"Authorization": f"Bearer {token}", "Accept": "application/json"},
            timeout=httpx2.Timeout(60.0, connect=10.0),
            transport=transport,
        )
        self._was_there = False

    def __enter__(self) -> Parley:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def check(self) -> None:
        """Whether there is a Parley that takes folders from the holder of this token, before anything is sent."""
        try:
            self.ask("GET", "/deployments?limit=1")
        except NotThere:
            raise DeployFailed(f"The Parley at {self.url} takes no folders. Update it.") from None

    def upload(self, name: str, content: bytes) -> str:
        """The upload's id. Where the connection is lost, it continues where the server is."""
        made = self.ask("POST", "/uploads", json={"filename": name, "size": len(content)})
        address = f"/uploads/{made['id']}"
        for pause in (*PAUSES, None):
            try:
                while (at := made["offset"]) < len(content):
                    headers = {"Upload-Offset": str(at), "Content-Type": "application/octet-stream"}
                    made = self._answer("PATCH", address, content=content[at : at + PIECE], headers=headers)
                break
            except Lost as lost:
                self._wait(pause, lost)
                made = self.ask("GET", address)
        return str(made["id"])

    def ask(self, method: str, path: str, **options: Any) -> Any:
        """The answer. It is asked for again where it is lost: the same request leads to the same."""
        for pause in (*PAUSES, None):
            try:
                return self._answer(method, path, **options)
            except Lost as lost:
                self._wait(pause, lost)
        raise AssertionError("unreachable")

    def _wait(self, pause: float | None, lost: Lost) -> None:
        if pause is None or not self._was_there:
            raise DeployFailed(f"No connection to {self.url}: {lost}. Check the address.")
        time.sleep(pause)

    def _answer(self, method: str, path: str, **options: Any) -> Any:
        """Raises DeployFailed, Lost."""
        try:
            response = self._http.request(method, path, **options)
        except (httpx2.TransportError, httpx2.DecodingError) as error:
            raise Lost(str(error) or type(error).__name__) from None
        if response.is_redirect:
            to = printable(response.headers.get("location", "another address"))
            raise DeployFailed(f"{self.url} leads to {to}. Give the address that is meant.")
        if response.status_code in TRY_AGAIN:
            raise Lost(f"it answers with status {response.status_code}")
        try:
            answer = response.json() if response.content else None
        except ValueError:
            raise DeployFailed(self._stranger) from None
        if not response.is_success:
            raise self._refusal(response.status_code, answer)
        self._was_there = True
        return answer

    @property
    def _stranger(self) -> str:
        return f"{self.url} is no Parley, or what stands before it answers. Check the address."

    def _refusal(self, status: int, answer: Any) -> DeployFailed:
        try:
            detail = printable(answer["detail"])
        except (TypeError, KeyError):
            return DeployFailed(self._stranger)
        match status:
            case httpx2.codes.UNAUTHORIZED:
                return DeployFailed(
                    f"{self.url} does not accept the token. Make an API key at {self.url}/settings/keys."
                )
            case httpx2.codes.NOT_FOUND:
                return NotThere(detail)
        return DeployFailed(detail)


class NotThere(DeployFailed):
    """There is nothing at this address."""


class Lost(Exception):
    """No answer came. It may be asked for again."""
