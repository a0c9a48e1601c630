from django.apps import AppConfig


class HealthConfig(AppConfig):
    name = "apps.features.health"
    verbose_name = "Health of agents"
