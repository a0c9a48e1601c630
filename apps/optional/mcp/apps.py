from parley.registry import ParleyApp


class MCPConfig(ParleyApp):
    verbose_name = "Model Context Protocol"
