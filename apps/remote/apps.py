from django.apps import AppConfig


class RemoteConfig(AppConfig):
    name = "apps.remote"
    verbose_name = "Remote agents"
