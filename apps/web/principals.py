"""Who a page is for."""

from typing import cast

from django.http import HttpRequest

from apps.accounts.models import User
from apps.accounts.principals import Principal


def principal_of(request: HttpRequest) -> Principal:
    """The signed-in person of a request that `login_required` let through."""
    return cast("User", request.user).principal
