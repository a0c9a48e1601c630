from django.apps import AppConfig


class CredentialsConfig(AppConfig):
    name = "apps.features.credentials"
    verbose_name = "Credentials"
