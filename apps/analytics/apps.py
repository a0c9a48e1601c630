from parley.registry import ParleyApp


class AnalyticsConfig(ParleyApp):
    analytics_sources = ["counting.RUNS", "counting.ANSWERS", "counting.RATINGS"]
    storage_meters = ["storage.database", "storage.files", "storage.archives"]
    periodic_jobs = {
        "analytics.sum": (30.0, "storage.sum_up"),
        "analytics.measure_storage": ("KEEP_HOUSE_SECONDS", "storage.measure"),
    }
