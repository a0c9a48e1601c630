"""The address of AG-UI."""

from django.urls import path

from apps.optional.agui.views import run_agent

urlpatterns = [path("agui/<str:slug>", run_agent, name="agui"), path("agui/<str:slug>/", run_agent)]
