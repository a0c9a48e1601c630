"""Tries a model connection: which models its endpoint lists, and whether one of them answers."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import outbound
from apps.installation.current import Endpoint
from apps.installation.models import Provider
from outbound import Answer, Exchange, Limits, targets

LIST_LIMITS = Limits(seconds=10.0, bytes=5 * 1024 * 1024)
CALL_LIMITS = Limits(seconds=30.0, bytes=1024 * 1024)
MAX_MODELS = 500
MAX_NAME_LENGTH = 200
MAX_MESSAGE_LENGTH = 300  # characters of what the endpoint says
QUESTION = "Reply with the word OK."


@dataclass(frozen=True, slots=True)
class Checked:
    """What a test found, for operators. `models` are those that the endpoint lists."""

    is_ok: bool
    sentence: str
    models: list[str] = field(default_factory=list)
    is_private: bool = False  # an operator must allow the address first


class _Refused(Exception):
    """`str()` is a sentence for operators."""


async def check(endpoint: Endpoint, provider: str) -> Checked:
    """List the endpoint's models and ask its default one. Without a default one, only list."""
    models: list[str] = []
    try:
        listed = await _list_models(endpoint, provider)
        models = listed or []
        if not endpoint.model:
            return _without_model(endpoint, listed)
        seconds = await _ask(endpoint)
    except outbound.Private as refusal:
        return Checked(False, str(refusal), models, is_private=True)
    except (outbound.OutboundError, _Refused) as problem:
        return Checked(False, str(problem), models)
    return Checked(True, f"{endpoint.model} answered in {max(seconds, 0.1):.1f} s.", models)


def _without_model(endpoint: Endpoint, listed: list[str] | None) -> Checked:
    if listed is None:
        return Checked(False, f"{endpoint.base_url} lists no models. Type the name of one, and test again.")
    if not listed:
        return Checked(False, "The endpoint has no models yet. Add one there, and test again.")
    return Checked(True, f"The endpoint lists {len(listed)} models. Choose the default one, and test again.", listed)


async def _list_models(endpoint: Endpoint, provider: str) -> list[str] | None:
    """None if the endpoint has no list that can be read. Raises _Refused and the errors of `outbound`."""
    async with outbound.exchange(LIST_LIMITS, also=_allowed(endpoint)) as way:
        status, body = await _sent(way, "GET", f"{endpoint.base_url}/models", _headers(endpoint, provider))
    if status in (401, 403):
        raise _Refused(_sentence(endpoint, status, body))
    rows = body.get("data") if status == 200 and isinstance(body, dict) else None
    if not isinstance(rows, list):
        return None
    names = [row.get("id") for row in rows if isinstance(row, dict)]
    # Google lists models/NAME, and takes NAME.
    known = {name.removeprefix("models/") for name in names if isinstance(name, str) and name.strip()}
    return sorted(name for name in known if len(name) <= MAX_NAME_LENGTH)[:MAX_MODELS]


async def _ask(endpoint: Endpoint) -> float:
    """The seconds until the answer. Raises _Refused and the errors of `outbound`."""
    started = time.monotonic()
    content = {"model": endpoint.model, "messages": [{"role": "user", "content": QUESTION}]}
    headers = {**_headers(endpoint, ""), "Content-Type": "application/json"}
    async with outbound.exchange(CALL_LIMITS, also=_allowed(endpoint)) as way:
        url = f"{endpoint.base_url}/chat/completions"
        status, body = await _sent(way, "POST", url, headers, json.dumps(content).encode())
    if status != 200:
        raise _Refused(_sentence(endpoint, status, body))
    if not (isinstance(body, dict) and isinstance(body.get("choices"), list) and body["choices"]):
        raise _Refused("The endpoint answered, but not as OpenAI's API does. Check the base URL.")
    return time.monotonic() - started


def _allowed(endpoint: Endpoint) -> list[str]:
    """LLM_BASE_URL may be private; for a connection there are allowances (see `language_models`)."""
    return [] if endpoint.slug else targets.allowed_hosts(endpoint.base_url)


async def _sent(
    way: Exchange, method: str, url: str, headers: Mapping[str, str], content: bytes = b""
) -> tuple[int, Any]:
    """Status and JSON; None instead of anything else."""
    async with way.send(method, url, headers, content) as answer:
        return answer.status, await _json(answer)


async def _json(answer: Answer) -> Any:
    try:
        return json.loads(await answer.read())
    except (ValueError, RecursionError):
        return None


def _headers(endpoint: Endpoint, provider: str) -> dict[str, str]:
    headers = {"Accept": "application/json"}
    if endpoint.api_key:
        headers["Authorization"] = f"Bearer {endpoint.api_key}"
    if endpoint.api_key and provider == Provider.ANTHROPIC:  # its list of models is not OpenAI's
        headers |= {"x-api-key": endpoint.api_key, "anthropic-version": "2023-06-01"}
    return headers


def _sentence(endpoint: Endpoint, status: int, body: Any) -> str:
    match status:
        case 401 | 403:
            what = "The endpoint refuses the API key." if endpoint.api_key else "The endpoint requires an API key."
        case 404 if _said(body):
            what = f"The endpoint does not know the model {endpoint.model}."
        case 404 | 405:
            what = f"Nothing at {endpoint.base_url} speaks OpenAI's API. Check the base URL."
        case 402 | 429:
            what = "The endpoint takes no more requests at the moment, or the account's quota is used up."
        case _ if status >= 500:
            what = f"The endpoint failed with the status {status}. Try again later."
        case _:
            what = f"The endpoint does not take the request (status {status})."
    said = _said(body, endpoint.api_key)
    return f"{what} It says: {said}" if said else what


def _said(body: Any, key: str = "") -> str:
    """The message in an error's JSON, in one line and without the key; "" without one."""
    error = body.get("error", body) if isinstance(body, dict) else ""
    text = error.get("message") or error.get("detail") if isinstance(error, dict) else error
    if not isinstance(text, str):
        return ""
    line = " ".join(text.split())
    return (line.replace(key, "***") if key else line)[:MAX_MESSAGE_LENGTH]
