from parley.registry import ParleyApp


class BudgetsConfig(ParleyApp):
    send_obstacles = ["spending.obstacle"]
    model_obstacles = ["spending.check_model_call"]
    usage_listeners = ["spending.record_usage"]
    periodic_jobs = {"budgets.watch": (60.0, "watching.watch")}
