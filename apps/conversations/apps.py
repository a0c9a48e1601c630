from parley.registry import ParleyApp


class ConversationsConfig(ParleyApp):
    """Sessions for people."""
