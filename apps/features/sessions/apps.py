from django.apps import AppConfig


class SessionsConfig(AppConfig):
    name = "apps.features.sessions"
    label = "session_marks"
    verbose_name = "Sessions"
