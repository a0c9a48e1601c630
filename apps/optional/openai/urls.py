"""The addresses of OpenAI's API."""

from django.urls import include, path

from apps.optional.openai import views

urlpatterns = [path("v1/", include((views.urlpatterns, "openai")))]
