from django.apps import AppConfig


class RuntimeConfig(AppConfig):
    name = "apps.runtime"
    label = "runtime"
    verbose_name = "Running agents"

    def ready(self) -> None:
        from apps.runtime import language_models  # it needs the registry of apps

        language_models.use()
