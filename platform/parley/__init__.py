"""The Django project: settings, URLs, the ASGI and Celery applications, and what all apps stand on."""
