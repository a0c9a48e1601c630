from parley.registry import ParleyApp


class EngineConfig(ParleyApp):
    verbose_name = "Running agents"
    executors = {"hosted": "turns.handlers.execute"}
    examiners = {"hosted": "turns.handlers.health_problem"}
    ledger_listeners = ["turns.delegation.resume_parents", "dependencies.wake_dependents"]
    sweeps = ["dependencies.sweep", "turns.payments.forget_unneeded"]
    periodic_jobs = {
        "engine.sweep": ("SWEEP_SECONDS", "jobs.sweep"),
        "limits.watch": ("KEEP_HOUSE_SECONDS", "uses.watch"),
    }
