"""Workspaces, their members, and the choice of the current one."""

from __future__ import annotations

from django.urls import path
from drf_spectacular.utils import extend_schema_serializer
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts import workspaces
from apps.accounts.models import Membership, MembershipQuerySet
from apps.accounts.permissions import PERMISSIONS, Permission, Role
from apps.accounts.principals import MANAGE, READ, Principal
from apps.api.framework.schema import documented
from apps.api.framework.serializers import Body, Choice, Line, Listing, Query, Shape, page_of
from apps.api.framework.views import Endpoint
from apps.api.shapes import JSON
from apps.conversations.sessions.workspaces import delete_workspace

LARGEST_ID = 2**63 - 1


class WorkspaceName(Body):
    name = Line(max_length=120)


class ConfirmedName(Query):
    name = Line(max_length=120, help_text="The workspace's name, to confirm.")


class NewMember(Body):
    email = serializers.EmailField(help_text="Of a person with an account here.")
    role = Choice(Role.choices, default=Role.MEMBER.value)


class NewRole(Body):
    role = Choice(Role.choices)


class NewOwner(Body):
    member = serializers.IntegerField(min_value=1, max_value=LARGEST_ID, help_text="The id of a member.")


@extend_schema_serializer(component_name="Workspace")
class WorkspaceShape(Shape):
    id = serializers.IntegerField(source="workspace_id")
    name = serializers.CharField(source="workspace.name")
    role = serializers.ChoiceField(Role.choices, help_text="Your role.")
    permissions = serializers.ListField(child=serializers.ChoiceField([one.value for one in Permission]))
    is_personal = serializers.BooleanField()
    is_current = serializers.BooleanField()
    created_at = serializers.DateTimeField(source="workspace.created_at")


@extend_schema_serializer(component_name="Member")
class MemberShape(Shape):
    id = serializers.IntegerField(source="user_id")
    name = serializers.CharField(source="user.short_name")
    email = serializers.EmailField(source="user.email")
    role = serializers.ChoiceField(Role.choices)
    since = serializers.DateTimeField(source="created_at")


def workspace_json(own: Membership, principal: Principal) -> JSON:
    """The workspace of one of the caller's memberships."""
    return WorkspaceShape.json_of(
        own,
        permissions=sorted(PERMISSIONS[Role(own.role)]),
        is_personal=own.workspace.personal_of_id is not None,
        is_current=own.workspace_id == principal.workspace_id,
    )


def member_json(member: Membership) -> JSON:
    return MemberShape.json_of(member)


class WorkspaceEndpoint(Endpoint):
    """The role that counts is that in the workspace of the address: `apps.accounts.workspaces` checks it."""

    scopes = dict.fromkeys(("POST", "PATCH", "DELETE"), MANAGE)

    def own(self, workspace: int) -> Membership:
        """The caller's membership. Raises NotFound."""
        return self.memberships.find(self.principal, workspace)

    @property
    def memberships(self) -> MembershipQuerySet:
        return Membership.objects.filter(user=self.principal.user_id).select_related("workspace")


class Workspaces(WorkspaceEndpoint):
    @documented(
        "workspaces_list", "List your workspaces", query=Listing, answers={200: page_of(WorkspaceShape)}, refuses=[403]
    )
    def get(self, request: Request) -> Response:
        """With an API key: the key's own."""

        def shown(found: list[Membership]) -> list[JSON]:
            return [workspace_json(one, self.principal) for one in found]

        rows = self.memberships.visible_to(self.principal)
        return self.page(rows, ("created_at", "id"), self.query(Listing), shown)

    @documented(
        "workspaces_create", "Create a workspace", body=WorkspaceName, answers={201: WorkspaceShape}, refuses=[409]
    )
    def post(self, request: Request) -> Response:
        """You are its owner. An API key belongs to one workspace and cannot create others."""
        made = workspaces.create_workspace(self.principal, self.body(WorkspaceName)["name"])
        return Response(workspace_json(self.own(made.pk), self.principal), status=201)


class OneWorkspace(WorkspaceEndpoint):
    @documented("workspaces_retrieve", "Retrieve a workspace", answers={200: WorkspaceShape})
    def get(self, request: Request, workspace: int) -> Response:
        return Response(workspace_json(self.own(workspace), self.principal))

    @documented("workspaces_rename", "Rename a workspace", body=WorkspaceName, answers={200: WorkspaceShape})
    def patch(self, request: Request, workspace: int) -> Response:
        workspaces.change_workspace(self.principal, self.own(workspace).workspace_id, **self.body(WorkspaceName))
        return Response(workspace_json(self.own(workspace), self.principal))

    @documented("workspaces_delete", "Delete a workspace", query=ConfirmedName, answers={204: None}, refuses=[409])
    def delete(self, request: Request, workspace: int) -> Response:
        """Only owners can. All members lose access at once, keys are revoked, and a job deletes the sessions."""
        delete_workspace(self.principal, self.own(workspace).workspace_id, self.query(ConfirmedName)["name"])
        return Response(status=204)


class Choose(WorkspaceEndpoint):
    scopes = {"POST": READ}

    @documented("workspaces_choose", "Make a workspace your current one", answers={200: WorkspaceShape})
    def post(self, request: Request, workspace: int) -> Response:
        """For people who are signed in. The header `X-Parley-Workspace` with an id chooses for one request."""
        workspaces.choose_workspace(self.principal, self.own(workspace).workspace_id)
        return Response({**workspace_json(self.own(workspace), self.principal), "isCurrent": True})


class Members(WorkspaceEndpoint):
    @documented("members_list", "List the members", query=Listing, answers={200: page_of(MemberShape)})
    def get(self, request: Request, workspace: int) -> Response:
        rows = Membership.objects.visible_to(self.principal).filter(workspace=self.own(workspace).workspace_id)

        def shown(found: list[Membership]) -> list[JSON]:
            return [member_json(one) for one in found]

        order = ("created_at", "id")
        return self.page(rows.select_related("user"), order, self.query(Listing), shown)

    @documented("members_add", "Add a member", body=NewMember, answers={201: MemberShape}, refuses=[409])
    def post(self, request: Request, workspace: int) -> Response:
        """Managers and owners can. Nobody gives a role above their own."""
        own, asked = self.own(workspace), self.body(NewMember)
        added = workspaces.add_member(self.principal, own.workspace_id, asked["email"], Role(asked["role"]))
        return Response(member_json(added), status=201)


class OneMember(WorkspaceEndpoint):
    @documented("members_change", "Change a member's role", body=NewRole, answers={200: MemberShape}, refuses=[409])
    def patch(self, request: Request, workspace: int, member: int) -> Response:
        own, role = self.own(workspace), Role(self.body(NewRole)["role"])
        return Response(member_json(workspaces.change_role(self.principal, own.workspace_id, member, role)))

    @documented("members_remove", "Remove a member, or leave", answers={204: None}, refuses=[409])
    def delete(self, request: Request, workspace: int, member: int) -> Response:
        """The person's access ends at once, and their keys of this workspace are revoked. The last owner stays."""
        workspaces.remove_member(self.principal, self.own(workspace).workspace_id, member)
        return Response(status=204)


class Transfer(WorkspaceEndpoint):
    @documented(
        "workspaces_transfer", "Transfer the ownership", body=NewOwner, answers={200: WorkspaceShape}, refuses=[409]
    )
    def post(self, request: Request, workspace: int) -> Response:
        """The member becomes the owner, and you become a manager."""
        workspaces.transfer_ownership(self.principal, self.own(workspace).workspace_id, self.body(NewOwner)["member"])
        return Response(workspace_json(self.own(workspace), self.principal))


urlpatterns = [
    path("workspaces", Workspaces.as_view(), name="workspaces"),
    path("workspaces/<int:workspace>", OneWorkspace.as_view(), name="workspace"),
    path("workspaces/<int:workspace>/choose", Choose.as_view(), name="choose-workspace"),
    path("workspaces/<int:workspace>/transfer", Transfer.as_view(), name="transfer-workspace"),
    path("workspaces/<int:workspace>/members", Members.as_view(), name="members"),
    path("workspaces/<int:workspace>/members/<int:member>", OneMember.as_view(), name="member"),
]
