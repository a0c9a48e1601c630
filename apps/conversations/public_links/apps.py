from parley.registry import ParleyApp


class PublicLinksConfig(ParleyApp):
    label = "sharing"  # of its tables
    verbose_name = "Public links"
    before_erasure = ["shares.erase_shares"]
    account_erasers = ["shares.revoke_all"]
