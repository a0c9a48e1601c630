from parley.registry import ParleyApp


class DoorsConfig(ParleyApp):
    """What doors of other protocols share."""
