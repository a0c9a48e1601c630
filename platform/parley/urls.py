"""Every address of the platform; `parley.asgi` says which of them have async views."""

from allauth.account.decorators import secure_admin_login
from django.contrib import admin
from django.urls import path

from parley.registry import app_urls
from parley.serving.health import healthz, readyz, stream
from parley.serving.static_files import static_file

handler400 = "parley.serving.error_responses.bad_request_page"
handler403 = "parley.serving.error_responses.forbidden_page"
handler404 = "parley.serving.error_responses.not_found_page"
handler500 = "parley.serving.error_responses.server_error_page"
admin.autodiscover()
urlpatterns = [
    *app_urls(of_packages=False),
    path("admin/login/", secure_admin_login(admin.site.login)),
    path("admin/", admin.site.urls),
    path("static/<path:name>", static_file, name="static-file"),
    path("healthz", healthz),
    path("healthz/stream", stream),
    path("readyz", readyz),
    *app_urls(of_packages=True),
]
