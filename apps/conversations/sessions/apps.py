from parley.registry import ParleyApp


class SessionsConfig(ParleyApp):
    verbose_name = "Sessions"
    label = "session_marks"
    answer_listeners = ["titles.ask_for_title"]
    before_erasure = ["marks.erase_marks"]
    account_erasers = ["holds.check_person", "deletion.delete_with_account"]
    account_remains = ["deletion.remains_of"]
    periodic_jobs = {
        "sessions.expire": ("KEEP_HOUSE_SECONDS", "deletion.delete_expired_sessions"),
        "sessions.of_deleted_accounts": ("KEEP_HOUSE_SECONDS", "deletion.delete_sessions_of_deleted_accounts"),
    }
