"""Addresses of sessions, messages, tasks and files."""

from apps.conversations.api import artifacts, events, forks, messages, sessions, shares, tasks, uploads

urlpatterns = [
    *artifacts.urlpatterns,
    *events.urlpatterns,
    *forks.urlpatterns,
    *messages.urlpatterns,
    *sessions.urlpatterns,
    *shares.urlpatterns,
    *tasks.urlpatterns,
    *uploads.urlpatterns,
]
