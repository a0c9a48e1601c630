"""Commands for users and keys print only the secret; errors are a sentence."""

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519
from django.contrib.auth import authenticate
from django.core.management import CommandError, call_command
from django.utils import timezone

from apps.accounts.models import ApiKey, User
from apps.accounts.requests.authentication import NotSigned, api_key_principal

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def printed(capsys):
    def run(*words):
        call_command(*words)
        return capsys.readouterr().out

    return run


def test_create_user_prints_the_password_alone(ada, printed):
    password = printed("create_user", "grace@example.org").removesuffix("\n")
    user = authenticate(username="grace@example.org", password=password)
    assert (user.is_staff, user.is_superuser) == (False, False)
    printed("create_user", "root@example.org", "--operator")
    operator = User.objects.get(email="root@example.org")
    assert (operator.is_staff, operator.is_superuser) == (True, True)
    for wrong in ("ADA@example.org", "grace"):
        with pytest.raises(CommandError):
            printed("create_user", wrong, "--operator")
    ada.refresh_from_db()
    assert (ada.is_staff, ada.check_password("correct horse")) == (False, True)


def test_create_api_key_prints_the_key_alone(ada, printed):
    text = printed("create_api_key", "Ada@example.org").removesuffix("\n")
    assert api_key_principal(f"Bearer {text}").user_id == ada.pk
    assert (ApiKey.objects.get().name, ApiKey.objects.get().expires_at) == ("command line", None)
    printed("create_api_key", ada.email, "--name", "ci", "--scopes", "tasks:read, ,tasks:write", "--expires", "7")
    key = ApiKey.objects.get(name="ci")
    assert (key.scopes, (key.expires_at - timezone.now()).days) == (["tasks:read", "tasks:write"], 6)


def test_create_api_key_takes_only_a_public_key(ada, printed, tmp_path):
    file = tmp_path / "public.pem"
    for content in (None, b"hello", b"\xff\xfe"):
        if content:
            file.write_bytes(content)
        with pytest.raises(CommandError):
            printed("create_api_key", "ada@example.org", "--public-key", str(file))
    assert not ApiKey.objects.exists()
    form = serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    file.write_bytes(ed25519.Ed25519PrivateKey.generate().public_key().public_bytes(*form))
    text = printed("create_api_key", "ada@example.org", "--public-key", str(file)).strip()
    with pytest.raises(NotSigned):
        api_key_principal(f"Bearer {text}")


@pytest.mark.parametrize("words", [["eve@example.org"], ["ada@example.org", "--expires=0"]])
def test_create_api_key_refuses_what_is_wrong(ada, printed, words):
    with pytest.raises(CommandError):
        printed("create_api_key", *words)
    assert not ApiKey.objects.exists()
