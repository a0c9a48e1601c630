from django.apps import AppConfig


class OrchestrationConfig(AppConfig):
    name = "apps.orchestration"
    verbose_name = "Plans"
