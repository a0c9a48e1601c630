from parley.registry import ParleyApp


class RemoteConfig(ParleyApp):
    verbose_name = "Remote agents"
    executors = {"remote": "execution.executor.execute"}
    examiners = {"remote": "health_checks.health_problem"}
    account_erasers = ["authentication.credentials.erase_of_own_agents"]
    cold_obstacles = ["execution.cancellation.archiving_obstacle"]
    work_lists = ["execution.cancellation.CANCELS", "health_checks.ROUNDS"]
    periodic_jobs = {
        "remote.refresh": (60.0, "registration.refresh_due_cards"),  # which are due says REMOTE_REFRESH_SECONDS
    }
