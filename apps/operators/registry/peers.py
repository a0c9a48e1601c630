"""Admin pages of paired installations, and of the agents that they may use."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.contrib.admin import display
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.urls import path
from django.utils.decorators import method_decorator
from django.utils.safestring import SafeString
from django.views.decorators.cache import never_cache
from unfold.decorators import action
from unfold.widgets import UnfoldAdminTextareaWidget

from apps.accounts.models import User
from apps.agents.models import CLOSED, Agent
from apps.remote.federation import pairing, sync
from apps.remote.models import Peer, RemoteAgent, SharedAgent
from console import cells
from console.admin import ConsoleAdmin, ReadOnlyAdmin, column, page_link, time_cell
from console.cells import Tone

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
class PeerAdmin(ReadOnlyAdmin):
    """Only `passes_names` can be edited."""

    agents_here = column(
        "agents", lambda row: cells.link("its agents here", cells.list_url(RemoteAgent, peer__id__exact=row.pk))
    )
    list_display = (
        page_link("name"),
        "stands",
        "did",
        agents_here,
        time_cell("seen_at", "last seen"),
        time_cell("created_at"),
    )
    list_filter = ("state",)
    search_fields = ("name", "did", "base_url")
    search_help_text = "A name, an identity or an address"
    id_lookups = ()
    ordering = ("state", "name")
    actions = ("revoke_selected",)
    actions_list = ("make_code", "take_code")
    fields = (
        "name", "stands", "did", "base_url", agents_here, "passes_names", "fingerprints", "error", "made_by",
        *map(time_cell, ("paired_at", "seen_at", "ended_at")),
    )  # fmt: skip
    readonly_fields = tuple(field for field in fields if field != "passes_names")
    select_related = ("made_by",)
    deferred = ("code", "salt")
    operate_permission = "remote.change_peer"

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return request.user.has_perm(self.operate_permission)

    def get_urls(self) -> list[Any]:
        site = self.admin_site.admin_view
        return [
            path("code/", site(self.code), name="remote_peer_code"),
            path("pair/", site(self.pair), name="remote_peer_pair"),
            *super().get_urls(),
        ]

    @action(description="Make a code", icon="key", permissions=["operate"])
    def make_code(self, request: HttpRequest) -> HttpResponse:
        return redirect("admin:remote_peer_code")

    @action(description="Enter a code", icon="link", permissions=["operate"])
    def take_code(self, request: HttpRequest) -> HttpResponse:
        return redirect("admin:remote_peer_pair")

    @method_decorator(never_cache)
    def code(self, request: HttpRequest) -> HttpResponse:
        """Make a code, and show it once."""
        self._check(request)
        text = pairing.make_code(_operator(request))[1] if request.method == "POST" else ""
        return self._page(request, "A code for another installation", text=text)

    @method_decorator(never_cache)
    def pair(self, request: HttpRequest) -> HttpResponse:
        """Take a code of another installation."""
        self._check(request)
        form = CodeForm(request.POST if request.method == "POST" else None)
        if form.is_valid():
            try:
                peer = pairing.take_code(form.cleaned_data["code"], _operator(request))
            except pairing.PairingRefused as error:
                form.add_error("code", str(error))
            else:
                sync.sync_peer(peer)
                messages.success(request, f"{peer} is paired. The agents that it shares are listed with the others.")
                return redirect(cells.page_url(Peer, peer.pk))
        return self._page(request, "Pair with another installation", form=form)

    @admin.action(description="Revoke", permissions=["operate"])
    def revoke_selected(self, request: HttpRequest, peers: QuerySet[Peer]) -> None:
        for peer in peers:
            pairing.revoke(peer, _operator(request))
            self.log_change(request, peer, "Revoked.", "")  # recorded already
        messages.success(request, "Revoked. Calls of its people are refused from now on.")

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

    def _check(self, request: HttpRequest) -> None:
        if not self.has_change_permission(request):
            raise PermissionDenied

    def _page(self, request: HttpRequest, title: str, **about: Any) -> HttpResponse:
        page = {**self.admin_site.each_context(request), "title": title, "opts": self.opts, **about}
        return TemplateResponse(request, "admin/remote/pair.html", page, headers={"Cache-Control": "no-store"})


def _operator(request: HttpRequest) -> User | None:
    return request.user if isinstance(request.user, User) else None


@admin.register(SharedAgent)
class SharedAgentAdmin(ConsoleAdmin):
    list_display = (column("agent", lambda row: str(row.agent), "agent__name"), time_cell("shared_at", "shared"))
    fields = ("agent",)
    select_related = ("agent",)
    search_fields = ("agent__name", "agent__slug")

    def formfield_for_foreignkey(self, db_field: Any, request: HttpRequest, **options: Any) -> Any:
        options["queryset"] = Agent.objects.enabled().exclude(access__in=CLOSED).order_by("name")
        return super().formfield_for_foreignkey(db_field, request, **options)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False
