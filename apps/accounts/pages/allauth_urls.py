"""django-allauth's views at our addresses. It finds them by these names."""

from allauth.account import views as account
from allauth.mfa.base import views as mfa
from allauth.mfa.recovery_codes import views as recovery_codes
from allauth.mfa.totp import views as totp
from allauth.mfa.webauthn import views as webauthn
from allauth.socialaccount import views as social
from django.contrib.auth.views import LogoutView
from django.urls import path
from django.views.generic import RedirectView

from apps.accounts.pages import security
from apps.accounts.pages.sign_in import SignIn, cancelled, guarded, sign_in_at, signed_in_at

PASSKEY = "settings/security/passkeys/<int:pk>"

urlpatterns = [
    path("sign-in", guarded(SignIn.as_view()), name="account_login"),
    path("sign-out", LogoutView.as_view(), name="account_logout"),
    path("sign-in/inactive", guarded(account.account_inactive), name="account_inactive"),
    path("sign-in/code", guarded(mfa.authenticate), name="mfa_authenticate"),
    path("sign-in/passkey", guarded(webauthn.login_webauthn), name="mfa_login_webauthn"),
    path("sign-in/with/<str:provider_id>/login/", guarded(sign_in_at), name="openid_connect_login"),
    path("sign-in/with/<str:provider_id>/login/callback/", guarded(signed_in_at), name="openid_connect_callback"),
    path("sign-in/cancelled", guarded(cancelled), name="socialaccount_login_cancelled"),
    path("sign-in/problem", guarded(social.login_error), name="socialaccount_login_error"),
    path("confirm", guarded(account.reauthenticate), name="account_reauthenticate"),
    path("confirm/code", guarded(mfa.reauthenticate), name="mfa_reauthenticate"),
    path("confirm/passkey", guarded(webauthn.reauthenticate_webauthn), name="mfa_reauthenticate_webauthn"),
    path("settings/security", security.security, name="mfa_index"),
    path("settings/security/app/add", guarded(totp.activate_totp), name="mfa_activate_totp"),
    path("settings/security/app/remove", guarded(totp.deactivate_totp), name="mfa_deactivate_totp"),
    path(
        "settings/security/recovery-codes",
        guarded(recovery_codes.view_recovery_codes),
        name="mfa_view_recovery_codes",
    ),
    path(
        "settings/security/recovery-codes/new",
        guarded(recovery_codes.generate_recovery_codes),
        name="mfa_generate_recovery_codes",
    ),
    path(
        "settings/security/recovery-codes/download",
        guarded(recovery_codes.download_recovery_codes),
        name="mfa_download_recovery_codes",
    ),
    path("settings/security/passkeys", RedirectView.as_view(pattern_name="mfa_index"), name="mfa_list_webauthn"),
    path("settings/security/passkeys/add", guarded(webauthn.add_webauthn), name="mfa_add_webauthn"),
    path(f"{PASSKEY}/remove", guarded(webauthn.remove_webauthn), name="mfa_remove_webauthn"),
    path(f"{PASSKEY}/name", guarded(webauthn.edit_webauthn), name="mfa_edit_webauthn"),
]
