from parley.registry import ParleyApp


class EvaluationsConfig(ParleyApp):
    work_lists = ["evaluating.EVALUATIONS_TO_RUN"]
