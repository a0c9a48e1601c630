"""Every address of the platform; `config.asgi` says which of them are served directly."""

from django.contrib import admin
from django.urls import include, path

from apps.features.sharing.downloads import file
from apps.remote.links import linked_file
from apps.remote.receiving import notification
from config.health import healthz, readyz

admin.autodiscover()
urlpatterns = [
    path("", include("apps.a2a.urls")),
    path("api/v1/", include("apps.api.urls")),
    path("", include("apps.web.urls")),
    path("files/<uuid:context_id>/<str:sha256>", file, name="file"),
    path("gateway/files/<str:named>/<str:filename>", linked_file, name="linked-file"),
    path("gateway/notifications/<uuid:run_id>", notification, name="notification"),
    path("admin/", admin.site.urls),
    path("healthz", healthz),
    path("readyz", readyz),
]
