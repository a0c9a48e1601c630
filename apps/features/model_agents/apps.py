from django.apps import AppConfig


class ModelAgentsConfig(AppConfig):
    name = "apps.features.model_agents"
    verbose_name = "Agents without code"

    def ready(self) -> None:
        from apps.features.model_agents import language_models  # it needs the registry of apps

        language_models.configure()
