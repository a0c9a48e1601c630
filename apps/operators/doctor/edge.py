"""Checks of the public address, as other machines see it: through the proxy and its TLS."""

from __future__ import annotations

import time
from email.utils import parsedate_to_datetime
from typing import Any

import httpx
from django.conf import settings

from apps.operators.doctor.examination import Finding, Patient, describe, ok, problem, warning

SECONDS = 5.0
STREAM = "/healthz/stream"  # four events within a second
MIN_SPREAD_SECONDS = 0.3  # between its first and last event
SKEW_SECONDS = 5.0


def web_server(patient: Patient) -> Finding:
    start = "Start Parley, and look at the proxy's log. Both must serve PUBLIC_BASE_URL (or --url)."
    try:
        answer = _get(patient.url + "/healthz")
    except httpx.HTTPError as error:
        if "CERTIFICATE" in str(error).upper():
            return problem(f"The certificate is not valid. {describe(error)}", "Renew it, or add its authority here.")
        return problem(f"{patient.url} cannot be reached. {describe(error)}", start)
    if answer.is_redirect:
        where = answer.headers.get("location", "")
        return problem(f"{patient.url} redirects to {where}.", "Set PUBLIC_BASE_URL to the address that answers.")
    if _json(answer).get("status") != "ok":
        return problem(f"Something other than Parley answers at {patient.url} ({answer.status_code}).", start)
    return ok(f"Parley answers at {patient.url}.")


def agent_card(patient: Patient) -> Finding:
    """Does the installation's card lead to the address that it was read from?"""
    answer = _get(patient.url + "/.well-known/agent-card.json")
    if answer.status_code == 404:
        return ok("There is no agent with an open card.")
    if answer.status_code != 200:
        advice = "Let the proxy pass the Host header on, and add its name to ALLOWED_HOSTS."
        return problem(f"The card is not served (status {answer.status_code}).", advice)
    urls = [str(one.get("url", "")) for one in _json(answer).get("supportedInterfaces", [])]
    if wrong := [url for url in urls if not url.startswith(f"{patient.url}/")]:
        advice = f"Set PUBLIC_BASE_URL of the web processes to {patient.url}."
        return problem(f"The card leads agents to {wrong[0]}.", advice)
    return ok(f"The card leads agents to {urls[0] if urls else patient.url}.")


def streaming(patient: Patient) -> Finding:
    """Do the first bytes of a stream come before its end?"""
    came: list[float] = []
    with httpx.stream("GET", patient.url + STREAM, timeout=SECONDS, trust_env=False) as answer:
        if answer.status_code != 200:
            return problem(f"The stream is refused (status {answer.status_code}).", "Let the proxy pass /healthz/ on.")
        for line in answer.iter_lines():
            if line.startswith("data:"):
                came.append(time.monotonic())
    if not came:
        return problem("The stream ended without an event.", "Let the proxy pass text/event-stream unchanged.")
    if came[-1] - came[0] < MIN_SPREAD_SECONDS:
        advice = (
            "Switch buffering off: nginx: proxy_buffering off; Caddy: flush_interval -1. See docs/running/health.md."
        )
        return problem("A proxy holds streams back until they end, so nothing is live.", advice)
    return ok("Events arrive while a stream goes on.")


def web_clock(patient: Patient) -> Finding:
    """The Date header, which has whole seconds."""
    answer = _get(patient.url + "/healthz")
    if "date" not in answer.headers:
        return ok("The answer has no Date header.")
    skew = parsedate_to_datetime(answer.headers["date"]).timestamp() - time.time()
    text = f"The web server's clock differs by {abs(skew):.0f} s from this machine's."
    if abs(skew) > SKEW_SECONDS:
        return warning(text, "Let both machines set their clock by NTP: signatures and links expire by it.")
    return ok(text)


def _get(url: str) -> httpx.Response:
    """Raises httpx.HTTPError. Without the environment's proxies, which are for other places."""
    agent = {"User-Agent": f"Parley doctor ({settings.INSTALLATION})"}
    return httpx.get(url, timeout=SECONDS, trust_env=False, headers=agent)


def _json(answer: httpx.Response) -> dict[str, Any]:
    try:
        found = answer.json()
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
