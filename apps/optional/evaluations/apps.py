from parley.registry import ParleyApp


class EvaluationsConfig(ParleyApp):
    work_lists = ["evaluating.EVALUATIONS_TO_RUN", "sampling.SAMPLES_TO_CHECK"]
    before_erasure = ["sampling.erase"]
    version_panels = ["panels.version_panel"]
