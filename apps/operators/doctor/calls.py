"""Calls to the public address, as others make them: by its name, through the proxy, and with the trust of all calls."""

from __future__ import annotations

import asyncio
import json
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urljoin

from cryptography import x509
from django.conf import settings

from apps.operators.doctor.examination import Finding, Patient, problem
from parley import outbound
from parley.outbound import Allowed, Exchange, Guard, Limits, Redirected, targets
from parley.outbound.targets import Target

SECONDS = 10.0
RESOLVED = re.compile(r"(?P<host>[^:\[\]]+):(?P<port>\d{1,5}):(?P<address>.+)")


@dataclass(frozen=True, slots=True)
class Reply:
    """A response. Names of `headers` are in lower case. `location` is where a redirect leads, as a whole URL."""

    url: str
    status: int
    headers: Mapping[str, str]
    body: bytes
    location: str = ""

    @property
    def json(self) -> dict[str, Any]:
        """Empty if it is no JSON object."""
        try:
            found = json.loads(self.body)
        except ValueError:
            return {}
        return found if isinstance(found, dict) else {}

    @property
    def media_type(self) -> str:
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()


def resolved(entries: list[str]) -> dict[tuple[str, int], str]:
    """Addresses by name and port, of entries such as `parley.example.org:443:127.0.0.1`. Raises ValueError."""
    found = {}
    for entry in entries:
        match = RESOLVED.fullmatch(entry)
        address = targets.address_of(match["address"].removeprefix("[").removesuffix("]")) if match else None
        if match is None or address is None:
            raise ValueError(f"{entry!r} is not HOST:PORT:ADDRESS, such as parley.example.org:443:127.0.0.1.")
        found[match["host"].lower(), int(match["port"])] = str(address)
    return found


def get(patient: Patient, path: str, headers: Mapping[str, str] | None = None) -> Reply:
    """The response at a path of the public address, or at a whole URL of it. Raises outbound.OutboundError."""

    async def asked() -> Reply:
        async with exchange(patient) as way:
            return await fetch(way, urljoin(patient.url, path), headers)

    return asyncio.run(asked())


async def fetch(
    way: Exchange, url: str, headers: Mapping[str, str] | None = None, *, method: str = "GET", content: bytes = b""
) -> Reply:
    """Raises outbound.OutboundError, but not for a redirect."""
    agent = {"User-Agent": f"Parley doctor ({settings.INSTALLATION})"}
    try:
        async with way.send(method, url, {**agent, **(headers or {})}, content) as answer:
            named = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in answer.headers}
            return Reply(url, answer.status, named, await answer.read())
    except Redirected as elsewhere:
        return Reply(url, 302, {}, b"", urljoin(url, elsewhere.location))


def exchange(patient: Patient, seconds: float = SECONDS) -> Exchange:
    """To the public address alone, wherever it is. Raises outbound.Forbidden if it is no URL."""
    return Exchange(guard(patient), Limits(seconds=seconds))


def guard(patient: Patient) -> Guard:
    async def resolve(name: str, port: int) -> list[str]:
        known = patient.resolve.get((name, port))
        return [known] if known else await targets.look_up(name, port)

    return Guard(Allowed.read([target(patient).entry]), resolve)


def target(patient: Patient) -> Target:
    return targets.parse_url(patient.url)


async def certificate(patient: Patient, *, is_verified: bool = True) -> x509.Certificate | None:
    """That of the public address; None without TLS. Raises outbound.OutboundError."""
    trusted = None if is_verified else _anyone()
    async with Exchange(guard(patient), Limits(seconds=SECONDS), trusted=trusted) as way:
        response, _ = await way.open("GET", f"{patient.url}/healthz", [], b"")
        line = response.extensions["network_stream"].get_extra_info("ssl_object")
        await response.aclose()
        return x509.load_der_x509_certificate(line.getpeercert(binary_form=True)) if line else None


def _anyone() -> ssl.SSLContext:
    """To look at a certificate that may have expired. Nothing secret is sent."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


REFUSALS = {  # by OpenSSL's codes, X509_V_ERR_*
    9: ("The certificate of {host} is not valid yet.", "Set this machine's clock by NTP."),
    10: ("The certificate of {host} has expired.", "Renew it, and let the proxy load the new one."),
    62: (
        "The certificate is not for {host}.",
        "Give the proxy a certificate for this name, or set PUBLIC_BASE_URL to a name of the certificate.",
    ),
}
OTHER_REFUSAL = (
    "This machine does not know who signed the certificate. {error}",
    "Add the authority to this machine's (update-ca-certificates), or name it by SSL_CERT_FILE. Let the proxy send the"
    " whole chain.",
)


def untrusted(patient: Patient, error: outbound.Untrusted) -> Finding:
    """What is wrong with a certificate that is refused."""
    text, advice = REFUSALS.get(error.code, OTHER_REFUSAL)
    return problem(text.format(host=target(patient).host, error=error), advice)
