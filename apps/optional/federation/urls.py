"""What paired installations call."""

from django.urls import path

from apps.optional.federation import views

urlpatterns = [
    path("federation/pair", views.pair),
    path("federation/agents", views.agents),
    path("federation/end", views.end),
]
