"""Voice: answers are read aloud, and messages dictated, by the browser or a connected model."""

from parley.registry import ParleyApp


class VoiceConfig(ParleyApp):
    verbose_name = "Voice"
    composer_tools = ["parts.dictate"]
    message_acts = ["parts.read_aloud"]
