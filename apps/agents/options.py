"""Options of an agent for one conversation, checked by the agent's kind."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

import pydantic
from django.conf import settings
from django.core.exceptions import ValidationError
from pydantic import ConfigDict, Field

from apps.agents.definitions import Line, MaxTokens, ModelName, StrictModel, Temperature, field_errors
from apps.agents.models import Agent
from apps.installation import current

JSON = dict[str, Any]

OPTIONS_EXTENSION = "/ext/options/v1"  # end of its URI
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


def _hosted_options(agent: Agent, options: JSON) -> JSON:
    _HostedOptions.model_validate(options)
    if agent.offers_models:
        _check_model(agent, options.get("model"))
    return options


def _model_options(agent: Agent, options: JSON) -> JSON:
    read: JSON = _ModelOptions.model_validate(options).model_dump(exclude_none=True, exclude_defaults=True)
    _check_model(agent, read.get("model"))
    return read


def _check_model(agent: Agent, chosen: Any) -> None:
    """Raises ValidationError."""
    known = model_choices(agent)
    if chosen and chosen not in known and not (isinstance(chosen, str) and "*" in settings.LLM_MODELS):
        raise ValidationError({"model": f"Choose one of these: {', '.join(known) or 'there is none'}."})


def model_choices(agent: Agent) -> list[str]:
    """What people may choose, because models cost money."""
    own = agent.current_version.content.get("model", "") if agent.current_version else ""
    known = current.snapshot()
    offered = known.choices if known.endpoints else settings.LLM_MODELS
    return list(dict.fromkeys(name for name in (own, known.default.model, *offered) if name))


@dataclass(frozen=True, slots=True)
class ModelChoice:
    """`name`: as options name the model; `label`: as people know it."""

    name: str
    label: str
    is_chosen: bool


def offered_models(agent: Agent, options: JSON | None = None) -> list[ModelChoice]:
    """The models to choose from for a conversation with the agent; none if there is nothing to choose."""
    if not agent.offers_models:
        return []
    known = [name for name in model_choices(agent) if name != "*"]
    chosen = (options or {}).get("model") or next(iter(known), "")
    names = list(dict.fromkeys([*known, *filter(None, [chosen])]))
    return [ModelChoice(name, _label_of(name), name == chosen) for name in names] if len(names) > 1 else []


def _label_of(name: str) -> str:
    """The model's own name, with its connection's if it is not the default one."""
    named = re.fullmatch(current.NAMED, name)
    endpoint = current.snapshot().endpoint(named["connection"]) if named else None
    return f"{named['model']} ({endpoint.name})" if named and endpoint else name


def options_extension(agent: Agent) -> str:
    """The URI by which a remote agent's card declares that it takes options; "" if it does not.

    See `docs/extensions/options-v1.md`. The agent's `current_version` should be loaded.
    """
    return declared_extension(agent, OPTIONS_EXTENSION)


def declared_extension(agent: Agent, ending: str) -> str:
    """The URI with this ending in a remote agent's card, whatever comes before it; "" if it declares none."""
    if agent.kind != Agent.Kind.REMOTE or agent.current_version is None:
        return ""
    card = agent.current_version.content.get("card", {})
    declared = card.get("capabilities", {}).get("extensions") or []
    uris = (one.get("uri", "") for one in declared)
    return next((uri for uri in uris if uri.endswith(ending)), "")


def _remote_options(agent: Agent, options: JSON) -> JSON:
    if options and not options_extension(agent):
        raise ValidationError(
            {"options": "This remote agent takes no options: its card does not declare the extension."}
        )
    return options


def _no_options_of_plan(_: Agent, options: JSON) -> JSON:
    if options:
        raise ValidationError({"options": "A plan takes no options. Send its inputs in the message."})
    return {}


READERS: dict[str, Callable[[Agent, JSON], JSON]] = {
    Agent.Kind.HOSTED: _hosted_options,
    Agent.Kind.MODEL: _model_options,
    Agent.Kind.PLAN: _no_options_of_plan,
    Agent.Kind.REMOTE: _remote_options,
}
