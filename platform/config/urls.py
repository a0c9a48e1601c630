"""Every address of the platform; `config.asgi` says which of them have async views."""

from allauth.account.decorators import secure_admin_login
from django.contrib import admin
from django.urls import include, path

from apps.features.sharing.downloads import file_view
from apps.operators.metrics import metrics
from apps.remote.execution.snapshots import linked_file
from apps.remote.execution.webhooks import notification
from apps.remote.federation import views as federation
from config.health import healthz, readyz, stream
from config.static_files import static_file

handler400 = "config.error_responses.bad_request_page"
handler403 = "config.error_responses.forbidden_page"
handler404 = "config.error_responses.not_found_page"
handler500 = "config.error_responses.server_error_page"
admin.autodiscover()
urlpatterns = [
    path("", include("apps.a2a.urls")),
    path("api/v1/", include("apps.api.urls")),
    path("", include("apps.doors.urls")),
    path("", include("apps.web.urls")),
    path("", include("apps.web.people.urls")),
    path("", include("apps.web.oauth")),
    path("files/<uuid:context_id>/<str:sha256>", file_view, name="file"),
    path("federation/pair", federation.pair),
    path("federation/agents", federation.agents),
    path("federation/end", federation.end),
    path("gateway/files/<str:named>/<str:filename>", linked_file, name="linked-file"),
    path("gateway/notifications/<uuid:run_id>", notification, name="notification"),
    path("admin/login/", secure_admin_login(admin.site.login)),
    path("admin/", include("apps.operators.dashboard.urls")),
    path("admin/", admin.site.urls),
    path("static/<path:name>", static_file, name="static-file"),
    path("healthz", healthz),
    path("healthz/stream", stream),
    path("readyz", readyz),
    path("metrics", metrics),
]
