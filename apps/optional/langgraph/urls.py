"""The addresses of LangGraph's API."""

from django.urls import include, path

from apps.optional.langgraph import views

urlpatterns = [path("langgraph/", include((views.urlpatterns, "langgraph")))]
