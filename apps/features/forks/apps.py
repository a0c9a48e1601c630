from django.apps import AppConfig


class ForksConfig(AppConfig):
    name = "apps.features.forks"
    verbose_name = "Forks"
