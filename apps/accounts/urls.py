"""Signing in, by password or another service, and programs that act for people."""

from django.urls import include, path

urlpatterns = [path("", include("apps.accounts.pages.allauth_urls")), path("", include("apps.accounts.pages.oauth"))]
