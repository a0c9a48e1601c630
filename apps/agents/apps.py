from parley.registry import ParleyApp


class AgentsConfig(ParleyApp):
    account_erasers = ["registration.switch_off_own"]
    account_remains = ["registration.remains_of"]
    restorers = {"model": "registration.restore"}
