"""The workspaces of a person: the list, the page of one with its members, and the choice of the current one.

What a role permits, `apps.accounts.workspaces` says; the pages only leave out what would be refused.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any

from django import forms
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.urls import Resolver404, resolve

from apps.accounts import workspaces
from apps.accounts.models import Invitation, Membership, Workspace
from apps.accounts.people import mail
from apps.accounts.people.invitations import may_invite
from apps.accounts.permissions import PERMISSIONS, Permission, Role
from apps.accounts.quotas import QuotaExceeded
from apps.accounts.workspaces import NoAccount, NoMember, WorkspaceRefused, roles_up_to
from apps.features.sessions.workspaces import delete_workspace
from apps.web.settings.account import saved
from apps.web.settings.sections import person_of, private_view, settings_page
from apps.web.shell import View, parse_index

LISTS = frozenset({"agents", "inbox", "plans", "settings-usage", "settings-workspaces"})
"""Pages that show what is in the current workspace: who changes it there stays there."""
ROLE_WORDS = {
    Role.VIEWER: "reads what is shared",
    Role.MEMBER: "also sends messages, and adds agents and plans",
    Role.MANAGER: "also manages members and the name",
    Role.OWNER: "also transfers and deletes the workspace",
}
"""What each role may do, beside what the roles before it may."""
OWN_WORDS = {
    Role.VIEWER: "you read what is shared",
    Role.MEMBER: "you send messages, and add agents and plans",
    Role.MANAGER: "you also manage members and the name",
    Role.OWNER: "you may do everything, also transfer and delete the workspace",
}


class NameForm(forms.Form):
    name = forms.CharField(max_length=120, widget=forms.TextInput({"autocomplete": "off"}))


class AgentsForm(forms.ModelForm):  # type: ignore[type-arg]
    class Meta:
        model = Workspace
        fields = ("members_make_agents",)
        labels = {"members_make_agents": "Members may make agents"}
        help_texts = {"members_make_agents": ""}


class MemberForm(forms.Form):
    email = forms.EmailField(label="E-mail", max_length=254, widget=forms.EmailInput({"autocomplete": "off"}))
    role = forms.ChoiceField(initial=Role.MEMBER, widget=forms.RadioSelect)

    def __init__(self, own: Membership, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        given = roles_up_to(Role(own.role))
        self.fields["role"].choices = [(one.value, f"{one.label}: {ROLE_WORDS[one]}") for one in given]  # type: ignore[attr-defined]
        self.fields["email"].help_text = (
            "People without an account here get an invitation."
            if may_invite(own.user)
            else "The person needs an account here."
        )


class OwnerForm(forms.Form):
    member = forms.TypedChoiceField(label="New owner", coerce=int)

    def __init__(self, own: Membership, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        others = own.workspace.memberships.select_related("user").exclude(pk=own.pk).order_by("created_at", "pk")
        names = [(one.user_id, f"{one.user.short_name} ({one.user.email})") for one in others]
        self.fields["member"].choices = [("", "Choose a member"), *names]  # type: ignore[attr-defined]


class DeleteForm(forms.Form):
    name = forms.CharField(label="Type the name of the workspace", widget=forms.TextInput({"autocomplete": "off"}))


@dataclass(frozen=True, slots=True)
class MemberRow:
    """A member as the reader sees them: with the roles that they may be given, and whether they may be removed."""

    member: Membership
    choices: list[tuple[str, str]]
    is_removable: bool


@private_view
def list_workspaces(request: HttpRequest) -> HttpResponse:
    """The list, and a form for another."""
    form = NameForm(request.POST if request.method == "POST" else None)
    if request.method == "POST" and form.is_valid():
        made, problem = _try(request, workspaces.create_workspace, form.cleaned_data["name"])
        if made:
            messages.success(request, f"“{made.name}” is made. Add members here.")
            return redirect("web:settings-workspace", made.pk)
        form.add_error(None, problem)
    return settings_page(request, "workspaces", form, form=form, memberships=person_of(request).all_memberships)


@private_view
def choose(request: HttpRequest) -> HttpResponse:
    """The switch in the sidebar. A list stays open; other pages may not be there in the other workspace."""
    if request.method != "POST":
        return redirect("web:settings-workspaces")
    chosen, problem = _try(request, workspaces.choose_workspace, parse_index(request.POST.get("workspace", "")) or 0)
    if not chosen:
        messages.error(request, problem)
        return redirect("web:settings-workspaces")
    try:
        name = resolve(request.POST.get("next", "")).url_name
    except Resolver404:
        name = ""
    return redirect(f"web:{name if name in LISTS else 'home'}")


@private_view
def show_workspace(request: HttpRequest, number: int) -> HttpResponse:
    return _page(request, _own(request, number))


def _posted(view: View) -> View:
    """An address that only forms of the workspace's page use. The view gets the person's membership."""

    @private_view
    @wraps(view)
    def posted(request: HttpRequest, number: int, **address: int) -> HttpResponseBase:
        if request.method != "POST":
            return redirect("web:settings-workspace", number)
        return view(request, _own(request, number), **address)

    return posted


@_posted
def rename(request: HttpRequest, own: Membership) -> HttpResponse:
    form = NameForm(request.POST)
    if form.is_valid():
        renamed, problem = _try(request, workspaces.rename_workspace, own.workspace_id, form.cleaned_data["name"])
        if renamed:
            return _done(request, own, "Saved.")
        form.add_error(None, problem)
    return _page(request, own, name_form=form)


@_posted
def members_make_agents(request: HttpRequest, own: Membership) -> HttpResponse:
    wanted = "members_make_agents" in request.POST
    _, problem = _try(request, workspaces.let_members_make_agents, own.workspace_id, wanted)
    return _done(request, own, "Members can make agents now." if wanted else "Members make no agents now.", problem)


@_posted
def add_member(request: HttpRequest, own: Membership) -> HttpResponse:
    """Adds who has an account here. Who may invite invites anybody else; the link is shown once."""
    form = MemberForm(own, request.POST)
    if not form.is_valid():
        return _page(request, own, member_form=form)
    asked = own.workspace_id, form.cleaned_data["email"].strip().lower(), Role(form.cleaned_data["role"])
    try:
        added, problem = _try(request, workspaces.add_member, *asked)
    except NoAccount as nobody:
        if not may_invite(own.user):
            form.add_error("email", str(nobody))
            return _page(request, own, member_form=form)
        invited, problem = _try(request, workspaces.invite_member, *asked)
        if invited:
            return _page(request, own, made=invited[0], link=invited[1], is_sent=mail.can_send())
    else:
        if added:
            return _done(request, own, f"{added.user.short_name} is a member now.")
    form.add_error(None, problem)
    return _page(request, own, member_form=form)


@_posted
def change_role(request: HttpRequest, own: Membership, person: int) -> HttpResponse:
    role = request.POST.get("role", "")
    if role not in Role.values:
        return _done(request, own, "", "There is no such role.")
    changed, problem = _try(request, workspaces.change_role, own.workspace_id, person, Role(role))
    sentence = f"{changed.user.short_name} has a new role: {Role(role).label}." if changed else ""
    return _done(request, own, sentence, problem)


@private_view
def remove_member(request: HttpRequest, number: int, person: int) -> HttpResponse:
    """Asks first. One's own membership: leaving."""
    own = _own(request, number)
    leaves = person == own.user_id
    if request.method != "POST":
        members = Membership.objects.filter(workspace=own.workspace).select_related("user")
        other = members.find(person_of(request).principal, person, by="user__pk")
        return _page(request, own, removing=other, leaves=leaves)
    _, problem = _try(request, workspaces.remove_member, number, person)
    if leaves and not problem:
        return saved(request, "workspaces", f"You have left “{own.workspace.name}”.")
    return _done(request, own, "Member removed. Their access has ended.", problem)


@_posted
def transfer(request: HttpRequest, own: Membership) -> HttpResponse:
    form = OwnerForm(own, request.POST)
    if not form.is_valid():
        return _page(request, own, owner_form=form)
    changed, problem = _try(request, workspaces.transfer_ownership, own.workspace_id, form.cleaned_data["member"])
    sentence = f"{changed.user.short_name} owns this workspace now. You are a manager." if changed else ""
    return _done(request, own, sentence, problem)


@_posted
def delete(request: HttpRequest, own: Membership) -> HttpResponse:
    form = DeleteForm(request.POST)
    if form.is_valid():
        _, problem = _try(request, delete_workspace, own.workspace_id, form.cleaned_data["name"])
        if not problem:
            return saved(request, "workspaces", f"“{own.workspace.name}” is deleted.")
        form.add_error("name", problem)
    return _page(request, own, delete_form=form)


def _own(request: HttpRequest, number: int) -> Membership:
    """The person's membership. Raises Http404."""
    found = next((one for one in person_of(request).all_memberships if one.workspace_id == number), None)
    if found is None:
        raise Http404
    return found


def _try[T](request: HttpRequest, act: Callable[..., T], *args: Any) -> tuple[T | None, str]:
    """What was done, or why it was not. Raises NotFound, NoAccount."""
    try:
        return act(person_of(request).principal, *args), ""
    except NoAccount:
        raise
    except (NoMember, WorkspaceRefused, QuotaExceeded) as refused:
        return None, str(refused)


def _done(request: HttpRequest, own: Membership, sentence: str, problem: str = "") -> HttpResponse:
    """Back to the page of the workspace, which says what happened."""
    messages.add_message(request, messages.ERROR if problem else messages.SUCCESS, problem or sentence)
    return redirect("web:settings-workspace", own.workspace_id)


def _page(request: HttpRequest, own: Membership, **context: Any) -> HttpResponse:
    """The page of a workspace; 422 if one of the forms given has errors."""
    workspace, permitted = own.workspace, PERMISSIONS[Role(own.role)]
    is_shared = workspace.personal_of_id is None
    forms_shown: dict[str, forms.BaseForm] = {}
    if Permission.SETTINGS in permitted and is_shared:
        forms_shown["agents_form"] = AgentsForm(instance=workspace)
    if Permission.SETTINGS in permitted:
        forms_shown["name_form"] = NameForm(initial={"name": workspace.name})
    if Permission.MEMBERS in permitted and is_shared:
        forms_shown["member_form"] = MemberForm(own)
    if Permission.DELETE in permitted and is_shared:
        forms_shown |= {"owner_form": OwnerForm(own), "delete_form": DeleteForm()}
    rows = _rows(own)
    about = {
        "own": own,
        "own_words": OWN_WORDS[Role(own.role)],
        "workspace": workspace,
        "rows": rows,
        "can_leave": is_shared and not _is_last_owner(own, rows),
        "invited": _invited(own) if "member_form" in forms_shown else [],
        **forms_shown,
        **context,
    }
    used = [one for one in context.values() if isinstance(one, forms.Form)]
    return settings_page(request, "workspaces", *used, template="web/settings_workspace.html", **about)


def _rows(own: Membership) -> list[MemberRow]:
    own_role = Role(own.role)
    manages = Permission.MEMBERS in PERMISSIONS[own_role]
    members = own.workspace.memberships.select_related("user").order_by("created_at", "pk")

    def row(member: Membership) -> MemberRow:
        may_change = manages and member.pk != own.pk and Role(member.role) in roles_up_to(own_role)
        return MemberRow(member, _choices(own) if may_change else [], may_change)

    return [row(member) for member in members]


def _is_last_owner(own: Membership, rows: list[MemberRow]) -> bool:
    owners = [row for row in rows if row.member.role == Role.OWNER and row.member.user.is_active]
    return own.role == Role.OWNER and len(owners) < 2


def _choices(own: Membership) -> list[tuple[str, str]]:
    """The roles that the person may give."""
    return [(one.value, one.label) for one in roles_up_to(Role(own.role))]


def _invited(own: Membership) -> list[Invitation]:
    """The person's open invitations to the workspace."""
    mine = Invitation.objects.visible_to(own.user.principal).open().filter(workspace=own.workspace_id)
    return list(mine.order_by("-created_at", "-pk"))
