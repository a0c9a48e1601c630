from parley.registry import ParleyApp


class OpenAIConfig(ParleyApp):
    verbose_name = "OpenAI's API"
