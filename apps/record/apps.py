from parley.registry import ParleyApp


class RecordConfig(ParleyApp):
    verbose_name = "Conversations"
    periodic_jobs = {"record.sweep_files": ("KEEP_HOUSE_SECONDS", "content.blobs.sweep_unused")}
