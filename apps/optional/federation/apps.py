from parley.registry import ParleyApp


class FederationConfig(ParleyApp):
    periodic_jobs = {"remote.sync_peers": (60.0, "sync.sync_peers")}
