from django.apps import AppConfig


class EngineConfig(AppConfig):
    name = "apps.engine"
    verbose_name = "Running agents"
