from parley.registry import ParleyApp


class ModelAgentsConfig(ParleyApp):
    verbose_name = "Agents without code"
    executors = {"model": "executor.execute"}
    examiners = {"model": "executor.health_problem"}

    def ready(self) -> None:
        from apps.model_agents import language_models  # it needs the registry of apps

        language_models.configure()
