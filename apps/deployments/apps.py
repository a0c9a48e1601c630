from parley.registry import ParleyApp


class DeploymentsConfig(ParleyApp):
    verbose_name = "Agents' folders"
    restorers = {"remote": "registering.restore"}
    work_lists = ["registering.DEPLOYMENTS"]
    account_remains = ["registering.remains_of"]
    periodic_jobs = {"deployments.forget": ("KEEP_HOUSE_SECONDS", "registering.delete_unused")}
    agent_socket = "processes.socket_of"
    agent_failure = "processes.why_it_ended"
