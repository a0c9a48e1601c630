from parley.registry import ParleyApp


class HealthConfig(ParleyApp):
    before_work = ["monitoring.observe"]
    periodic_jobs = {"health.observe": ("OBSERVE_SECONDS", "monitoring.observe")}
