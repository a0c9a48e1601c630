from django.apps import AppConfig


class ShowcaseConfig(AppConfig):
    name = "apps.showcase"
    label = "showcase"
