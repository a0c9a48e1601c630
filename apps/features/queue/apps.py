from django.apps import AppConfig


class QueueConfig(AppConfig):
    name = "apps.features.queue"
    verbose_name = "Queued messages"
