"""The doctor at the public address: green behind good proxies, and each defect of a proxy has its finding."""

import asyncio
import json
import shutil
import time
from functools import partial
from urllib.parse import urlsplit

import httpx
import pytest
from django.apps import apps
from django.utils import timezone
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route

from apps.agents.registration import house_workspace
from apps.operators.doctor import CHECKS, Patient, State, calls
from parley import outbound
from parley.asgi import application
from tests import stack
from tests.operators import proxies
from tests.operators.proxies import Proxy
from tests.outbound import certificates
from tests.remote.scripted import serving_app

NAME = "parley.example.test"
OK, WARNING, PROBLEM = State
HERE = {"disk", "queue", "static files", "data folder", "database connections"}  # what tests do to this machine
INSTALLED = pytest.mark.slow("nginx and Caddy must be installed")


@pytest.fixture(scope="module")
def company(tmp_path_factory):
    """An authority, and the file that makes machines trust it."""
    authority = certificates.certificate(days=1000)
    file = tmp_path_factory.mktemp("company") / "authority.pem"
    file.write_bytes(certificates.pem(authority[0]))
    return authority, file


@pytest.fixture(scope="module")
def certified(company, tmp_path_factory):
    """The folder with the public name's certificate, and a server's TLS with it."""
    folder = tmp_path_factory.mktemp("proxy")
    return folder, certificates.serving(folder, certificates.certificate(NAME, by=company[0], days=60))


@pytest.fixture(scope="module")
def parley(company):
    """Parley with a public address where a proxy is to be, and the company's authority."""
    with stack.prepared() as prepared:
        prepared.public_port = stack.free_port()
        prepared.environment |= {
            "PUBLIC_BASE_URL": f"https://{NAME}:{prepared.public_port}", "ALLOWED_HOSTS": f"{NAME},127.0.0.1",
            "FORWARDED_ALLOW_IPS": "127.0.0.1", "SSL_CERT_FILE": str(company[1]),
        }  # fmt: skip
        prepared.start()
        yield prepared


@pytest.fixture
def patient(parley, company, monkeypatch):
    """For checks in this process, which trust the company too."""
    monkeypatch.setenv("SSL_CERT_FILE", str(company[1]))
    outbound.trusted.cache_clear()
    yield Patient(parley.environment["PUBLIC_BASE_URL"], resolve={(NAME, parley.public_port): "127.0.0.1"})
    outbound.trusted.cache_clear()


@pytest.fixture
def proxy(parley, certified):
    proxy = Proxy(parley.port, certified[1])
    with proxy.listening(parley.public_port):
        yield proxy


def found(name, patient):
    check = next(check for check in CHECKS if check.name == name)
    return check.find(patient)


def in_front(program, parley, folder, tls):
    if program == "python":
        return Proxy(parley.port, tls).listening(parley.public_port)
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")
    return getattr(proxies, program)(folder, NAME, parley.public_port, parley.port)


@INSTALLED
def test_nginx_limits_attempts_to_sign_in_alone(certified):
    page = Route("/sign-in", lambda _: Response(), methods=["GET", "POST"])
    with serving_app(Starlette(routes=[page])) as upstream:
        port = stack.free_port()
        with proxies.nginx(certified[0], NAME, port, urlsplit(upstream).port), httpx.Client(verify=False) as browser:
            ask = partial(browser.request, url=f"https://127.0.0.1:{port}/sign-in", headers={"Host": NAME})
            assert {ask("GET").status_code for _ in range(40)} == {200}
            assert {ask("POST").status_code for _ in range(40)} == {200, 429}
            assert ask("GET").status_code == 200


@pytest.mark.services("it examines PostgreSQL, a broker and Redis")
@pytest.mark.parametrize(
    "program", ["python", pytest.param("nginx", marks=INSTALLED), pytest.param("caddy", marks=INSTALLED)]
)
def test_healthy_installation_behind_a_proxy_is_green(program, parley, certified, tmp_path):
    parley.manage("backup", str(tmp_path / "first.tar"))
    with in_front(program, parley, *certified):
        there = f"{NAME}:{parley.public_port}:127.0.0.1"
        done = parley.manage("doctor", "--json", "--resolve", there, check=False)
    examined = json.loads(done.stdout)
    states = {one["name"]: one["state"] for one in examined["checks"]}
    assert set(states) == {check.name for check in CHECKS}
    assert [one for one in examined["checks"] if one["state"] != OK and one["name"] not in HERE] == []
    assert examined["status"] != PROBLEM


@pytest.mark.parametrize(
    ("fault", "name", "state"),
    [
        ("no X-Forwarded-Proto", "proxy headers", PROBLEM),
        ("no X-Forwarded-Proto", "sign-in page", PROBLEM),
        ("X-Forwarded-Proto: http", "proxy headers", PROBLEM),
        ("unknown to Parley", "proxy headers", PROBLEM),
        ("no Host", "proxy headers", PROBLEM),
        ("no X-Forwarded-For", "proxy headers", WARNING),
        ("callers' X-Forwarded-For", "proxy headers", WARNING),
        ("redirects", "sign-in page", PROBLEM),
        ("redirects away", "sign-in page", PROBLEM),
        ("no static files", "page files", PROBLEM),
        ("static files are pages", "page files", PROBLEM),
        ("old static files", "page files", PROBLEM),
        ("buffers", "streaming", PROBLEM),
        ("no upgrade", "WebSockets", PROBLEM),
        ("cuts WebSockets", "WebSockets", PROBLEM),
    ],
)
def test_each_defect_of_a_proxy_is_found(patient, proxy, fault, name, state):
    assert found(name, patient).state == OK
    proxy.faults = frozenset({fault})
    finding = found(name, patient)
    assert (finding.state, bool(finding.advice)) == (state, True)


@pytest.mark.parametrize(
    ("names", "of_company", "since", "days", "name", "state"),
    [
        ([NAME], True, 80, 10, "certificate", WARNING),
        ([NAME], True, 88, 2, "certificate", PROBLEM),
        ([NAME], True, 3000, 30, "certificate", OK),
        ([NAME], True, 88, -1, "web server", PROBLEM),
        ([NAME], False, 1, 60, "web server", PROBLEM),
        (["other.example.test"], True, 1, 60, "web server", PROBLEM),
    ],
    ids=["ends in days", "ends now", "is long", "has ended", "of another authority", "of another name"],
)
def test_each_defect_of_a_certificate_is_found(
    parley, company, patient, tmp_path, names, of_company, since, days, name, state
):
    by = company[0] if of_company else certificates.certificate()
    tls = certificates.serving(tmp_path, certificates.certificate(*names, by=by, since=since, days=days))
    with Proxy(parley.port, tls).listening(parley.public_port):
        finding = found(name, patient)
    assert (finding.state, bool(finding.advice)) == (state, state != OK)


def test_end_of_an_expired_certificate_is_known(parley, patient, company, tmp_path):
    tls = certificates.serving(tmp_path, certificates.certificate(NAME, by=company[0], since=88, days=-1))
    with Proxy(parley.port, tls).listening(parley.public_port):
        own = asyncio.run(calls.certificate(patient, is_verified=False))
    assert own.not_valid_after_utc < timezone.now()


def test_absent_proxy_and_other_settings_are_found(parley, patient, settings):
    assert found("web server", patient).state == PROBLEM
    direct = Patient(parley.url)
    assert found("web server", direct).state == OK
    assert found("agent card", direct).state == PROBLEM  # it leads to the public address
    settings.SECRET_KEY = "another one than that of the web processes"
    assert found("proxy headers", direct).state == PROBLEM


def test_web_clock_that_is_wrong_is_found(patient, proxy, monkeypatch):
    assert found("web clock", patient).state == OK
    now = time.time() + 60
    monkeypatch.setattr(time, "time", lambda: now)
    assert found("web clock", patient).state == WARNING


def test_send_comes_back_and_leaves_nothing(worker):
    house_workspace()
    with serving_app(application) as url:
        patient, before = Patient(url.rstrip("/")), rows()
        assert found("send", patient).state == OK
        assert rows() == before
        proxy, port = Proxy(int(url.rpartition(":")[2].strip("/"))), stack.free_port()
        proxy.faults = frozenset({"no Authorization"})
        with proxy.listening(port):
            assert found("send", Patient(f"http://127.0.0.1:{port}")).state == PROBLEM
        assert rows() == before


def rows():
    """How many there are, by model, besides the audit and what processes note of themselves."""
    others = {"accounts.auditentry", "accounts.audithead", "housekeeping.serverprocess", "housekeeping.periodicjob"}
    models = [one for one in apps.get_models() if one._meta.managed and one._meta.label_lower not in others]
    return {model._meta.label: model._base_manager.count() for model in models}
