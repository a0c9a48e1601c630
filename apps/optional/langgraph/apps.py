from parley.registry import ParleyApp


class LangGraphConfig(ParleyApp):
    verbose_name = "LangGraph's API"
