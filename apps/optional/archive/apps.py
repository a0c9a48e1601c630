from parley.registry import ParleyApp


class ArchiveConfig(ParleyApp):
    restore_context = "restoring.restore_context"
    discard_archive = "restoring.discard_archive"
    verify_archive = "file_format.verify_archive"
    periodic_jobs = {"archive.due": ("KEEP_HOUSE_SECONDS", "archiving.archive_due_sessions")}
