from django.apps import AppConfig


class TransfersConfig(AppConfig):
    name = "apps.transfers"
    verbose_name = "Imports and exports"
