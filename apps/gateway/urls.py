"""What remote agents may call."""

from django.urls import path

from apps.gateway import links

app_name = "gateway"
urlpatterns = [path("files/<str:named>/<str:filename>", links.linked_file, name="file")]
