"""How an agent may be set up for one conversation: checked by what the agent is."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Annotated, Any

import pydantic
from django.conf import settings
from django.core.exceptions import ValidationError
from pydantic import ConfigDict, Field

from apps.agents.definitions import Exact, Line, MaxTokens, ModelName, Temperature, sentences
from apps.agents.models import Agent

JSON = dict[str, Any]

LARGEST = 16 * 1024  # bytes of JSON


class _Hosted(pydantic.BaseModel):
    """Whatever its handler reads; `credentials` are the services whose credentials it may be lent: by default, all."""

    model_config = ConfigDict(extra="allow", strict=True)

    credentials: list[Line] | None = Field(None, max_length=100)


class _Settings(Exact):
    model_config = ConfigDict(strict=True)

    temperature: Temperature | None = None
    max_tokens: MaxTokens | None = None


class _Model(Exact):
    """What a definition says of the model, in whose place this is."""

    model_config = ConfigDict(strict=True)

    model: Annotated[ModelName, Field(min_length=1)] | None = None
    settings: _Settings = _Settings()


def read(agent: Agent, options: JSON) -> JSON:
    """The options, as they are recorded. Raises ValidationError with a sentence for each that cannot be set."""
    try:
        text = json.dumps(options, ensure_ascii=False, allow_nan=False)
        size = len(text.encode())
    except ValueError:  # UnicodeEncodeError is one
        raise ValidationError({"options": "Write JSON, with texts in Unicode."}) from None
    if size > LARGEST:
        raise ValidationError({"options": f"They are larger than {LARGEST:,} bytes."})
    if "\\u0000" in text.replace("\\\\", ""):
        raise ValidationError({"options": "Write text without control characters."})
    try:
        return READERS[agent.kind](agent, options)
    except pydantic.ValidationError as error:
        raise ValidationError(sentences(error)) from None


def _of_hosted(_: Agent, options: JSON) -> JSON:
    _Hosted.model_validate(options)
    return options


def _of_model(agent: Agent, options: JSON) -> JSON:
    read: JSON = _Model.model_validate(options).model_dump(exclude_none=True, exclude_defaults=True)
    chosen, known = read.get("model"), models_of(agent)
    if chosen and "*" not in settings.LLM_MODELS and chosen not in known:
        raise ValidationError({"model": f"Choose one of these: {', '.join(known) or 'there is none'}."})
    return read


def models_of(agent: Agent) -> list[str]:
    """What people may choose: models cost their operators money."""
    own = agent.current_version.content.get("model", "") if agent.current_version else ""
    return list(dict.fromkeys(name for name in (own, settings.LLM_MODEL, *settings.LLM_MODELS) if name))


def _of_remote(_: Agent, options: JSON) -> JSON:
    if options:
        raise ValidationError({"options": "A remote agent takes none: A2A has no place for them."})
    return {}


def _of_plan(_: Agent, options: JSON) -> JSON:
    if options:
        raise ValidationError({"options": "A plan takes none: its inputs are given in the message."})
    return {}


READERS: dict[str, Callable[[Agent, JSON], JSON]] = {
    Agent.Kind.HOSTED: _of_hosted,
    Agent.Kind.MODEL: _of_model,
    Agent.Kind.PLAN: _of_plan,
    Agent.Kind.REMOTE: _of_remote,
}
