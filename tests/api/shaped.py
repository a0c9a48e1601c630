"""Are answers what the schema says of them?"""

from __future__ import annotations

from functools import cache
from typing import Any

from drf_spectacular.generators import SchemaGenerator
from jsonschema import Draft202012Validator

from tests.api.calling import Answer

JSON = dict[str, Any]


@cache
def schema() -> JSON:
    found: JSON = SchemaGenerator(urlconf="config.urls").get_schema(request=None, public=True)
    return found


def check(answer: Answer, operation_id: str) -> Any:
    """The body of an answer, which is held to what the schema promises of this operation and status."""
    operations = (one for verbs in schema()["paths"].values() for one in verbs.values())
    [operation] = [one for one in operations if one["operationId"] == operation_id]
    assert str(answer.status) in operation["responses"], f"{operation_id} does not promise {answer.status}"
    content = operation["responses"][str(answer.status)].get("content", {})
    promised = content[answer.headers["content-type"].partition(";")[0]]["schema"]
    whole = {**promised, "components": schema()["components"]}
    Draft202012Validator(whole, format_checker=Draft202012Validator.FORMAT_CHECKER).validate(answer.body)
    return answer.body
