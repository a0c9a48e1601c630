from django.apps import AppConfig


class SearchConfig(AppConfig):
    name = "apps.features.search"
    verbose_name = "Search"
