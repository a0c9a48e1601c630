from parley.registry import ParleyApp


class ChannelsConfig(ParleyApp):
    """Its label is another one than that of Django Channels."""

    label = "chats"
    verbose_name = "Chat channels"
    before_erasure = ["forgetting.erase"]
    ledger_listeners = ["answering.note_news"]
    personal_data = ["linking.personal_data"]
    work_lists = ["acting.EVENTS_TO_ACT_ON", "answering.ANSWERS_TO_POST", "receiving.FEEDS_TO_READ"]
    periodic_jobs = {
        "chats.forget": ("KEEP_HOUSE_SECONDS", "forgetting.forget_events"),
        "chats.of_deleted_workspaces": ("KEEP_HOUSE_SECONDS", "forgetting.sweep"),
    }
