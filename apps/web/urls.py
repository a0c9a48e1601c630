"""People's pages."""

from django.contrib.auth.views import LogoutView
from django.urls import path

from apps.web import credentials, downloads, home, remote_agents, remote_credentials, sending, sessions
from apps.web.sign_in import SignIn

app_name = "web"

ARTIFACT = "sessions/<uuid:session>/artifacts/<uuid:task>/<path:artifact>/<int:number>"

urlpatterns = [
    path("", home.home, name="home"),
    path("sign-in", SignIn.as_view(), name="sign-in"),
    path("sign-out", LogoutView.as_view(), name="sign-out"),
    path("agents", home.agents, name="agents"),
    path("agents/remote/add", remote_agents.add, name="add-agent"),
    path("agents/<str:slug>", home.agent, name="agent"),
    path("agents/<str:slug>/credentials", remote_credentials.of_agent, name="agent-credentials"),
    path("agents/<str:slug>/messages", sending.begin, name="begin"),
    path("credentials/", credentials.credentials, name="credentials"),
    path("credentials/<int:number>/revoke", credentials.revoke, name="revoke"),
    path("credentials/<str:token>", credentials.credential, name="credential"),
    path("sessions/<uuid:session>", sessions.session, name="session"),
    path("sessions/<uuid:session>/earlier", sessions.earlier, name="earlier"),
    path("sessions/<uuid:session>/messages", sending.say, name="say"),
    path("sessions/<uuid:session>/again", sending.again, name="again"),
    path("sessions/<uuid:session>/feedback", sending.rate, name="rate"),
    path("sessions/<uuid:session>/agent", sending.switch, name="switch"),
    path("sessions/<uuid:session>/stop", sending.stop, name="stop"),
    path("sessions/<uuid:session>/messages/<int:index>/<int:number>", downloads.message_file, name="message-file"),
    path(f"{ARTIFACT}/preview", downloads.artifact_preview, name="artifact-preview"),
    path(ARTIFACT, downloads.artifact_file, name="artifact-file"),
]
