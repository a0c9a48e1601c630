"""Checks of the public address, as other machines see it: through the proxy and its TLS."""

from __future__ import annotations

import asyncio
import datetime
import time
from contextlib import suppress
from urllib.parse import urlsplit

from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus
from websockets.typing import Origin

from apps.accounts.requests.consumers import SIGNED_OUT
from apps.installation.safety import is_local
from apps.operators import probes
from apps.operators.doctor import calls
from apps.operators.doctor.calls import SECONDS, Reply
from apps.operators.doctor.examination import Finding, Patient, describe, ok, problem, warning
from parley import outbound

STREAM = "/healthz/stream"  # four events within a second
SOCKET = "/ws/events"
MIN_SPREAD_SECONDS = 0.3  # between the first and last event
SKEW_SECONDS = 2.0
STRANGER = "192.0.2.66"  # for documentation (RFC 5737): nobody calls from it
LATE, LAST = datetime.timedelta(days=21), datetime.timedelta(days=7)  # before a certificate's end
LATE_PART, LAST_PART = 6, 15  # of the time of a short one: ACME clients renew when a third is left
BAD_REQUEST, FORBIDDEN, NOT_FOUND = 400, 403, 404


def web_server(patient: Patient) -> Finding:
    start = (
        "Start Parley, and look at the proxy's log. Both must serve PUBLIC_BASE_URL (or --url), and DNS or --resolve"
        " must lead there."
    )
    try:
        answer = calls.get(patient, "/healthz")
    except outbound.Untrusted as error:
        return calls.untrusted(patient, error)
    except outbound.OutboundError as error:
        return problem(f"{patient.url} cannot be reached. {error}", start)
    if answer.location:
        advice = "Set PUBLIC_BASE_URL to the address that answers."
        return problem(f"{patient.url} redirects to {answer.location}.", advice)
    if answer.json.get("status") != "ok":
        return problem(f"Something other than Parley answers at {patient.url} ({answer.status}).", start)
    return ok(f"Parley answers at {patient.url}.")


def certificate(patient: Patient) -> Finding:
    """Is it renewed in time?"""
    own = asyncio.run(calls.certificate(patient))
    if own is None:
        return ok(f"{patient.url} has none.")
    left = own.not_valid_after_utc - datetime.datetime.now(datetime.UTC)
    whole = own.not_valid_after_utc - own.not_valid_before_utc
    text = f"The certificate ends in {left.days} days, at {own.not_valid_after_utc:%Y-%m-%d %H:%M} UTC."
    advice = "Look why it was not renewed (certbot renew; Caddy's log), and let the proxy load the new one."
    if left < min(LAST, whole / LAST_PART):
        return problem(text, advice)
    return warning(text, advice) if left < min(LATE, whole / LATE_PART) else ok(text)


def proxy_headers(patient: Patient) -> Finding:
    """Does Parley know by which scheme, for which name and from where a request came?"""
    answer = _seen(patient)
    if answer.status == NOT_FOUND:
        text = "The web processes do not know this command: they have another SECRET_KEY or version."
        return problem(text, "Give all processes the same settings and version, and restart them.")
    if not answer.json:
        text = f"The proxy does not pass /{probes.REQUEST} on (status {answer.status})."
        return problem(text, "Let it pass all paths on.")
    public, request = urlsplit(patient.url), answer.json
    host = urlsplit(f"//{request['host']}").hostname
    if host != public.hostname:
        advice = "Let the proxy pass it on: nginx: proxy_set_header Host $host."
        return problem(f"Parley is asked for {host or 'no name'} instead of {public.hostname}.", advice)
    if request["scheme"] != public.scheme:
        return _wrong_scheme(public.scheme, request)
    return _caller(patient, request)


def _wrong_scheme(scheme: str, request: dict[str, str | None]) -> Finding:
    said = request["forwardedProto"]
    effect = f"so Parley takes {scheme} for {request['scheme']}, and its pages redirect to themselves."
    if said is None:
        advice = "nginx: proxy_set_header X-Forwarded-Proto $scheme. Caddy sends it by itself."
        return problem(f"The proxy does not send X-Forwarded-Proto, {effect}", advice)
    if said != scheme:
        advice = "Where TLS ends before this proxy, let it pass on the X-Forwarded-Proto that it gets."
        return problem(f"The proxy sends X-Forwarded-Proto: {said}, {effect}", advice)
    return problem(f"The proxy at {request['address']} is not believed, {effect}", _trust(request))


def _caller(patient: Patient, request: dict[str, str | None]) -> Finding:
    said, address = request["forwardedFor"], request["address"]
    if said == STRANGER == address and not is_local(patient.url):
        text = "Callers choose their address: the X-Forwarded-For that they send is believed, so they escape limits."
        return warning(text, "nginx: proxy_set_header X-Forwarded-For $remote_addr.")
    if said is None:
        text = "The proxy does not send X-Forwarded-For: all callers share its address, and its limits."
        return warning(text, "nginx: proxy_set_header X-Forwarded-For $remote_addr. Caddy sends it by itself.")
    if said != STRANGER and (address or "") not in said:
        text = f"The proxy at {address} is not believed: all callers share its address, and its limits."
        return warning(text, _trust(request))
    return ok(f"Parley sees that requests come by {request['scheme']} and from where.")


def _trust(request: dict[str, str | None]) -> str:
    place = "in the environment of the web processes, and restart them"
    return f"Add {request['address']} to FORWARDED_ALLOW_IPS {place}. Daphne: --proxy-headers."


def _seen(patient: Patient) -> Reply:
    return calls.get(patient, f"/{probes.REQUEST}", {**probes.signature(), "X-Forwarded-For": STRANGER})


def web_clock(patient: Patient) -> Finding:
    asked = time.time()
    there = _seen(patient).json.get("time")
    answered = time.time()
    if there is None:
        return warning("Not checked.", "First solve the problem of: proxy headers.")
    skew = max(asked - there, there - answered, 0.0)  # at least
    text = f"The web server's clock differs by {skew:.1f} s from this machine's."
    if skew > SKEW_SECONDS:
        return warning(text, "Let both machines set their clock by NTP: signatures and links expire by it.")
    return ok(text)


def agent_card(patient: Patient) -> Finding:
    """Does the installation's card lead to the address that it was read from?"""
    answer = calls.get(patient, "/.well-known/agent-card.json")
    if answer.status == NOT_FOUND:
        return ok("There is no agent with an open card.")
    if answer.status != 200:
        advice = "Look at the web server's log."
        if answer.status == BAD_REQUEST:
            advice = "Let the proxy pass the Host header on, and add its name to ALLOWED_HOSTS."
        return problem(f"The card is not served (status {answer.status}).", advice)
    urls = [str(one.get("url", "")) for one in answer.json.get("supportedInterfaces", [])]
    if wrong := [url for url in urls if not url.startswith(f"{patient.url}/")]:
        advice = f"Set PUBLIC_BASE_URL of the web processes to {patient.url}."
        return problem(f"The card leads agents to {wrong[0]}.", advice)
    return ok(f"The card leads agents to {urls[0] if urls else patient.url}.")


def streaming(patient: Patient) -> Finding:
    """Do the first bytes of a stream come before its end?"""
    status, came = asyncio.run(_streamed(patient))
    if status != 200:
        return problem(f"The stream is refused (status {status}).", f"Let the proxy pass {STREAM} on.")
    if not came:
        return problem("The stream ended without an event.", "Let the proxy pass text/event-stream unchanged.")
    if came[-1] - came[0] < MIN_SPREAD_SECONDS:
        advice = "Switch buffering off: nginx: proxy_buffering off; Caddy: flush_interval -1."
        return problem("A proxy holds streams back until they end, so nothing is live.", advice)
    return ok("Events arrive while a stream goes on.")


async def _streamed(patient: Patient) -> tuple[int, list[float]]:
    """The status, and when events came."""
    async with calls.exchange(patient) as way, way.send("GET", patient.url + STREAM, {}) as answer:
        return answer.status, [time.monotonic() async for chunk in answer.body if b"data:" in chunk]


def websockets(patient: Patient) -> Finding:
    """Does one open, and does its first message come? Nobody is signed in, so Parley closes it and says so."""
    advice = "nginx: set proxy_http_version 1.1, Upgrade and Connection as in deploy/nginx/parley.conf."
    try:
        code = asyncio.run(_closed_with(patient))
    except InvalidStatus as refusal:
        status = refusal.response.status_code
        if status == FORBIDDEN:
            text = f"Parley refuses WebSockets of pages at {patient.url}."
            return problem(text, "Set PUBLIC_BASE_URL to the address that people use.")
        return problem(f"The proxy does not pass WebSockets on (status {status}), so pages are not live.", advice)
    except (InvalidHandshake, OSError, TimeoutError) as error:
        return problem(f"WebSockets do not open, so pages are not live. {describe(error)}", advice)
    if code != SIGNED_OUT:
        return problem(f"The proxy cuts WebSockets off (code {code}), so pages are not live.", advice)
    return ok("WebSockets open.")


async def _closed_with(patient: Patient) -> int:
    """The code with which Parley closes a WebSocket. Raises InvalidHandshake, OSError, TimeoutError."""
    there = calls.target(patient)
    *others, last = await calls.guard(patient).addresses(there.host, there.port)
    for address in others:
        with suppress(OSError, TimeoutError):
            return await _closed_by(address, patient)
    return await _closed_by(last, patient)


async def _closed_by(address: object, patient: Patient) -> int:
    there, tls = calls.target(patient), outbound.trusted() if patient.url.startswith("https:") else None
    async with connect(
        patient.url.replace("http", "ws", 1) + SOCKET,
        host=str(address), port=there.port, origin=Origin(patient.url), proxy=None, open_timeout=SECONDS, ssl=tls,
    ) as socket:  # fmt: skip
        try:
            await asyncio.wait_for(socket.recv(), SECONDS)
        except ConnectionClosed:
            return socket.close_code or 0
        return 0
