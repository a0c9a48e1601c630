"""People's pages: what every page has, and what the apps add."""

from django.urls import path

from apps.accounts.resources import faces
from apps.web import diagrams, installed_app, service_worker, shell
from apps.web.first_steps import dismiss_first_steps
from apps.web.settings import destinations

app_name = "web"

urlpatterns = [
    path("first-steps/dismiss", dismiss_first_steps, name="dismiss-first-steps"),
    path("settings/destinations", destinations.destinations, name="settings-destinations"),
    path("diagrams", diagrams.diagram_frame, name="diagrams"),
    path("sidebar", shell.sidebar, name="sidebar"),
    path("sw.js", service_worker.service_worker, name="worker"),
    path("app.webmanifest", installed_app.manifest, name="manifest"),
    path("share", installed_app.share_target, name="share-target"),
    path("offline", service_worker.offline, name="offline"),
    path("token", service_worker.csrf_token, name="token"),
    *(pattern for face in faces("pages") for pattern in face.urlpatterns),
]
