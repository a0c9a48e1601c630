"""Addresses of credentials."""

from django.urls import path
from django.views.generic import RedirectView

from apps.credentials.pages import connecting, credentials

urlpatterns = [
    path("agents/<slug:slug>/credentials", credentials.agent_credentials, name="agent-credentials"),
    path("settings/credentials", credentials.credential_list, name="settings-credentials"),
    path("settings/credentials/oauth/connect", connecting.connect, name="connect"),
    path("settings/credentials/oauth/callback", connecting.come_back, name="come-back"),
    path("settings/credentials/<int:number>/revoke", credentials.revoke_credential, name="revoke"),
    path("credentials/", RedirectView.as_view(pattern_name="web:settings-credentials", permanent=True)),
    path("credentials/<str:token>", credentials.credential, name="credential"),
    path("credentials/<str:token>/connect", connecting.connect_by_link, name="connect-by-link"),
]
