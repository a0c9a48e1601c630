"""Mail to operators, and to whom it concerns, about budgets and limits."""

from __future__ import annotations

import logging

from django.conf import settings
from django.core.mail import send_mail

from apps.accounts.models import Workspace
from apps.accounts.permissions import Role

log = logging.getLogger("parley.limits")


def tell(subject: str, text: str, workspace: Workspace | None = None) -> bool:
    """Log the notice and send it to operators and the workspace's owners. Returns False if it could not be sent."""
    log.warning("%s. %s", subject, text)
    people = list(settings.ADMINS)
    if workspace:
        owners = workspace.memberships.filter(role=Role.OWNER, user__is_active=True)
        people += owners.values_list("user__email", flat=True)
    if not people or not settings.EMAIL_URL:
        return True
    try:
        send_mail(subject, text, None, people)
    except OSError as error:  # includes smtplib's
        log.warning("the notice could not be sent by e-mail: %s", error)
        return False
    return True
