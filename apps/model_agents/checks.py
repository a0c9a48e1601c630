"""Tries a model connection: which models its endpoint lists, and whether one of them answers."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlsplit

from apps.installation.current import Endpoint
from apps.installation.model_providers import Provider
from parley import outbound
from parley.outbound import Answer, Exchange, Limits, targets

LIST_LIMITS = Limits(seconds=10.0, bytes=5 * 1024 * 1024)
CALL_LIMITS = Limits(seconds=30.0, bytes=1024 * 1024)
MAX_MODELS = 500
MAX_NAME_LENGTH = 200
MAX_MESSAGE_LENGTH = 300  # characters of what the endpoint says
MAX_REPLY_LENGTH = 4000
QUESTION = "Reply with the word OK."
CA_ADVICE = (
    "Add the authority that signed it to this machine's certificates, or name it by SSL_CERT_FILE and restart Parley."
)
REACH_ADVICE = "Check the address, and that the server is running. In a container, 127.0.0.1 is the container itself."


@dataclass(frozen=True, slots=True)
class Checked:
    """What a test found, for operators. `models` are those that the endpoint lists.

    `field` names what is wrong of an endpoint: "key", "base_url" or "model". `base_url` is the address that answered:
    of a server without a path, /v1 is tried first.
    """

    is_ok: bool
    sentence: str
    models: Sequence[str] = ()
    is_private: bool = False  # an operator must allow the address first
    field: str = ""
    base_url: str = ""


class _Refused(Exception):
    """`str()` is a sentence for operators."""

    def __init__(self, sentence: str, field: str = "base_url") -> None:
        super().__init__(sentence)
        self.field = field


async def check(endpoint: Endpoint, provider: str, also: Sequence[str] = ()) -> Checked:
    """List the endpoint's models and ask its default one. Without a default one, only list.

    `also` allows private hosts for this test only (see `outbound.Allowed.read`).
    """
    first: Checked | None = None
    for base_url in _base_urls(endpoint.base_url):
        found = await _check(replace(endpoint, base_url=base_url), provider, also)
        first = first or found
        if found.is_ok or found.models or found.field == "key":
            return found
    assert first is not None
    return first


def _base_urls(typed: str) -> list[str]:
    has_path = urlsplit(typed).path.strip("/")
    return [typed] if has_path else [f"{typed.rstrip('/')}/v1", typed]


async def _check(endpoint: Endpoint, provider: str, also: Sequence[str]) -> Checked:
    models: list[str] = []
    try:
        listed = await _list_models(endpoint, provider, also)
        models = listed or []
        if not endpoint.model:
            return _without_model(endpoint, listed)
        started = time.monotonic()
        await ask(endpoint, QUESTION, also)
    except outbound.Private as refusal:
        return Checked(False, str(refusal), models, is_private=True, field="base_url")
    except _Refused as problem:
        return Checked(False, str(problem), models, field=problem.field)
    except outbound.OutboundError as problem:
        return Checked(False, f"{problem} {_advice(problem)}".strip(), models, field="base_url")
    seconds = max(time.monotonic() - started, 0.1)
    return Checked(True, f"{endpoint.model} answered in {seconds:.1f} s.", models, base_url=endpoint.base_url)


def _advice(problem: outbound.OutboundError) -> str:
    match problem:
        case outbound.Untrusted():
            return CA_ADVICE
        case outbound.Unreachable() | outbound.TooSlow():
            return REACH_ADVICE
    return ""


def _without_model(endpoint: Endpoint, listed: list[str] | None) -> Checked:
    if listed is None:
        sentence = (
            f"{endpoint.base_url} lists no models as OpenAI's API does. Check the address: it usually ends with /v1. "
            "If the address is right, type the name of a model, and test again."
        )
        return Checked(False, sentence, field="base_url")
    if not listed:
        return Checked(False, "The endpoint has no models yet. Add one there, and test again.", field="base_url")
    number = "one model" if len(listed) == 1 else f"{len(listed)} models"
    return Checked(True, f"It works: the endpoint has {number}.", listed, base_url=endpoint.base_url)


async def say(endpoint: Endpoint, text: str) -> Checked:
    """What the endpoint's default model answers, or why it does not, as `sentence`."""
    try:
        return Checked(True, await ask(endpoint, text))
    except _Refused as problem:
        return Checked(False, str(problem), field=problem.field)
    except outbound.OutboundError as problem:
        return Checked(False, f"{problem} {_advice(problem)}".strip())


async def _list_models(endpoint: Endpoint, provider: str, also: Sequence[str]) -> list[str] | None:
    """None if the endpoint has no list that can be read. Raises _Refused and the errors of `outbound`."""
    async with outbound.exchange(LIST_LIMITS, also=[*_allowed(endpoint), *also]) as way:
        status, body = await _sent(way, "GET", f"{endpoint.base_url}/models", _headers(endpoint, provider))
    if status in (401, 403):
        raise _refusal(endpoint, status, body)
    rows = body.get("data") if status == 200 and isinstance(body, dict) else None
    if not isinstance(rows, list):
        return None
    names = [row.get("id") for row in rows if isinstance(row, dict)]
    # Google lists models/NAME, and takes NAME.
    known = {name.removeprefix("models/") for name in names if isinstance(name, str) and name.strip()}
    return sorted(name for name in known if len(name) <= MAX_NAME_LENGTH)[:MAX_MODELS]


async def ask(endpoint: Endpoint, text: str, also: Sequence[str] = ()) -> str:
    """The answer of the endpoint's default model. Raises _Refused and the errors of `outbound`."""
    content = {"model": endpoint.model, "messages": [{"role": "user", "content": text}]}
    headers = {**_headers(endpoint, ""), "Content-Type": "application/json"}
    async with outbound.exchange(CALL_LIMITS, also=[*_allowed(endpoint), *also]) as way:
        url = f"{endpoint.base_url}/chat/completions"
        status, body = await _sent(way, "POST", url, headers, json.dumps(content).encode())
    if status != 200:
        raise _refusal(endpoint, status, body)
    match body:
        case {"choices": [{"message": {"content": str(answer)}}, *_]}:
            return answer[:MAX_REPLY_LENGTH]
        case {"choices": [_, *_]}:
            return ""
    raise _Refused("The endpoint answered, but not as OpenAI's API does. Check the base URL.")


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


def _refusal(endpoint: Endpoint, status: int, body: Any) -> _Refused:
    field = "base_url"
    match status:
        case 401 | 403:
            field = "key"
            refuses = "The endpoint refuses the API key. Copy it once more, or make a new one there."
            what = refuses if endpoint.api_key else "The endpoint requires an API key."
        case 404 if _said(body):
            field = "model"
            what = f"The endpoint does not know the model {endpoint.model}."
        case 404 | 405:
            what = f"Nothing at {endpoint.base_url} speaks OpenAI's API. Check the base URL."
        case 402 | 429:
            field = "key"
            what = "The endpoint takes no more requests at the moment, or the account's quota is used up."
        case _ if status >= 500:
            what = f"The endpoint failed with the status {status}. Try again later."
        case _:
            field = "model"
            what = f"The endpoint does not take the request (status {status}). Choose another model."
    said = _said(body, endpoint.api_key)
    return _Refused(f"{what} It says: {said}" if said else what, field)


def _said(body: Any, key: str = "") -> str:
    """The message in an error's JSON, in one line and without the key; "" without one."""
    error = body.get("error", body) if isinstance(body, dict) else ""
    text = error.get("message") or error.get("detail") if isinstance(error, dict) else error
    if not isinstance(text, str):
        return ""
    line = " ".join(text.split())
    return (line.replace(key, "***") if key else line)[:MAX_MESSAGE_LENGTH]
