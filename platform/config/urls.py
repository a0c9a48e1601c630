from django.contrib import admin
from django.urls import include, path

from apps.conversations.downloads import file

urlpatterns = [
    path("admin/", admin.site.urls),
    path("files/<uuid:context_id>/<str:sha256>", file, name="file"),
    path("", include("apps.web.urls")),
]
