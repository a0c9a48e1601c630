"""Options of an agent for one conversation, checked by the agent's kind."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Annotated, Any

import pydantic
from django.conf import settings
from django.core.exceptions import ValidationError
from pydantic import ConfigDict, Field

from apps.agents.definitions import Line, MaxTokens, ModelName, StrictModel, Temperature, field_errors
from apps.agents.models import Agent
from apps.installation import current

JSON = dict[str, Any]

MAX_OPTION_BYTES = 16 * 1024  # of JSON


class _HostedOptions(pydantic.BaseModel):
    """Anything that the handler reads. `credentials` names the services that it may use; by default all."""

    model_config = ConfigDict(extra="allow", strict=True)

    credentials: list[Line] | None = Field(None, max_length=100)


class _ModelSettings(StrictModel):
    model_config = ConfigDict(strict=True)

    temperature: Temperature | None = None
    max_tokens: MaxTokens | None = None


class _ModelOptions(StrictModel):
    """These replace the definition's model settings."""

    model_config = ConfigDict(strict=True)

    model: Annotated[ModelName, Field(min_length=1)] | None = None
    settings: _ModelSettings = _ModelSettings()


def read_options(agent: Agent, options: JSON) -> JSON:
    """The options to record. Raises ValidationError with a sentence for each invalid one."""
    try:
        text = json.dumps(options, ensure_ascii=False, allow_nan=False)
        size = len(text.encode())
    except ValueError:  # includes UnicodeEncodeError
        raise ValidationError({"options": "Write JSON, with texts in Unicode."}) from None
    if size > MAX_OPTION_BYTES:
        raise ValidationError({"options": f"The options are larger than {MAX_OPTION_BYTES:,} bytes."})
    if "\\u0000" in text.replace("\\\\", ""):
        raise ValidationError({"options": "Write text without control characters."})
    try:
        return READERS[agent.kind](agent, options)
    except pydantic.ValidationError as error:
        raise ValidationError(field_errors(error)) from None


def _hosted_options(_: Agent, options: JSON) -> JSON:
    _HostedOptions.model_validate(options)
    return options


def _model_options(agent: Agent, options: JSON) -> JSON:
    read: JSON = _ModelOptions.model_validate(options).model_dump(exclude_none=True, exclude_defaults=True)
    chosen, known = read.get("model"), model_choices(agent)
    if chosen and "*" not in settings.LLM_MODELS and chosen not in known:
        raise ValidationError({"model": f"Choose one of these: {', '.join(known) or 'there is none'}."})
    return read


def model_choices(agent: Agent) -> list[str]:
    """What people may choose, because models cost money."""
    own = agent.current_version.content.get("model", "") if agent.current_version else ""
    known = current.snapshot()
    offered = known.choices if known.endpoints else settings.LLM_MODELS
    return list(dict.fromkeys(name for name in (own, known.default.model, *offered) if name))


def _no_options_of_remote(_: Agent, options: JSON) -> JSON:
    if options:
        raise ValidationError({"options": "A remote agent takes no options."})
    return {}


def _no_options_of_plan(_: Agent, options: JSON) -> JSON:
    if options:
        raise ValidationError({"options": "A plan takes no options. Send its inputs in the message."})
    return {}


READERS: dict[str, Callable[[Agent, JSON], JSON]] = {
    Agent.Kind.HOSTED: _hosted_options,
    Agent.Kind.MODEL: _model_options,
    Agent.Kind.PLAN: _no_options_of_plan,
    Agent.Kind.REMOTE: _no_options_of_remote,
}
