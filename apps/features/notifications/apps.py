from django.apps import AppConfig


class NotificationsConfig(AppConfig):
    name = "apps.features.notifications"
    verbose_name = "Notifications"
