"""The addresses of files in answers of other protocols."""

from django.urls import path

from apps.doors.links import linked_file

urlpatterns = [path("v1/files/<str:signed>/<str:filename>", linked_file, name="door-file")]
