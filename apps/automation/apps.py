from parley.registry import ParleyApp


class AutomationConfig(ParleyApp):
    ledger_listeners = ["schedules.link_queued_runs"]
    work_lists = ["incoming.EVENTS_TO_START", "schedules.RUNS_TO_START"]
    tool_modules = ["tools"]
    periodic_jobs = {
        "automation.tick": (5.0, "schedules.claim_due"),
        "automation.forget_events": (3600.0, "incoming.forget_events"),
        "automation.prune_runs": ("KEEP_HOUSE_SECONDS", "schedules.prune_runs"),
    }
