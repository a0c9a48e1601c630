from django.apps import AppConfig


class HousekeepingConfig(AppConfig):
    name = "apps.features.housekeeping"
    verbose_name = "Housekeeping"
