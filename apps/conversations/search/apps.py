from parley.registry import ParleyApp


class SearchConfig(ParleyApp):
    before_erasure = ["indexing.delete_entries"]
    context_inherited = ["indexing.move_entries"]
    before_cold = ["indexing.index_completely"]
    periodic_jobs = {"search.index": (15.0, "jobs.index_new")}
    run_by_beat = ["jobs.index_new"]
