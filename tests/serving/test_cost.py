"""No body costs more than its size allows, at any door (OWASP ASVS 5, 2.4.1)."""

import os
import re
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import httpx
import pytest

from tests import stack
from tests.isolation.addresses import NOT_OURS, Address, addresses
from tests.isolation.asking import API
from tests.isolation.gaps import places
from tests.serving.hostile_bodies import BODIES, MEGABYTE, VALUES, WITHIN, Hostile, Within, within
from tests.tiers import LOOP_SECONDS

pytestmark = pytest.mark.services("it measures a web server of its own", only=True)

SIZE = MEGABYTE // 2
SECONDS_A_MEGABYTE = 0.6
"""Of the web process. A kept object of many keys takes 0.3: it is read, checked, hashed and written."""
SECONDS_A_REQUEST = 0.06
"""For a request, besides its bytes. The kernel counts in hundredths."""
MEMORY = 96 * MEGABYTE
"""By which a body of half a megabyte may raise the process's peak."""
TRIES = 3
NOT_ASKED = re.compile(
    r"sign-out|healthz.*|oauth/logout|settings/security/sessions/end|settings/password|(api/v1|settings)/keys/.*"
)
"""They end the caller's session or key, or have no body."""
READERS = [one for one in addresses() if not NOT_OURS.match(one.template) and not NOT_ASKED.fullmatch(one.template)]


@dataclass
class Parley:
    """A running Parley with a person's browser and key.

    `ids`: what parameters of addresses are filled with. `event_headers`: what the sender of an incoming webhook's event
    shows.
    """

    stack: stack.Stack
    browser: httpx.Client
    program: httpx.Client
    ids: dict[str, str] = field(default_factory=dict)
    event_headers: dict[str, str] = field(default_factory=dict)

    def path_of(self, address: Address) -> str:
        kinds = address.kinds_or_none() or {}
        return address.path({name: self.ids.get(kinds.get(name, ""), "1") for name in address.parameters})

    def processor_seconds(self) -> float:
        """Of the web process, so far."""
        fields = self._proc("stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    @contextmanager
    def peak(self) -> Iterator[list[int]]:
        """By how many bytes the web process's memory rose at most meanwhile."""
        self._proc("clear_refs").write_text("5")
        before, found = self.stack.resident_bytes(), list[int]()
        yield found
        [highest] = re.findall(r"VmHWM:\s+(\d+) kB", self._proc("status").read_text())
        found.append(int(highest) * 1024 - before)

    def _proc(self, name: str) -> Path:
        return Path(f"/proc/{self.stack.processes['web'].pid}/{name}")


def signed_in(running: stack.Stack, email: str, password: str) -> httpx.Client:
    """A browser, whose writes have the token against forgery."""
    browser = httpx.Client(base_url=running.url, timeout=120)
    form = browser.get("/sign-in").text
    [token] = re.findall(r'name="csrfmiddlewaretoken" value="(\w+)"', form)[:1]
    entered = {"username": email, "password": password, "csrfmiddlewaretoken": token}
    assert browser.post("/sign-in", data=entered, headers={"Referer": running.url}).status_code == 302
    [cookie] = [value for name, value in browser.cookies.items() if "csrf" in name]
    browser.headers.update({"X-CSRFToken": cookie, "Referer": running.url, "Accept": "text/html, */*;q=0.1"})
    return browser


@pytest.fixture(scope="module")
def parley():
    with stack.running(ACTS_PER_MINUTE="1000000") as running:
        program = httpx.Client(base_url=running.url, timeout=120)
        program.headers.update({"Authorization": f"Bearer {running.demo_key}", "A2A-Version": "1.0"})
        made = Parley(running, signed_in(running, running.demo_email, running.demo_password), program)
        sent = program.post("/api/v1/sessions", json={"agent": "echo", "message": {"text": "a"}}).json()
        about = {"agent": "echo", "name": "hook", "scheme": "bearer", "text": "a"}
        hook = program.post("/api/v1/webhooks", json=about).json()
        made.event_headers = {"Authorization": f"Bearer {hook['secret']}"}
        made.ids = {
            "incoming webhook": str(hook["id"]),
            "agent": "echo",
            "agent of the task": "echo",
            "plan": "trip",
            "session": sent["session"]["id"],
            "task of session": sent["task"]["id"],
            "message of session": str(uuid.uuid4()),
        }
        yield made


# The table: bodies × doors


@cache
def content_of(body: Hostile, place: Within | None) -> bytes:
    return place.template.replace(b"%s", body.make(SIZE), 1) if place else body.make(SIZE)


def send(parley: Parley, address: Address, body: Hostile, place: Within | None) -> float:
    """Processor seconds of the web process for the request, with each method that the address might take."""
    path = parley.path_of(address)
    client = parley.program if API.match(path) else parley.browser
    headers = {"Content-Type": body.media_type, **(place.headers if place else {}), **dict(body.headers)}
    headers |= parley.event_headers if path.startswith("/hooks/") else {}
    content = content_of(body, place).replace(b"@", uuid.uuid4().hex.encode())
    before = parley.processor_seconds()
    for method in ("POST", "PUT", "PATCH"):
        try:
            status = client.request(method, path, content=content, headers=headers).status_code
        except httpx.TransportError:  # refused before all was sent
            break
        is_off = status == 503 and path.startswith("/api/v1/voice/")  # no model that hears or speaks is connected
        assert status < 500 or is_off, f"{method} {path} with {body}: {status}"
        if status != 405:
            break
    return parley.processor_seconds() - before


EMPTY = Hostile("nothing", "application/json", lambda _: b"")


def costs_too_much(parley: Parley, address: Address, body: Hostile, place: Within | None) -> float:
    """The least processor seconds of some tries beyond those of an empty body, or 0 where they are within the limit."""
    limit = limit_of(content_of(body, place))
    least = min_until(limit, lambda: send(parley, address, body, place))
    if is_within(limit, least):
        return 0
    least -= min(send(parley, address, EMPTY, None) for _ in range(TRIES))
    return 0 if is_within(limit, least) else round(least, 2)


def limit_of(content: bytes) -> float:
    """Processor seconds that the body may take on the machine that the tiers' budgets are for."""
    return SECONDS_A_REQUEST + SECONDS_A_MEGABYTE * len(content) / MEGABYTE


def is_within(limit: float, seconds: float) -> bool:
    """Whether they are within the limit on this machine, as it is now. Measuring that costs as much as a request."""
    return seconds <= limit or seconds <= limit * slowness()


def slowness() -> float:
    """How many times more processor time a loop takes than on the machine that the tiers' budgets are for."""
    began = time.thread_time()
    for _ in range(1_000_000):
        pass
    return max(1.0, (time.thread_time() - began) / LOOP_SECONDS)


def min_until(limit: float, measure: Callable[[], float]) -> float:
    """The least of some tries; the first within the limit is enough."""
    least = float("inf")
    for _ in range(TRIES):
        least = min(least, measure())
        if is_within(limit, least):
            break
    return least


def full_table() -> dict[str, tuple[Address, Within | None]]:
    """The addresses that get every body: one of each that takes any JSON somewhere, and one of each door."""
    chosen: dict[str, tuple[Address, Within | None]] = {}
    taken: set[str] = set()
    for address in READERS:
        path = address.template.replace("{slug}", "echo")
        place = within(path)
        if place and place.pattern not in taken:
            taken.add(place.pattern)
            chosen[address.template] = (address, place)
    for door in ("hooks", "oauth/token", "sign-in", "federation/pair", "settings/profile", "api/v1/uploads"):
        [address] = [one for one in READERS if one.template.replace("/{key}", "") == door][:1]
        chosen[address.template] = (address, None)
    return chosen


FULL = full_table()


def test_each_place_for_json_is_at_an_address():
    asked = {place.pattern for _, place in FULL.values() if place}
    assert {one.pattern for one in WITHIN} - asked == set(), "Take out of WITHIN what is gone."


@pytest.mark.parametrize("door", places("cost", FULL))
def test_no_body_costs_more_than_its_size_allows(door, parley):
    address, place = FULL[door]
    table = [(one, place) for one in VALUES] if place else [(one, None) for one in BODIES]
    with parley.peak() as peak:
        over = {str(body): seconds for body, at in table if (seconds := costs_too_much(parley, address, body, at))}
    assert over == {}
    assert max(peak) < MEMORY


OTHERS = [one for one in READERS if one.template not in FULL]
PORTIONS = 4


@pytest.mark.parametrize("portion", places("cost", [f"other addresses {one}" for one in range(PORTIONS)]))
def test_no_other_address_reads_dearly(portion, parley):
    """Each gets one body of the table, by turns."""
    over = {}
    for number, address in list(enumerate(OTHERS))[int(portion[-1]) :: PORTIONS]:
        body = BODIES[number % len(BODIES)]
        if seconds := costs_too_much(parley, address, body, None):
            over[f"{address.template} {body}"] = seconds
    assert over == {}


IMPORTED = [one for one in BODIES if one.name in ("nested lists", "tiny objects", "many keys", "packed archive")]


@pytest.mark.parametrize("body", places("cost", [f"import of {one}" for one in IMPORTED]))
def test_hostile_file_is_imported_cheaply(body, parley):
    [hostile] = [one for one in IMPORTED if body == f"import of {one}"]
    content = content_of(hostile, None)
    sent = {"content": content, "headers": {"Content-Type": "application/octet-stream"}}
    upload = parley.program.post("/api/v1/uploads?filename=a", **sent).json()

    def measure() -> float:
        before = parley.processor_seconds()
        answer = parley.program.post("/api/v1/imports", json={"agent": "echo", "uploadId": upload["id"]})
        assert 400 <= answer.status_code < 500, answer.text
        return parley.processor_seconds() - before

    limit = limit_of(content.ljust(MEGABYTE))  # an archive is small, and unpacks to more
    assert is_within(limit, min_until(limit, measure))
