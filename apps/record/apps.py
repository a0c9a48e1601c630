from django.apps import AppConfig


class RecordConfig(AppConfig):
    name = "apps.record"
    verbose_name = "Conversations"
