from parley.registry import ParleyApp


class HousekeepingConfig(ParleyApp):
    periodic_jobs = {"housekeeping.forget": ("KEEP_HOUSE_SECONDS", "processes.delete_gone")}
