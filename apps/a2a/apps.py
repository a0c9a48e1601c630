from parley.registry import ParleyApp


class A2AConfig(ParleyApp):
    verbose_name = "Webhooks"
    ledger_listeners = ["webhooks.queue_deliveries"]
    cold_obstacles = ["webhooks.archive_obstacle"]
    work_lists = ["webhooks.DELIVERIES_TO_SEND"]
    periodic_jobs = {"a2a.forget": ("KEEP_HOUSE_SECONDS", "webhooks.delete_old_deliveries")}
