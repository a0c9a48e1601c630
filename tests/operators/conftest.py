"""An installation with files of its own, and operators with single permissions."""

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import Permission
from django.test import Client

from apps.accounts.models import User
from apps.engine import accept
from apps.record.models import Task
from tests.plans.conftest import agents, plan, play

__all__ = ["agents", "plan", "play"]

Said = Callable[..., dict[str, Any]]


@pytest.fixture
def own_files(tmp_path, settings):
    """The file storage of this test alone."""
    folder = tmp_path / "data" / "files"
    where = {"BACKEND": "django.core.files.storage.FileSystemStorage", "OPTIONS": {"location": folder}}
    settings.STORAGES = {**settings.STORAGES, "default": where}
    settings.UPLOADS_DIR = tmp_path / "data" / "uploads"
    return folder


@pytest.fixture
def at_low_cost(monkeypatch):
    """Passphrases are stretched little."""
    monkeypatch.setattr("apps.optional.backup.sealing.SCRYPT_COST", 2**14)


@pytest.fixture
def operator_with(db):
    """A browser of an operator who has these permissions and no others."""

    def sign_in(*codenames: str) -> Client:
        number = User.objects.count()
        person = User.objects.create_user(f"operator{number}@example.org", "let me in", is_staff=True)
        person.user_permissions.set(Permission.objects.filter(codename__in=codenames))
        client = Client()
        client.force_login(person)
        return client

    return sign_in


@pytest.fixture
def task(ada, echo, said):
    return Task.objects.get(pk=accept.accept(ada.principal, echo, said("first words")).task)


@pytest.fixture
def many_tasks(ada, echo, said):
    def build(count: int) -> list[Task]:
        keys = [accept.accept(ada.principal, echo, said(str(number))).task for number in range(count)]
        return list(Task.objects.filter(pk__in=keys))

    return build
