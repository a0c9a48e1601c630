from parley.registry import ParleyApp


class OperatorsConfig(ParleyApp):
    account_erasers = ["bulk.forget_person"]
    analytics_sources = ["dashboard.plan_runs.PLAN_RUNS"]
    work_lists = ["bulk.BULK_ACTIONS"]
    periodic_jobs = {
        "operators.forget": ("KEEP_HOUSE_SECONDS", "bulk.delete_old"),
        "operators.tell_watcher": (60.0, "heartbeats.tell_all_works"),
    }
