from parley.registry import ParleyApp


class TransfersConfig(ParleyApp):
    verbose_name = "Imports and exports"
    data_parts = ["pages.data.part"]
    after_account_erased = ["exports.delete_expired"]  # with the files whose rows are gone
    storage_meters = ["exports.stored_size"]
    work_lists = ["exports.EXPORTS_TO_MAKE"]
    periodic_jobs = {"transfers.sweep": ("KEEP_HOUSE_SECONDS", "exports.delete_expired")}
