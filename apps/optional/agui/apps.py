from parley.registry import ParleyApp


class AGUIConfig(ParleyApp):
    verbose_name = "AG-UI"
