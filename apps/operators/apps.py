from django.apps import AppConfig


class OperatorsConfig(AppConfig):
    name = "apps.operators"
    verbose_name = "Operators"
