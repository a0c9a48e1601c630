from parley.registry import ParleyApp


class EngineConfig(ParleyApp):
    verbose_name = "Running agents"
    executors = {"hosted": "handlers.execute"}
    examiners = {"hosted": "handlers.health_problem"}
    ledger_listeners = ["delegation.resume_parents", "dependencies.wake_dependents"]
    sweeps = ["dependencies.sweep", "payments.forget_unneeded"]
    periodic_jobs = {
        "engine.sweep": ("SWEEP_SECONDS", "jobs.sweep"),
        "limits.watch": ("KEEP_HOUSE_SECONDS", "uses.watch"),
    }
