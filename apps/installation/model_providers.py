"""Providers of language models. Adding one is a line in each of two tables, and a migration of the choices."""

from __future__ import annotations

from dataclasses import dataclass

from django.db import models


@dataclass(frozen=True, slots=True)
class Preset:
    """What the form for a connection begins with.

    Attributes:
        base_url: where the provider's chat completions API usually is.
        model: the usual one, if the endpoint lists it.
        needs_key: whether it answers nobody without an API key.
        is_private: whether it usually runs in one's own network.
    """

    base_url: str = ""
    model: str = ""
    needs_key: bool = False
    is_private: bool = False


class Provider(models.TextChoices):
    OPENAI = "openai", "OpenAI"
    ANTHROPIC = "anthropic", "Anthropic"
    GOOGLE = "google", "Google"
    OLLAMA = "ollama", "Ollama"
    VLLM = "vllm", "vLLM"
    OTHER = "other", "Another OpenAI-compatible endpoint"

    @property
    def preset(self) -> Preset:
        return PRESETS.get(self, Preset())


PRESETS = {
    Provider.OPENAI: Preset("https://api.openai.com/v1", "gpt-5-mini", needs_key=True),
    Provider.ANTHROPIC: Preset("https://api.anthropic.com/v1", "claude-sonnet-4-5", needs_key=True),
    Provider.GOOGLE: Preset(
        "https://generativelanguage.googleapis.com/v1beta/openai", "gemini-2.5-flash", needs_key=True
    ),
    Provider.OLLAMA: Preset("http://127.0.0.1:11434/v1", is_private=True),
    Provider.VLLM: Preset("http://127.0.0.1:8000/v1", is_private=True),
}
