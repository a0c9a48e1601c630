"""The workspaces of a person: the list, the page of one with its members, and the choice of the current one.

What a role permits, `apps.accounts.workspaces` says; the pages only leave out what would be refused.
"""

from __future__ import annotations

from typing import Any, ClassVar

from django import forms
from django.contrib import messages
from django.forms import model_to_dict
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import Resolver404, path, resolve, reverse

from apps.accounts import workspaces
from apps.accounts.models import Invitation, Membership, Workspace
from apps.accounts.pages.account import SettingForm, saved
from apps.accounts.people import mail
from apps.accounts.people.invitations import may_invite
from apps.accounts.permissions import PERMISSIONS, Permission, Role
from apps.accounts.principals import Principal
from apps.accounts.workspaces import NoAccount, NoMember, WorkspaceRefused, roles_up_to
from apps.conversations.sessions.workspaces import delete_workspace
from apps.web.settings.sections import person_of, private_view, settings_page
from apps.web.shell import View, parse_index

LISTS = frozenset({"agents", "inbox", "plans", "settings-usage", "settings-workspaces"})
"""Pages that show what is in the current workspace: who changes it there stays there."""
ROLE_WORDS = {
    Role.VIEWER: "can read what is shared",
    Role.MEMBER: "can also send messages, and add agents and plans",
    Role.MANAGER: "can also manage members and the name",
    Role.OWNER: "can also transfer and delete the workspace",
}
"""What each role may do, beside what the roles before it may."""
LEAVING = "Your access ends at once, and your API keys of this workspace are revoked. Only a manager can add you again."
REMOVING = (
    "Their access ends at once, and their API keys of this workspace are revoked. What they wrote in shared sessions "
    "stays."
)


class WorkspaceForm(SettingForm):
    """A form of a workspace's page.

    Attributes:
        route: the name of its address.
        title: above it, with what there is to know `about` it.
        submit: on its button, which has the class `look`.
        permission: what shows it. The service that it calls checks the role itself.
        is_for_all: whether a personal workspace has it, too.
        ends: whether the workspace is gone for the person then.
    """

    route: ClassVar[str]
    title: ClassVar[str]
    about: ClassVar[str] = ""
    submit: ClassVar[str]
    look: ClassVar[str] = ""
    permission: ClassVar[Permission] = Permission.SETTINGS
    is_for_all: ClassVar[bool] = False
    ends: ClassVar[bool] = False
    invited: tuple[Invitation, str] | None = None  # whoever is no member yet, with the link that is shown now

    def __init__(self, own: Membership, *args: Any, **kwargs: Any) -> None:
        self.own = own
        super().__init__(*args, **{"auto_id": f"{self.route}-%s", **kwargs})

    @classmethod
    def is_offered(cls, own: Membership) -> bool:
        return cls.permission in PERMISSIONS[Role(own.role)] and (cls.is_for_all or is_shared(own.workspace))

    @property
    def address(self) -> str:
        return reverse(f"web:{self.route}", args=[self.own.workspace_id])

    def carry_out(self, principal: Principal) -> str:
        """What the next page says; "" if this one shows what was made (`invited`). Raises Refusal, QuotaExceeded."""
        raise NotImplementedError


class MemberForm(WorkspaceForm):
    """Adds who has an account here. Who may invite invites anybody else; the link is shown once."""

    route, title, submit, look = "settings-add-member", "Add a member", "Add", "primary"
    permission = Permission.MEMBERS
    email = forms.EmailField(label="E-mail", max_length=254, widget=forms.EmailInput({"autocomplete": "off"}))
    role = forms.ChoiceField(initial=Role.MEMBER, widget=forms.RadioSelect)

    def __init__(self, own: Membership, *args: Any, **kwargs: Any) -> None:
        super().__init__(own, *args, **kwargs)
        given = roles_up_to(Role(own.role))
        self.fields["role"].choices = [(one.value, f"{one.label}: {ROLE_WORDS[one]}") for one in given]  # type: ignore[attr-defined]
        self.fields["email"].help_text = (
            "People without an account here get an invitation."
            if may_invite(own.user)
            else "The person needs an account here."
        )

    def carry_out(self, principal: Principal) -> str:
        cleaned = self.cleaned_data
        asked = self.own.workspace_id, cleaned["email"].strip().lower(), Role(cleaned["role"])
        try:
            return f"{workspaces.add_member(principal, *asked).user.short_name} is a member now."
        except NoAccount:
            if not may_invite(self.own.user):
                raise
        self.invited = workspaces.invite_member(principal, *asked)
        return ""


class ChangeForm(WorkspaceForm):
    route, title, submit, is_for_all = "settings-rename-workspace", "Name and agents", "Save", True
    name = forms.CharField(max_length=120, widget=forms.TextInput({"autocomplete": "off"}))
    members_make_agents = forms.BooleanField(
        label="Members may make agents",
        required=False,
        help_text="Managers and owners can make agents, and edit those that were made here.",
    )

    def __init__(self, own: Membership, *args: Any, **kwargs: Any) -> None:
        super().__init__(own, *args, initial=model_to_dict(own.workspace), **kwargs)
        if not is_shared(own.workspace):
            del self.fields["members_make_agents"]

    def carry_out(self, principal: Principal) -> str:
        workspaces.change_workspace(principal, self.own.workspace_id, **self.cleaned_data)
        return "Saved."


class OwnerForm(WorkspaceForm):
    route, title, submit = "settings-transfer-workspace", "Transfer ownership", "Transfer"
    about = "The member that you choose becomes an owner, and you become a manager."
    permission = Permission.DELETE
    member = forms.TypedChoiceField(label="New owner", coerce=int)

    def __init__(self, own: Membership, *args: Any, **kwargs: Any) -> None:
        super().__init__(own, *args, **kwargs)
        others = own.workspace.memberships.select_related("user").exclude(pk=own.pk).order_by("created_at", "pk")
        names = [(one.user_id, f"{one.user.short_name} ({one.user.email})") for one in others]
        self.fields["member"].choices = [("", "Choose a member"), *names]  # type: ignore[attr-defined]

    def carry_out(self, principal: Principal) -> str:
        owner = workspaces.transfer_ownership(principal, self.own.workspace_id, self.cleaned_data["member"])
        return f"{owner.user.short_name} owns this workspace now. You are a manager."


class DeleteForm(WorkspaceForm):
    route, title, submit, look = "settings-delete-workspace", "Delete workspace", "Delete workspace", "danger"
    about = (
        "All members lose access at once, and API keys of this workspace are revoked. Its sessions and files are "
        "deleted. You cannot undo this."
    )
    permission, ends = Permission.DELETE, True
    name = forms.CharField(label="Type the name of the workspace", widget=forms.TextInput({"autocomplete": "off"}))

    def carry_out(self, principal: Principal) -> str:
        delete_workspace(principal, self.own.workspace_id, self.cleaned_data["name"])
        return f"“{self.own.workspace.name}” is deleted."


class NewForm(SettingForm):
    name = forms.CharField(max_length=120, widget=forms.TextInput({"autocomplete": "off"}))


FORMS: tuple[type[WorkspaceForm], ...] = (MemberForm, ChangeForm, OwnerForm, DeleteForm)


@private_view
def list_workspaces(request: HttpRequest) -> HttpResponse:
    """The list, and a form for another."""
    person, form = person_of(request), NewForm(request.POST or None)
    if form.is_valid() and (
        made := form.attempt(workspaces.create_workspace, person.principal, form.cleaned_data["name"])
    ):
        messages.success(request, f"“{made.name}” is made. Add members here.")
        return redirect("web:settings-workspace", made.pk)
    return settings_page(request, "workspaces", form, form=form, memberships=person.all_memberships)


@private_view
def choose(request: HttpRequest) -> HttpResponse:
    """The switch in the sidebar. A list stays open; other pages may not be there in the other workspace."""
    if request.method != "POST":
        return redirect("web:settings-workspaces")
    workspaces.choose_workspace(person_of(request).principal, parse_index(request.POST.get("workspace", "")) or 0)
    try:
        name = resolve(request.POST.get("next", "")).url_name
    except Resolver404:
        name = ""
    return redirect(f"web:{name if name in LISTS else 'home'}")


@private_view
def show_workspace(request: HttpRequest, number: int) -> HttpResponse:
    return _page(request, _own(request, number))


def _change(form_class: type[WorkspaceForm]) -> View:
    """The address of a form of the workspace's page."""

    @private_view
    def changed(request: HttpRequest, number: int) -> HttpResponse:
        if request.method != "POST":
            return redirect("web:settings-workspace", number)
        own = _own(request, number)
        form = form_class(own, request.POST)
        said = form.attempt(form.carry_out, person_of(request).principal) if form.is_valid() else None
        if not said:
            return _page(request, own, form)
        messages.success(request, said)
        return redirect("web:settings-workspaces") if form.ends else redirect("web:settings-workspace", number)

    return changed


@private_view
def change_role(request: HttpRequest, number: int, person: int) -> HttpResponse:
    if request.method == "POST":
        _own(request, number)
        try:
            role = Role(request.POST.get("role", ""))
            changed = workspaces.change_role(person_of(request).principal, number, person, role)
            messages.success(request, f"{changed.user.short_name} has a new role: {role.label}.")
        except ValueError:
            messages.error(request, "There is no such role.")
        except (NoMember, WorkspaceRefused) as refused:
            messages.error(request, str(refused))
    return redirect("web:settings-workspace", number)


@private_view
def remove_member(request: HttpRequest, number: int, person: int) -> HttpResponse:
    """Asks first. One's own membership: leaving."""
    own = _own(request, number)
    leaves = person == own.user_id
    if request.method != "POST":
        members = own.workspace.memberships.select_related("user")
        other = members.find(person_of(request).principal, person, by="user__pk")
        asked = {"label": "Leave" if leaves else "Remove", "effect": LEAVING if leaves else REMOVING}
        asked["name"] = own.workspace.name if leaves else f"{other.user.short_name} from {own.workspace.name}"
        place = {"section_title": own.workspace.name, "back": reverse("web:settings-workspace", args=[number])}
        return settings_page(request, "workspaces", template="web/settings_confirm.html", **asked, **place)
    try:
        workspaces.remove_member(person_of(request).principal, number, person)
    except (NoMember, WorkspaceRefused) as refused:
        messages.error(request, str(refused))
        return redirect("web:settings-workspace", number)
    if leaves:
        return saved(request, "workspaces", f"You have left “{own.workspace.name}”.")
    messages.success(request, "Member removed. Their access has ended.")
    return redirect("web:settings-workspace", number)


def _own(request: HttpRequest, number: int) -> Membership:
    """The person's membership. Raises Http404."""
    found = next((one for one in person_of(request).all_memberships if one.workspace_id == number), None)
    if found is None:
        raise Http404
    return found


def is_shared(workspace: Workspace) -> bool:
    return workspace.personal_of_id is None


def _page(request: HttpRequest, own: Membership, used: WorkspaceForm | None = None) -> HttpResponse:
    """The page of a workspace. `used`: a form that was refused, or that invited somebody."""
    invited, role = used.invited if used else None, Role(own.role)
    used = None if invited else used
    members = list(own.workspace.memberships.select_related("user").order_by("created_at", "pk"))
    kinds = [one for one in FORMS if one.is_offered(own) or isinstance(used, one)]
    if len(members) < 2 and OwnerForm in kinds:
        kinds.remove(OwnerForm)
    manages = is_shared(own.workspace) and Permission.MEMBERS in PERMISSIONS[role]
    about = {
        "own": own,
        "own_words": ROLE_WORDS[role],
        "workspace": own.workspace,
        "members": members,
        "given_roles": roles_up_to(role) if manages else [],
        "can_leave": is_shared(own.workspace) and not _is_last_owner(own, members),
        "forms": [used if used and isinstance(used, one) else one(own) for one in kinds],
        "invitations": _invitations(own) if manages else [],
        "made": invited,
        "is_sent": mail.can_send(),
    }
    refused = (used,) if used else ()
    return settings_page(request, "workspaces", *refused, template="accounts/settings_workspace.html", **about)


def _is_last_owner(own: Membership, members: list[Membership]) -> bool:
    owners = [one for one in members if one.role == Role.OWNER and one.user.is_active]
    return own.role == Role.OWNER and len(owners) < 2


def _invitations(own: Membership) -> list[Invitation]:
    """The person's open invitations to the workspace."""
    mine = Invitation.objects.visible_to(own.user.principal).open().filter(workspace=own.workspace_id)
    return list(mine.order_by("-created_at", "-pk"))


MEMBER = "settings/workspaces/<int:number>/members/<int:person>"
urlpatterns = [
    path("settings/workspaces", list_workspaces, name="settings-workspaces"),
    path("settings/workspaces/choose", choose, name="settings-choose-workspace"),
    path("settings/workspaces/<int:number>", show_workspace, name="settings-workspace"),
    path("settings/workspaces/<int:number>/name", _change(ChangeForm), name=ChangeForm.route),
    path("settings/workspaces/<int:number>/members", _change(MemberForm), name=MemberForm.route),
    path(f"{MEMBER}/role", change_role, name="settings-change-role"),
    path(f"{MEMBER}/remove", remove_member, name="settings-remove-member"),
    path("settings/workspaces/<int:number>/transfer", _change(OwnerForm), name=OwnerForm.route),
    path("settings/workspaces/<int:number>/delete", _change(DeleteForm), name=DeleteForm.route),
]
