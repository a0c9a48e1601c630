"""Checks of URLs, and of the addresses of their names."""

import asyncio
import re
from ipaddress import ip_address

import pytest

from parley import outbound
from parley.outbound import Forbidden, Guard, TooSlow, Unreachable
from parley.outbound.targets import Allowed, is_public
from tests.outbound.forbidden import FORBIDDEN, OPEN


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


async def refused(guard, url):
    with pytest.raises(Forbidden):
        await guard.vet(url)


def test_only_public_urls_are_taken():
    for what, urls in FORBIDDEN.items():
        for url in urls:
            assert re.search(r"\w.*\.", refusal(outbound.guard(), url) or ""), (what, url)
    assert {url: refusal(outbound.guard(), url) for url in OPEN} == dict.fromkeys(OPEN)
    target = outbound.guard().check("HTTPS://Example.COM:8443/Path")
    assert (target.host, target.port) == ("example.com", 8443)
    assert outbound.guard().check("https://[2606:4700:0:0::1]/").host == "2606:4700::1"
    with pytest.raises(Forbidden):
        opening(to=("10.0.0.1",)).vet_now("https://example.com/")
    opening("10.0.0.0/8", to=("10.0.0.1",)).vet_now("https://example.com/")


def test_the_edges_of_closed_networks():
    inside = ["9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "172.15.255.255", "172.32.0.0",
              "192.167.255.255", "198.17.255.255", "198.20.0.0", "223.255.255.255", "2001:200::", "2003::",
              "3ffe:ffff::", "2001:db7::", "2001:db9::"]  # fmt: skip
    outside = ["10.0.0.0", "10.255.255.255", "172.31.255.255", "100.127.255.255", "198.19.255.255", "224.0.0.0",
               "1fff::", "4000::", "3fff:fff::", "2001:1ff::", "2002:ffff::", "2001:db8:ffff::"]  # fmt: skip
    assert [text for text in inside if not is_public(ip_address(text))] == []
    assert [text for text in outside if is_public(ip_address(text))] == []


async def test_names_need_only_public_addresses():
    for addresses in (("8.8.8.8", "127.0.0.1"), ("::1", "8.8.8.8"), ("2606:4700::1%1",), ("169.254.169.254",)):
        await refused(Guard(resolve=resolving(*addresses)), "https://example.com/")
    found = await Guard(resolve=resolving("8.8.8.8", "2606:4700::1111")).addresses("example.com", 443)
    assert [str(address) for address in found] == ["8.8.8.8", "2606:4700::1111"]
    await refused(Guard(Allowed.read(["10.0.0.0/8"])), "http://localhost/")  # the system's resolver is asked
    await Guard(Allowed.read(["127.0.0.0/8", "::1"])).vet("http://localhost/")


async def test_opened_networks_and_names_are_open_alone():
    network = opening("10.0.0.0/8", "fd00::/8", to=("10.9.9.9", "fd12::1"))
    for url in ("http://10.1.2.3/", "http://[fd12::1]/", "http://models.internal/"):
        await network.vet(url)
    assert refusal(network, "http://192.168.0.1/")
    assert refusal(network, "http://[::ffff:10.1.2.3]/")
    name = opening("models.internal", to=("10.9.9.9",))
    await name.vet("http://MODELS.internal:11434/")
    await refused(name, "http://other.internal/")
    assert refusal(name, "http://10.9.9.9/")


async def test_hosts_opened_with_a_port_stay_there():
    guard = opening("models.internal:11434", "[::1]:8080", "127.0.0.1:9", to=("10.9.9.9",))
    for url in ("http://models.internal:11434/", "http://[::1]:8080/", "http://127.0.0.1:9/"):
        guard.check(url)
    await guard.vet("http://models.internal:11434/")
    await refused(guard, "http://models.internal/")
    assert refusal(guard, "http://[::1]/")
    assert refusal(guard, "http://127.0.0.1:10/")


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
def test_local_names_are_taken_only_if_open(entry, taken):
    urls = ["http://localhost:11434/", "http://foo.localhost:11434/", "http://foo.localhost/", "http://db.internal/",
            "http://nas.home.arpa/", "http://redis/"]  # fmt: skip
    guard = opening(entry)
    assert {url for url in urls if refusal(guard, url) is None} == taken


async def test_metadata_addresses_are_opened_by_themselves_alone():
    wide = opening("169.254.0.0/16", "0.0.0.0/0", "metadata.internal", to=("169.254.169.254",))
    assert refusal(wide, "http://169.254.169.254/")
    await refused(wide, "http://metadata.internal/")
    for named in ("169.254.169.254", "169.254.169.254/32", "169.254.169.254:80"):
        opening(named).check("http://169.254.169.254/")


def test_entries_that_mean_nothing_are_refused():
    for entry in ("10.0.0.1/8", "10.0.0.0/40", "a b", "http://inside/", "127.1", "host:port", "*.internal"):
        with pytest.raises(ValueError, match=r"\w"):
            Allowed.read([entry])
    assert Allowed.read(["", "  "]).is_empty


async def test_names_without_an_address_are_unreachable(monkeypatch):
    async def failing(name, port):
        raise OSError("no such host")

    async def never(name, port):
        await asyncio.Event().wait()

    for resolve in (failing, resolving(), resolving("not an address")):
        with pytest.raises(Unreachable, match=r"example\.com cannot be resolved"):
            await Guard(resolve=resolve).vet("https://example.com/")
    monkeypatch.setattr("parley.outbound.targets.LOOK_UP_SECONDS", 0.01)
    with pytest.raises(TooSlow, match="longer than"):
        await Guard(resolve=never).vet("https://example.com/")
