from django.apps import AppConfig


class AnalyticsConfig(AppConfig):
    name = "apps.features.analytics"
    verbose_name = "Analytics"
