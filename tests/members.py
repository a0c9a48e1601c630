"""People who work in another person's workspace, and operators."""

from django.contrib.auth.models import Permission as Right

from apps.accounts.models import Membership, User
from apps.accounts.permissions import Role
from apps.accounts.principals import Principal


def member(user: User, of: User, role: Role = Role.MEMBER) -> Principal:
    """The user as a member of the other one's workspace, which they choose as their current one."""
    workspace = of.personal_workspace
    Membership.objects.update_or_create(user=user, workspace=workspace, defaults={"role": role})
    User.objects.filter(pk=user.pk).update(current_workspace=workspace)
    return user.principal_in(workspace.pk)


def operator(email: str, *permissions: str) -> User:
    """An operator who has only these permissions, such as `approve_task`."""
    made = User.objects.create_user(email, "a long password", is_staff=True)
    made.user_permissions.set(Right.objects.filter(codename__in=permissions))
    return made


def signed_in(user: User) -> User:
    """The user as their next request reads them."""
    return User.objects.get(pk=user.pk)
