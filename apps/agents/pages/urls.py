"""Addresses of agents."""

from django.urls import path

from apps.agents.pages import adding, agents, making, usage, versions

urlpatterns = [
    path("agents", agents.agents, name="agents"),
    path("agents/remote/add", adding.add_agent, name="add-agent"),
    path("agents/new", making.edit_agent, name="new-agent"),
    path("agents/draft", making.try_draft, name="try-draft"),
    path("agents/draft/prose", making.draft_prose, name="draft-prose"),
    path("agents/<slug:slug>", agents.agent, name="agent"),
    path("agents/<slug:slug>/edit", making.edit_agent, name="edit-agent"),
    path("agents/<slug:slug>/delete", making.delete_agent, name="delete-agent"),
    path("agents/<slug:slug>/picture", making.picture, name="agent-picture"),
    path("agents/<slug:slug>/usage", usage.usage, name="agent-usage"),
    path("agents/<slug:slug>/versions", versions.versions, name="agent-versions"),
    path("agents/<slug:slug>/versions/act", versions.act, name="agent-versions-act"),
    path("agents/<slug:slug>/versions/rollout", versions.roll_out, name="agent-rollout"),
    path("agents/<slug:slug>/try", agents.try_agent, name="try-agent"),
    path("agents/<slug:slug>/try/token", agents.console_token, name="try-token"),
]
