from django.apps import AppConfig


class UploadsConfig(AppConfig):
    name = "apps.features.uploads"
    verbose_name = "Uploads"
