from django.apps import AppConfig


class SharingConfig(AppConfig):
    name = "apps.features.sharing"
    verbose_name = "Shared sessions"
