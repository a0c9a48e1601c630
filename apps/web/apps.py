from parley.registry import ParleyApp


class WebConfig(ParleyApp):
    """What people's pages share."""
