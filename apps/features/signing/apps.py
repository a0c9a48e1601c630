from django.apps import AppConfig


class SigningConfig(AppConfig):
    name = "apps.features.signing"
    verbose_name = "Signatures"
