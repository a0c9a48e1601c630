"""People's pages."""

from django.contrib.auth.views import LogoutView
from django.urls import path
from django.views.generic import RedirectView

from apps.web import agents, credentials, home, inbox, plans, service_worker, shell, tasks
from apps.web.first_steps import Welcome, dismiss_first_steps
from apps.web.home import SignIn
from apps.web.sessions import artifacts, provenance, sending, shared, views
from apps.web.settings import account, data, keys

app_name = "web"

ARTIFACT = "sessions/<uuid:session>/artifacts/<uuid:task>/<path:artifact>"

urlpatterns = [
    path("", home.home, name="home"),
    path("sign-in", SignIn.as_view(), name="sign-in"),
    path("sign-out", LogoutView.as_view(), name="sign-out"),
    path("welcome/<str:uidb64>/<str:token>", Welcome.as_view(), name="welcome"),
    path("first-steps/dismiss", dismiss_first_steps, name="dismiss-first-steps"),
    path("agents", agents.agents, name="agents"),
    path("agents/remote/add", agents.add_agent, name="add-agent"),
    path("agents/<slug:slug>", agents.agent, name="agent"),
    path("agents/<slug:slug>/credentials", credentials.agent_credentials, name="agent-credentials"),
    path("agents/<slug:slug>/messages", sending.begin_session, name="begin"),
    path("agents/<slug:slug>/key", keys.sample_key, name="sample-key"),
    path("settings", account.settings_home, name="settings"),
    path("settings/profile", account.profile, name="settings-profile"),
    path("settings/password", account.password, name="settings-password"),
    path("settings/appearance", account.appearance, name="settings-appearance"),
    path("settings/appearance/theme", account.theme, name="settings-theme"),
    path("settings/notifications", account.notifications, name="settings-notifications"),
    path("settings/keys", keys.api_keys, name="settings-keys"),
    path("settings/keys/<int:number>/revoke", keys.revoke, name="settings-revoke-key"),
    path("settings/credentials", credentials.credential_list, name="settings-credentials"),
    path("settings/credentials/<int:number>/revoke", credentials.revoke_credential, name="revoke"),
    path("settings/data", data.my_data, name="settings-data"),
    path("settings/data/export", data.export, name="settings-export"),
    path("settings/data/delete", data.delete_account, name="settings-delete"),
    path("credentials/", RedirectView.as_view(pattern_name="web:settings-credentials", permanent=True)),
    path("credentials/<str:token>", credentials.credential, name="credential"),
    path("shared/<str:token>", shared.shared, name="shared"),
    path(
        "shared/<str:token>/files/<uuid:branch>/<str:kind>/<int:index>/<int:number>",
        shared.shared_file,
        name="shared-file",
    ),
    path("sessions/<uuid:session>", views.session, name="session"),
    path("sessions/<uuid:session>/earlier", views.earlier, name="earlier"),
    path("sessions/<uuid:session>/messages", sending.send_message, name="say"),
    path("sessions/<uuid:session>/again", sending.retry_task, name="again"),
    path("sessions/<uuid:session>/feedback", sending.rate_task, name="rate"),
    path("sessions/<uuid:session>/agent", sending.switch_agent, name="switch"),
    path("sessions/<uuid:session>/stop", sending.stop_task, name="stop"),
    path("sessions/<uuid:session>/messages/<int:index>/<int:number>", artifacts.message_file, name="message-file"),
    # Fragments for every page
    path("sidebar", shell.sidebar, name="sidebar"),
    path("find", home.palette, name="palette"),
    path("sessions/<uuid:session>/tree", views.tree, name="tree"),
    path("sessions/<uuid:session>/ways", views.session_branches, name="ways"),
    path("sessions/<uuid:session>/as.md", views.as_markdown, name="as-markdown"),
    path("sw.js", service_worker.service_worker, name="worker"),
    path("offline", service_worker.offline, name="offline"),
    path("token", service_worker.csrf_token, name="token"),
    path("inbox", inbox.inbox, name="inbox"),
    path("inbox/items", inbox.inbox_items, name="inbox-items"),
    path("sessions/<uuid:session>/queue", sending.queue_message, name="queue"),
    path("sessions/<uuid:session>/queued", sending.queued_messages, name="queued"),
    path("sessions/<uuid:session>/files", artifacts.files, name="files"),
    path("sessions/<uuid:session>/artifacts.zip", artifacts.artifacts_zip, name="artifacts-zip"),
    path(f"{ARTIFACT}/look", artifacts.artifact_look, name="artifact-look"),
    path(f"{ARTIFACT}/signature", artifacts.artifact_signature, name="artifact-signature"),
    path(f"{ARTIFACT}/provenance", provenance.artifact_provenance, name="artifact-provenance"),
    path(f"{ARTIFACT}/<int:number>/preview", artifacts.artifact_preview, name="artifact-preview"),
    path(f"{ARTIFACT}/<int:number>", artifacts.artifact_file, name="artifact-file"),
    path("tasks/<uuid:task>", tasks.task, name="task"),
    path("tasks/<uuid:task>/standing", tasks.task_status, name="task-status"),
    path("tasks/<uuid:task>/timeline", tasks.timeline, name="task-timeline"),
    path("tasks/<uuid:task>/events", tasks.events, name="task-events"),
    path("tasks/<uuid:task>/events/<int:index>", tasks.payload, name="task-event"),
    path("tasks/<uuid:task>/samples/<path:name>", plans.sample_file, name="task-sample"),
    path("tasks/<uuid:task>/documents/<str:name>", tasks.document, name="task-document"),
    path("sessions/<uuid:session>/timeline", tasks.session_timeline, name="session-timeline"),
    path("sessions/<uuid:session>/task", tasks.session_task, name="session-task"),
    path("sessions/<uuid:session>/replay", views.replay, name="replay"),
    path("sessions/<uuid:session>/replay/entries", views.replay_entries, name="replay-entries"),
    path("plans/new", plans.edit_plan, name="new-plan"),
    path("plans/check", plans.check_plan, name="plan-check"),
    path("plans/<slug:slug>/edit", plans.edit_plan, name="plan-edit"),
    path("plans/runs/<uuid:task>", plans.plan_run, name="plan-run"),
    path("plans/runs/<uuid:task>/standing", plans.run_status, name="plan-status"),
    path("plans/runs/<uuid:task>/questions", plans.run_questions, name="plan-questions"),
    path("plans/runs/<uuid:task>/control", plans.control_run, name="plan-control"),
    path("plans/runs/<uuid:task>/again", plans.repeat_run, name="plan-again"),
    path("plans", plans.plans, name="plans"),
    path("plans/<slug:slug>", plans.plan, name="plan"),
    path("plans/<slug:slug>/yaml", plans.plan_yaml, name="plan-yaml"),
    path("plans/<slug:slug>/runs", plans.start_run, name="plan-start"),
    path("agents/<slug:slug>/try", agents.try_agent, name="try-agent"),
    path("agents/<slug:slug>/try/token", agents.console_token, name="try-token"),
]
