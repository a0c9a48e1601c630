from parley.registry import ParleyApp


class PlansConfig(ParleyApp):
    executors = {"plan": "running.runs.execute"}
    restorers = {"plan": "registry.restore_version"}
    definition_writers = {"plan": "definitions.as_yaml"}
    examiners = {"plan": "registry.health_problem"}
    ledger_listeners = ["jobs.mark_steps"]
    before_erasure = ["running.runs.lock_runs"]
    cold_obstacles = ["running.runs.archive_obstacle"]
    work_lists = ["jobs.RUNS_TO_ADVANCE"]
