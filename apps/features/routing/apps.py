from django.apps import AppConfig


class RoutingConfig(AppConfig):
    name = "apps.features.routing"
    verbose_name = "Routing"
