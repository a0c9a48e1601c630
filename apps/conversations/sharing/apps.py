from parley.registry import ParleyApp


class SharingConfig(ParleyApp):
    verbose_name = "Shared sessions"
    before_erasure = ["shares.erase_shares"]
