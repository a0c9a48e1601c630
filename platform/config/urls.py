from django.contrib import admin
from django.urls import include, path

from apps.conversations.downloads import file

urlpatterns = [
    path("", include("apps.a2a.urls")),
    path("admin/", admin.site.urls),
    path("files/<uuid:context_id>/<str:sha256>", file, name="file"),
]
