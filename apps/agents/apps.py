from parley.registry import ParleyApp


class AgentsConfig(ParleyApp):
    restorers = {"model": "registration.restore"}
