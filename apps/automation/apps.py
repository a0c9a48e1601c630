from django.apps import AppConfig


class AutomationConfig(AppConfig):
    name = "apps.automation"
    verbose_name = "Automation"
