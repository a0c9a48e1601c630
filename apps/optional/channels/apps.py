from parley.registry import ParleyApp


class ChannelsConfig(ParleyApp):
    """Its label is another one than that of Django Channels."""

    label = "chats"
    verbose_name = "Chat channels"
    ledger_listeners = ["answering.note_news"]
    personal_data = ["linking.personal_data"]
    work_lists = ["acting.EVENTS_TO_ACT_ON", "answering.ANSWERS_TO_POST"]
    periodic_jobs = {"chats.forget": ("KEEP_HOUSE_SECONDS", "receiving.forget_events")}
