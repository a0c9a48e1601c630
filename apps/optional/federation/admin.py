"""Admin pages of paired installations, and of the agents that they may use."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.contrib.admin import display
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.utils.safestring import SafeString
from unfold.decorators import action as page_action
from unfold.widgets import UnfoldAdminTextareaWidget

from apps.agents.models import CLOSED, Agent
from apps.operators.actions import ActingAdmin
from apps.optional.federation import pairing, sync
from apps.remote.models import Peer, RemoteAgent, SharedAgent
from parley.faces import cells
from parley.faces.admin import ConsoleAdmin, MenuItem, ReadOnlyAdmin, column, time_cell
from parley.faces.cells import Tone

TONES = {
    Peer.State.INVITED: Tone.WAITING,
    Peer.State.PAIRED: Tone.DONE,
    Peer.State.REVOKED: Tone.STOPPED,
    Peer.State.ENDED: Tone.FAILED,
}


class CodeForm(forms.Form):
    code = forms.CharField(
        max_length=pairing.LONGEST_CODE,
        widget=UnfoldAdminTextareaWidget(attrs={"rows": 4, "autofocus": True}),
        help_text="An operator of the other installation makes it. It works once, within 15 minutes.",
    )


@admin.register(Peer)
class PeerAdmin(ActingAdmin, ReadOnlyAdmin):
    """Only `passes_names` can be edited."""

    menu = MenuItem("Remote agents", 2, "handshake")
    resource = pairing.PEERS
    acts = pairing.PEERS.acts
    agents_here = column(
        "agents", lambda row: cells.link("its agents here", cells.list_url(RemoteAgent, peer__id__exact=row.pk))
    )
    list_display = ("name", "stands", "did", agents_here, "seen_at", "created_at")
    list_filter = ("state",)
    search_fields = ("name", "did", "base_url")
    search_help_text = "A name, an identity or an address"
    id_lookups = ()
    ordering = ("state", "name")
    actions_list = ("code", "pair")
    fields = (
        "name", "stands", "did", "base_url", agents_here, "passes_names", "fingerprints", "error", "made_by",
        *map(time_cell, ("paired_at", "seen_at", "ended_at")),
    )  # fmt: skip
    readonly_fields = tuple(field for field in fields if field != "passes_names")
    select_related = ("made_by",)
    deferred = ("code", "salt")

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return request.user.has_perm(self.operate_permission)

    @page_action(description="Make a code", icon="key", permissions=["operate"], url_path="code")
    def code(self, request: HttpRequest) -> HttpResponse:
        """Make a code, and show it once."""
        text = pairing.make_code(request.user)[1] if request.method == "POST" else ""  # type: ignore[arg-type]
        return self._page(request, "A code for another installation", text=text)

    @page_action(description="Enter a code", icon="link", permissions=["operate"], url_path="pair")
    def pair(self, request: HttpRequest) -> HttpResponse:
        """Take a code of another installation."""
        form = CodeForm(request.POST if request.method == "POST" else None)
        if form.is_valid():
            try:
                peer = pairing.take_code(form.cleaned_data["code"], request.user)  # type: ignore[arg-type]
            except pairing.PairingRefused as error:
                form.add_error("code", str(error))
            else:
                sync.sync_peer(peer)
                messages.success(request, f"{peer} is paired. The agents that it shares are listed with the others.")
                return redirect(cells.page_url(Peer, peer.pk))
        return self._page(request, "Pair with another installation", form=form)

    @display(description="state")
    def stands(self, peer: Peer) -> SafeString:
        tone = Tone.FAILED if peer.is_paired and peer.error else TONES[Peer.State(peer.state)]
        return cells.state("Cannot be reached" if peer.is_paired and peer.error else peer.get_state_display(), tone)

    @display(description="pinned keys")
    def fingerprints(self, peer: Peer) -> str:
        return ", ".join(key["kid"] for key in peer.keys) or "none"

    def save_model(self, request: HttpRequest, obj: Peer, form: Any, change: bool) -> None:
        """Save only edited fields: the job that refreshes may have changed the rest."""
        obj.save(update_fields=form.changed_data)

    def _page(self, request: HttpRequest, title: str, **about: Any) -> HttpResponse:
        page = {**self.admin_site.each_context(request), "title": title, "opts": self.opts, **about}
        return TemplateResponse(request, "admin/remote/pair.html", page, headers={"Cache-Control": "no-store"})


@admin.register(SharedAgent)
class SharedAgentAdmin(ConsoleAdmin):
    menu = MenuItem("Remote agents", 3, "share", "Agents for them")
    list_display = (column("agent", lambda row: str(row.agent), "agent__name"), time_cell("shared_at", "shared"))
    fields = ("agent",)
    select_related = ("agent",)
    search_fields = ("agent__name", "agent__slug")

    def formfield_for_foreignkey(self, db_field: Any, request: HttpRequest, **options: Any) -> Any:
        options["queryset"] = Agent.objects.enabled().exclude(access__in=CLOSED).order_by("name")
        return super().formfield_for_foreignkey(db_field, request, **options)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False
