from parley.registry import ParleyApp


class NotificationsConfig(ParleyApp):
    channel_types = ["slack.SLACK"]
    ledger_listeners = ["listening.note_events"]
    work_lists = ["sending.NOTIFICATIONS_TO_SEND"]
    periodic_jobs = {"notifications.forget": ("KEEP_HOUSE_SECONDS", "sending.delete_old")}
