"""Checks of URLs, and of the addresses of their names."""

import asyncio
import re
from ipaddress import ip_address

import pytest

import outbound
from outbound import Forbidden, Guard, TooSlow, Unreachable
from outbound.targets import Allowed, is_public
from tests.outbound.forbidden import BY_THEMSELVES, OPEN


def resolving(*addresses):
    async def resolve(name, port):
        return addresses

    return resolve


def opening(*entries, to=("8.8.8.8",)):
    """A guard that allows these entries, which names resolve to."""
    return Guard(Allowed.read(entries), resolving(*to))


def refusal(guard, url):
    """The refusal of a URL without a look-up, or None."""
    try:
        guard.check(url)
    except Forbidden as error:
        return str(error)
    return None


def test_a_url_that_leads_nowhere_public_is_refused_without_a_look_up_and_one_of_the_internet_is_taken():
    for what, url in BY_THEMSELVES.items():
        told = refusal(outbound.guard(), url)
        assert told is not None, what
        assert re.search(r"\w.*\.", told), what
    for what, url in OPEN.items():
        assert refusal(outbound.guard(), url) is None, what


def test_a_target_is_written_in_one_form():
    target = outbound.guard().check("HTTPS://Example.COM:8443/Path")
    assert (target.host, target.port) == ("example.com", 8443)
    assert outbound.guard().check("https://[2606:4700:0:0::1]/").host == "2606:4700::1"


def test_the_edges_of_closed_networks():
    inside = ["9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "172.15.255.255", "172.32.0.0",
              "192.167.255.255", "198.17.255.255", "198.20.0.0", "223.255.255.255", "2001:200::", "2003::",
              "3ffe:ffff::", "2001:db7::", "2001:db9::"]  # fmt: skip
    outside = ["10.0.0.0", "10.255.255.255", "172.31.255.255", "100.127.255.255", "198.19.255.255", "224.0.0.0",
               "1fff::", "4000::", "3fff:fff::", "2001:1ff::", "2002:ffff::", "2001:db8:ffff::"]  # fmt: skip
    assert [text for text in inside if not is_public(ip_address(text))] == []
    assert [text for text in outside if is_public(ip_address(text))] == []


@pytest.mark.parametrize(
    "addresses", [("8.8.8.8", "127.0.0.1"), ("::1", "8.8.8.8"), ("2606:4700::1%1",), ("169.254.169.254",)]
)
async def test_a_name_is_refused_if_any_of_its_addresses_is(addresses):
    with pytest.raises(Forbidden):
        await Guard(resolve=resolving(*addresses)).vet("https://example.com/")


async def test_a_name_that_leads_to_public_addresses_gives_them():
    found = await Guard(resolve=resolving("8.8.8.8", "2606:4700::1111")).addresses("example.com", 443)
    assert [str(address) for address in found] == ["8.8.8.8", "2606:4700::1111"]


async def test_a_name_that_cannot_be_resolved_is_no_forbidden_one():
    async def failing(name, port):
        raise OSError("no such host")

    for resolve in (failing, resolving(), resolving("not an address")):
        with pytest.raises(Unreachable, match=r"example\.com cannot be resolved"):
            await Guard(resolve=resolve).vet("https://example.com/")


async def test_a_look_up_that_takes_too_long_is_given_up(monkeypatch):
    async def never(name, port):
        await asyncio.Event().wait()

    monkeypatch.setattr("outbound.targets.LOOK_UP_SECONDS", 0.01)
    with pytest.raises(TooSlow, match="longer than"):
        await Guard(resolve=never).vet("https://example.com/")


async def test_the_systems_resolver_is_asked_by_default():
    with pytest.raises(Forbidden):
        await Guard(Allowed.read(["10.0.0.0/8"])).vet("http://localhost/")
    await Guard(Allowed.read(["127.0.0.0/8", "::1"])).vet("http://localhost/")


def test_code_without_an_event_loop_can_ask_too():
    with pytest.raises(Forbidden):
        opening(to=("10.0.0.1",)).vet_now("https://example.com/")
    opening("10.0.0.0/8", to=("10.0.0.1",)).vet_now("https://example.com/")


async def test_a_network_that_is_opened_is_open_and_no_other():
    guard = opening("10.0.0.0/8", "fd00::/8", to=("10.9.9.9", "fd12::1"))
    guard.check("http://10.1.2.3/")
    guard.check("http://[fd12::1]/")
    await guard.vet("http://models.internal/")
    assert refusal(guard, "http://192.168.0.1/")
    assert refusal(guard, "http://[::ffff:10.1.2.3]/")


async def test_a_host_that_is_opened_by_name_may_lead_inside():
    guard = opening("models.internal", to=("10.9.9.9",))
    await guard.vet("http://MODELS.internal:11434/")
    with pytest.raises(Forbidden):
        await guard.vet("http://other.internal/")
    assert refusal(guard, "http://10.9.9.9/")


@pytest.mark.parametrize(
    ("entry", "taken"),
    [
        ("127.0.0.1:11434", {"http://localhost:11434/", "http://foo.localhost:11434/"}),
        ("foo.localhost", {"http://foo.localhost/", "http://foo.localhost:11434/"}),
        ("127.0.0.0/8", {"http://localhost:11434/", "http://foo.localhost:11434/", "http://foo.localhost/"}),
        ("10.0.0.0/8", {"http://db.internal/", "http://nas.home.arpa/", "http://redis/"}),
        ("10.0.0.5:80", {"http://db.internal/", "http://nas.home.arpa/", "http://redis/"}),
        ("other.internal", set()),
        ("8.8.8.8:1", set()),
    ],
)
def test_a_local_name_is_taken_only_if_it_may_lead_to_what_is_open(entry, taken):
    urls = ["http://localhost:11434/", "http://foo.localhost:11434/", "http://foo.localhost/", "http://db.internal/",
            "http://nas.home.arpa/", "http://redis/"]  # fmt: skip
    guard = opening(entry)
    assert {url for url in urls if refusal(guard, url) is None} == taken


async def test_a_host_that_is_opened_with_a_port_is_open_there_alone():
    guard = opening("models.internal:11434", "[::1]:8080", "127.0.0.1:9", to=("10.9.9.9",))
    await guard.vet("http://models.internal:11434/")
    with pytest.raises(Forbidden):
        await guard.vet("http://models.internal/")
    guard.check("http://[::1]:8080/")
    guard.check("http://127.0.0.1:9/")
    assert refusal(guard, "http://[::1]/")
    assert refusal(guard, "http://127.0.0.1:10/")


async def test_a_metadata_address_stays_closed_unless_it_is_named_itself():
    wide = opening("169.254.0.0/16", "0.0.0.0/0", "metadata.internal", to=("169.254.169.254",))
    assert refusal(wide, "http://169.254.169.254/")
    with pytest.raises(Forbidden):
        await wide.vet("http://metadata.internal/")
    for named in ("169.254.169.254", "169.254.169.254/32", "169.254.169.254:80"):
        opening(named).check("http://169.254.169.254/")


@pytest.mark.parametrize(
    "entry", ["10.0.0.1/8", "10.0.0.0/40", "a b", "http://inside/", "127.1", "host:port", "*.internal"]
)
def test_an_entry_that_means_nothing_is_refused(entry):
    with pytest.raises(ValueError, match=r"\w"):
        Allowed.read([entry])


def test_empty_entries_open_nothing():
    assert Allowed.read(["", "  "]).is_empty
