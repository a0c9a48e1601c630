"""What remote agents call."""

from django.urls import path

from apps.remote.execution.snapshots import linked_file
from apps.remote.execution.webhooks import notification

urlpatterns = [
    path("gateway/files/<str:named>/<str:filename>", linked_file, name="linked-file"),
    path("gateway/notifications/<uuid:run_id>", notification, name="notification"),
]
