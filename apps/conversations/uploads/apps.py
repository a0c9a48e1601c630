from parley.registry import ParleyApp


class UploadsConfig(ParleyApp):
    account_erasers = ["resumable.discard_all"]
    files_released = ["resumable.forget_content"]
    storage_meters = ["resumable.stored_size"]
    periodic_jobs = {"uploads.sweep": ("KEEP_HOUSE_SECONDS", "resumable.delete_expired")}
