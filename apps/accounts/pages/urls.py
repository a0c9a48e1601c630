"""Addresses of accounts, keys, workspaces and signing in."""

from django.contrib.auth.views import LogoutView
from django.urls import path

from apps.accounts.pages import account, data, invitations, keys, programs, security, workspaces
from apps.accounts.pages.passwords import Welcome, confirm_address, forgotten
from apps.accounts.pages.sign_in import SignIn, guarded

urlpatterns = [
    path("sign-in", guarded(SignIn.as_view()), name="sign-in"),
    path("sign-out", LogoutView.as_view(), name="sign-out"),
    path("welcome/<str:uidb64>/<str:token>", guarded(Welcome.as_view()), name="welcome"),
    path("sign-up", guarded(invitations.sign_up), name="sign-up"),
    path("invitations/<str:token>", guarded(invitations.invitation), name="invitation"),
    *invitations.urlpatterns,
    path("forgotten", guarded(forgotten), name="forgotten"),
    path("confirm-address/<str:token>", guarded(confirm_address), name="confirm-address"),
    *account.urlpatterns,
    *data.urlpatterns,
    path("settings/security", security.security, name="settings-security"),
    path("settings/security/sessions/end", security.end_sessions, name="settings-end-sessions"),
    path("settings/security/sessions/<int:number>/end", security.end_session, name="settings-end-session"),
    *workspaces.urlpatterns,
    *keys.urlpatterns,
    *programs.urlpatterns,
]
