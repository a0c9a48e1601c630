"""The client API (`/api/v1`) over HTTP: where and as whom, requests, and live events."""

from __future__ import annotations

import json
import mimetypes
import os
import re
import ssl
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx2

JSON = dict[str, Any]
DEFAULT_URL = "http://127.0.0.1:8000"
PAUSES = (0.5, 1.0, 2.0, 4.0, 8.0)  # seconds before each further attempt
SILENCE = 60.0  # seconds without a heartbeat, after which a stream is lost
PIECE = 4 * 1024 * 1024  # bytes
UNREACHABLE = 4
TRUST = "Add your company's authority to this machine's (update-ca-certificates), or name its file by SSL_CERT_FILE."
UNKNOWN_AUTHORITY = {18, 19, 20, 21}  # X509_V_ERR_… of OpenSSL; others are a wrong name or a certificate that ended
ADDRESS = re.compile(r"https?://(?:\[[0-9a-fA-F:.]+\]|[\w.-]+)(?::\d{1,5})?(?:/[^\s?#@\\]*)?")


class Failure(Exception):
    """A sentence for people that says what to do. `code`: the program's exit code. `status`: of HTTP, or 0."""

    def __init__(self, sentence: str, *, code: int = 1, status: int = 0) -> None:
        super().__init__(sentence)
        self.code, self.status = code, status


@dataclass(frozen=True)
class Login:
    """An installation and a key to it."""

    url: str
    key: str


def login_file() -> Path:
    """In the user's configuration folder."""
    home = os.environ.get("XDG_CONFIG_HOME") or (os.environ.get("APPDATA") if os.name == "nt" else "")
    return Path(home or Path.home() / ".config") / "parley" / "login.json"


def store_login(login: Login) -> Path:
    """Written beside and renamed, so that nobody else can read it at any moment."""
    path = login_file()
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    new = path.with_name(f"{path.name}.{os.getpid()}")
    with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        json.dump({"url": login.url, "key": login.key}, file)
    new.replace(path)
    return path


def find_login() -> Login:
    """The stored one; PARLEY_URL and PARLEY_API_KEY override it. A stored key goes only to its own address.

    Raises Failure.
    """
    stored = _stored_login()
    url = checked_url(os.environ.get("PARLEY_URL") or stored.url or DEFAULT_URL)
    key = os.environ.get("PARLEY_API_KEY") or (stored.key if url == stored.url else "")
    if not key:
        raise Failure(f"There is no API key for {url}. Run: parley login {url}", code=UNREACHABLE)
    return Login(url, _checked_key(key))


def _stored_login() -> Login:
    try:
        stored = json.loads(login_file().read_text(encoding="utf-8"))
        return Login(str(stored["url"]), str(stored["key"]))
    except FileNotFoundError:
        return Login("", "")
    except (OSError, ValueError, KeyError, TypeError):
        raise Failure(f"{login_file()} cannot be read. Write it again with: parley login", code=UNREACHABLE) from None


def checked_url(given: str) -> str:
    """The base address, without a slash at its end. Raises Failure."""
    text = given.strip()
    if "://" not in text:
        text = f"{'http' if text.startswith(('127.', 'localhost')) else 'https'}://{text}"
    try:
        is_address = ADDRESS.fullmatch(text) and httpx2.URL(text).host and (httpx2.URL(text).port or 0) < 2**16
    except (httpx2.InvalidURL, ValueError):  # the latter of a name that IDNA does not allow
        is_address = False
    if not is_address:
        raise Failure(f"{given!r} is not the address of a Parley. Give one such as {DEFAULT_URL}", code=2)
    return text.rstrip("/")


def _checked_key(key: str) -> str:
    if not (key.isascii() and key.isprintable()) or " " in key:
        raise Failure("The API key has characters that no key has. Copy it again.", code=UNREACHABLE)
    return key


def trusted() -> ssl.SSLContext:
    """The authorities that Parley's own calls trust (`parley.outbound.trust`), by the same rules. Raises Failure."""
    try:
        context = httpx2.create_ssl_context()
    except OSError as error:  # includes SSLError
        named = os.environ.get("SSL_CERT_FILE") or os.environ.get("SSL_CERT_DIR")
        sentence = f"SSL_CERT_FILE names {named}, from which no certificate can be read: {error}."
        raise Failure(sentence, code=UNREACHABLE) from None
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context


class Parley:
    """An installation, as one user. Every method raises Failure."""

    def __init__(self, login: Login, transport: httpx2.BaseTransport | None = None) -> None:
        self.url = login.url
        headers = {"Authorization": f"Bearer {_checked_key(login.key)}", "Accept": "application/json"}
        # A message may be answered at once, by an agent that takes its time.
        timeout = httpx2.Timeout(SILENCE, connect=10.0, read=180.0)
        self._http = httpx2.Client(
            base_url=f"{login.url}/api/v1", headers=headers, timeout=timeout, verify=trusted(), transport=transport
        )

    def get(self, path: str, **query: Any) -> Any:
        return self._ask("GET", path, params=query)

    def glance(self, path: str, seconds: float, **query: Any) -> Any:
        """As `get`, in one attempt of about so many seconds."""
        try:
            return self._answer(self._http.get(path, params=query, timeout=seconds))
        except httpx2.HTTPError as error:
            raise self._lost(error) from None

    def post(self, path: str, body: JSON | None = None) -> Any:
        """It is sent again after a lost connection; its key makes that safe."""
        headers = {"Idempotency-Key": str(uuid.uuid4()), "Content-Type": "application/json"}
        # As ASCII: halves of characters, from bytes that were no text, are for the server to refuse.
        return self._ask("POST", path, content=json.dumps(body or {}, allow_nan=False), headers=headers)

    def items(self, path: str, most: int, **query: Any) -> list[JSON]:
        """Of all pages, at most `most`."""
        found: list[JSON] = []
        cursor: JSON = {}
        while len(found) < most:
            page = self.get(path, limit=min(most - len(found), 100), **query, **cursor)
            found += page["items"]
            if not page.get("nextCursor"):
                break
            cursor = {"cursor": page["nextCursor"]}
        return found

    def download(self, path: str, to: Path) -> int:
        """Into a new file; returns its size in bytes. `path` is below /api/v1, or on this server."""
        address = path if path.startswith("http") else f"{self.url}/api/v1{path}"
        try:
            with self._http.stream("GET", address, headers={"Accept": "*/*"}) as response, to.open("xb") as file:
                if response.is_error:
                    response.read()
                    raise self._refusal(response)
                return sum(file.write(piece) for piece in response.iter_bytes())
        except BaseException as error:
            if not isinstance(error, FileExistsError):
                to.unlink(missing_ok=True)
            if isinstance(error, httpx2.HTTPError):
                raise self._lost(error) from None
            raise

    def upload(self, path: Path) -> JSON:
        """A part that names the file. After a lost connection, it continues where the server is."""
        size, media_type = path.stat().st_size, mimetypes.guess_type(path.name)[0] or "application/octet-stream"
        told = self.post("/uploads", {"filename": path.name, "size": size, "mediaType": media_type})
        address, failed = f"/uploads/{told['id']}", 0
        with path.open("rb") as file:
            while told["offset"] < size:
                file.seek(told["offset"])
                if not (piece := file.read(PIECE)):
                    raise Failure(f"{path} became shorter while it was sent. Send it again.")
                try:
                    headers = {"Upload-Offset": str(told["offset"]), "Content-Type": "application/octet-stream"}
                    told, failed = self._answer(self._http.request("PATCH", address, content=piece, headers=headers)), 0
                except httpx2.TransportError as error:
                    if failed == len(PAUSES):
                        raise self._lost(error) from None
                    time.sleep(PAUSES[failed])
                    told, failed = self.get(address), failed + 1
        return {"uploadId": told["id"]}

    def follow(self, session: str, since: int, lost: Callable[[], None] = lambda: None) -> Iterator[JSON | None]:
        """Events after index `since`, each once; None is a heartbeat.

        A lost connection, of which `lost` is told, continues by Last-Event-ID. Raises Failure after the last attempt.
        """
        place, failed = "", 0
        while True:
            try:
                headers = {"Accept": "text/event-stream"} | ({"Last-Event-ID": place} if place else {})
                query = {"session_ids": session, "since": str(since)}
                timeout = httpx2.Timeout(SILENCE, connect=10.0)
                with self._http.stream("GET", "/events", params=query, headers=headers, timeout=timeout) as response:
                    if response.status_code != httpx2.codes.OK:
                        response.read()
                        raise self._refusal(response)
                    for id_, event in _server_sent(response.iter_lines()):
                        place, failed = id_ or place, 0
                        if event is None:
                            yield None
                        elif "index" not in event:
                            raise Failure(f"The session is not live any more ({event.get('reason')}). Start again.")
                        elif event["index"] > since:
                            since = event["index"]
                            yield event
                failed += 1  # the server ended it
            except ValueError:  # a proxy's page, or no JSON
                raise self._stranger() from None
            except (httpx2.TransportError, httpx2.DecodingError) as error:
                failed += 1
                if failed > len(PAUSES):
                    raise self._lost(error) from None
            if failed > len(PAUSES):
                raise Failure(f"{self.url} ends every stream of events. Try again later.", code=UNREACHABLE)
            lost()
            time.sleep(PAUSES[failed - 1])

    def _ask(self, method: str, path: str, **options: Any) -> Any:
        for pause in (*PAUSES, None):
            try:
                return self._answer(self._http.request(method, path, **options))
            except (httpx2.ConnectError, httpx2.DecodingError) as error:
                raise self._lost(error) from None
            except httpx2.TransportError as error:
                if pause is None:
                    raise self._lost(error) from None
                time.sleep(pause)
        raise AssertionError("unreachable")

    def _answer(self, response: httpx2.Response) -> Any:
        if not response.is_success:
            raise self._refusal(response)
        try:
            return response.json() if response.content else None
        except ValueError:
            raise self._stranger() from None

    def _refusal(self, response: httpx2.Response) -> Failure:
        status = response.status_code
        if status == httpx2.codes.UNAUTHORIZED:
            sentence = f"{self.url} does not accept the API key. Make one at {self.url}/settings/keys, then run:"
            return Failure(f"{sentence} parley login {self.url}", code=UNREACHABLE, status=status)
        if response.is_redirect:
            to = response.headers.get("location", "")
            return Failure(f"{self.url} redirects to {to}. Run parley login with that address.", code=UNREACHABLE)
        try:
            problem = response.json()
            detail, errors = str(problem["detail"]), problem.get("errors") or []
        except (ValueError, KeyError, TypeError):
            return self._stranger(status)
        more = [f"{one.get('field')}: {one.get('message')}" for one in errors]
        sentence = " ".join([detail, *(one for one in more if one not in detail)])
        wait = response.headers.get("retry-after")
        return Failure(f"{sentence} Try again in {wait} seconds." if wait else sentence, status=status)

    def _stranger(self, status: int = 200) -> Failure:
        sentence = f"{self.url} does not answer as this program's Parley does (status {status})."
        return Failure(f"{sentence} Check the address, or update the server.", code=UNREACHABLE, status=status)

    def _lost(self, error: Exception) -> Failure:
        sentence = f"No connection to {self.url} ({str(error) or type(error).__name__})."
        behind: BaseException | None = error
        while behind and not isinstance(behind, ssl.SSLCertVerificationError):
            behind = behind.__cause__ or behind.__context__
        if isinstance(behind, ssl.SSLCertVerificationError) and behind.verify_code in UNKNOWN_AUTHORITY:
            return Failure(f"{sentence} {TRUST}", code=UNREACHABLE)
        return Failure(f"{sentence} Check that Parley runs there, or run: parley login ADDRESS", code=UNREACHABLE)


def _server_sent(lines: Iterator[str]) -> Iterator[tuple[str, JSON | None]]:
    """Each event with its id, as the server sends them: an event per block, a comment between them."""
    id_, data = "", ""
    for line in lines:
        if line.startswith("data:"):
            data += line[5:].removeprefix(" ")
        elif line.startswith("id:"):
            id_ = line[3:].strip()
        elif not line:
            yield id_, json.loads(data) if data else None
            id_, data = "", ""


def path_of(*parts: str) -> str:
    """An address below /api/v1 from words that people or agents chose."""
    return "".join(f"/{quote(part, safe='')}" for part in parts)
