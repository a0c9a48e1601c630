"""Django REST framework views authenticate API keys and challenge bad ones."""

import pytest
from rest_framework.permissions import IsAuthenticated
from rest_framework.renderers import JSONRenderer
from rest_framework.response import Response
from rest_framework.test import APIRequestFactory
from rest_framework.views import APIView

from apps.accounts.authentication import ApiKeyAuthentication
from apps.accounts.models import ApiKey

pytestmark = pytest.mark.django_db(transaction=True)


class WhoAmI(APIView):
    authentication_classes = [ApiKeyAuthentication]
    permission_classes = [IsAuthenticated]
    renderer_classes = [JSONRenderer]

    def get(self, request):
        return Response({"email": request.user.email, "key": request.auth.name})


def ask(authorization: str = "") -> Response:
    headers = {"HTTP_AUTHORIZATION": authorization} if authorization else {}
    return WhoAmI.as_view()(APIRequestFactory().get("/who", **headers))


def test_a_key_names_its_user_in_one_query(ada, django_assert_num_queries):
    _, text = ApiKey.issue(ada, "laptop")
    with django_assert_num_queries(1):
        answer = ask(f"Bearer {text}")
    assert answer.data == {"email": "ada@example.org", "key": "laptop"}


def test_a_caller_without_a_usable_key_gets_401_a_challenge_and_what_to_do(ada):
    key, text = ApiKey.issue(ada, "laptop")
    key.revoke()
    for header in ("", "Bearer", "Bearer parley_0123456789ab_guessed", "Basic YTpi", f"Bearer {text}"):
        answer = ask(header)
        assert answer.status_code == 401
        assert answer["WWW-Authenticate"].startswith('Bearer realm="parley", ')
    assert "Make a new one" in answer.data["detail"]
