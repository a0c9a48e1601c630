"""Commands for users and keys print only the secret; errors are a sentence."""

import datetime

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519
from django.contrib.auth import authenticate
from django.core.management import CommandError, call_command
from django.utils import timezone

from apps.accounts.authentication import NotSigned, api_key_principal
from apps.accounts.models import ApiKey, User

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def printed(capsys):
    def run(*words: str) -> str:
        call_command(*words)
        return capsys.readouterr().out

    return run


def test_create_user_prints_the_password_alone(printed):
    password = printed("create_user", "grace@example.org").removesuffix("\n")
    assert password == password.strip()
    user = authenticate(username="grace@example.org", password=password)
    assert (user.is_staff, user.is_superuser) == (False, False)
    printed("create_user", "root@example.org", "--operator")
    operator = User.objects.get(email="root@example.org")
    assert (operator.is_staff, operator.is_superuser) == (True, True)


def test_create_user_refuses_existing_and_invalid_addresses(ada, printed):
    with pytest.raises(CommandError, match=r"ADA@example\.org already exists\."):
        printed("create_user", "ADA@example.org", "--operator")
    ada.refresh_from_db()
    assert not ada.is_staff
    assert ada.check_password("correct horse")
    with pytest.raises(CommandError, match="'grace' is not an e-mail address"):
        printed("create_user", "grace")


def test_create_api_key_prints_the_key_alone(ada, printed):
    text = printed("create_api_key", "Ada@example.org").removesuffix("\n")
    assert api_key_principal(f"Bearer {text}").user_id == ada.pk
    assert ApiKey.objects.get().name == "command line"
    assert ApiKey.objects.get().expires_at is None


def test_create_api_key_takes_scopes_and_lifetime(ada, printed):
    printed(
        "create_api_key", "ada@example.org", "--name", "ci", "--scopes", "tasks:read, ,tasks:write", "--expires", "7"
    )
    key = ApiKey.objects.get()
    assert (key.name, key.scopes) == ("ci", ["tasks:read", "tasks:write"])
    left = key.expires_at - timezone.now()
    assert datetime.timedelta(days=6, hours=23) < left <= datetime.timedelta(days=7)


def test_create_api_key_takes_only_a_public_key(ada, printed, tmp_path):
    file = tmp_path / "public.pem"
    with pytest.raises(CommandError):
        printed("create_api_key", "ada@example.org", "--public-key", str(file))
    for wrong in (b"hello", b"\xff\xfe"):
        file.write_bytes(wrong)
        with pytest.raises(CommandError):
            printed("create_api_key", "ada@example.org", "--public-key", str(file))
    assert not ApiKey.objects.exists()
    form = serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    file.write_bytes(ed25519.Ed25519PrivateKey.generate().public_key().public_bytes(*form))
    text = printed("create_api_key", "ada@example.org", "--public-key", str(file)).strip()
    assert ApiKey.objects.get().public_key == file.read_text()
    with pytest.raises(NotSigned):
        api_key_principal(f"Bearer {text}")


def test_create_api_key_refuses_what_is_wrong(ada, printed):
    with pytest.raises(CommandError, match=r"There is no user eve@example\.org\. Create one with .*create_user"):
        printed("create_api_key", "eve@example.org")
    for days in ("0", "-1"):
        with pytest.raises(CommandError, match="at least 1"):
            printed("create_api_key", "ada@example.org", f"--expires={days}")
    assert not ApiKey.objects.exists()
