from parley.registry import ParleyApp


class QueueConfig(ParleyApp):
    verbose_name = "Queued messages"
    ledger_listeners = ["messages.wake_after_settled_tasks"]
    before_erasure = ["messages.erase_queue"]
    sweeps = ["messages.erase_removed"]
    work_lists = ["messages.QUEUES"]
