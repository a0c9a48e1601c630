from django.apps import AppConfig


class ArchiveConfig(AppConfig):
    name = "apps.features.archive"
    verbose_name = "Cold storage"
