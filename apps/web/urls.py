"""People's pages."""

from django.contrib.auth.views import LogoutView
from django.urls import path

from apps.web import (
    artifacts,
    catalogue,
    credentials,
    downloads,
    home,
    inbox,
    plan_editing,
    plan_runs,
    plans,
    provenance,
    queue,
    remote_agents,
    remote_credentials,
    replays,
    sending,
    sessions,
    shared,
    shell,
    tasks,
    transcripts,
    trees,
    trying,
    worker,
)
from apps.web.sign_in import SignIn

app_name = "web"

ARTIFACT = "sessions/<uuid:session>/artifacts/<uuid:task>/<path:artifact>"

urlpatterns = [
    path("", home.home, name="home"),
    path("sign-in", SignIn.as_view(), name="sign-in"),
    path("sign-out", LogoutView.as_view(), name="sign-out"),
    path("agents", catalogue.agents, name="agents"),
    path("agents/remote/add", remote_agents.add, name="add-agent"),
    path("agents/<str:slug>", catalogue.agent, name="agent"),
    path("agents/<str:slug>/credentials", remote_credentials.of_agent, name="agent-credentials"),
    path("agents/<str:slug>/messages", sending.begin, name="begin"),
    path("credentials/", credentials.credentials, name="credentials"),
    path("credentials/<int:number>/revoke", credentials.revoke, name="revoke"),
    path("credentials/<str:token>", credentials.credential, name="credential"),
    path("shared/<str:token>", shared.shared, name="shared"),
    path(
        "shared/<str:token>/files/<uuid:branch>/<str:kind>/<int:index>/<int:number>",
        shared.shared_file,
        name="shared-file",
    ),
    path("sessions/<uuid:session>", sessions.session, name="session"),
    path("sessions/<uuid:session>/earlier", sessions.earlier, name="earlier"),
    path("sessions/<uuid:session>/messages", sending.say, name="say"),
    path("sessions/<uuid:session>/again", sending.again, name="again"),
    path("sessions/<uuid:session>/feedback", sending.rate, name="rate"),
    path("sessions/<uuid:session>/agent", sending.switch, name="switch"),
    path("sessions/<uuid:session>/stop", sending.stop, name="stop"),
    path("sessions/<uuid:session>/messages/<int:index>/<int:number>", downloads.message_file, name="message-file"),
    # Beside every page
    path("sidebar", shell.sidebar, name="sidebar"),
    path("find", home.find, name="palette"),
    path("sessions/<uuid:session>/tree", trees.tree, name="tree"),
    path("sessions/<uuid:session>/ways", trees.ways, name="ways"),
    path("sessions/<uuid:session>/as.md", transcripts.as_markdown, name="as-markdown"),
    *worker.urlpatterns,
    *inbox.urlpatterns,
    *queue.urlpatterns,
    path("sessions/<uuid:session>/files", artifacts.files, name="files"),
    path("sessions/<uuid:session>/artifacts.zip", artifacts.artifacts_zip, name="artifacts-zip"),
    path(f"{ARTIFACT}/look", artifacts.artifact_look, name="artifact-look"),
    path(f"{ARTIFACT}/signature", artifacts.artifact_signature, name="artifact-signature"),
    path(f"{ARTIFACT}/provenance", provenance.artifact_provenance, name="artifact-provenance"),
    path(f"{ARTIFACT}/<int:number>/preview", artifacts.artifact_preview, name="artifact-preview"),
    path(f"{ARTIFACT}/<int:number>", downloads.artifact_file, name="artifact-file"),
    *tasks.urlpatterns,
    *replays.urlpatterns,
    *plan_editing.urlpatterns,
    *plan_runs.urlpatterns,
    *plans.urlpatterns,
    path("agents/<str:slug>/try", trying.try_agent, name="try-agent"),
    path("agents/<str:slug>/try/token", trying.token, name="try-token"),
]
