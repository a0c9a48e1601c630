from parley.registry import ParleyApp


class KnowledgeConfig(ParleyApp):
    verbose_name = "Knowledge"
