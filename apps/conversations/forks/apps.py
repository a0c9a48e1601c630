from parley.registry import ParleyApp


class ForksConfig(ParleyApp):
    before_erasure = ["handover.hand_over"]  # before those of all other apps: it keeps what forks share
