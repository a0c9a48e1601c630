"""Resources whose faces are in their feature's folder: what the tests of every address need, from the declarations."""

from __future__ import annotations

from typing import Any

from django.db.models import Model
from django.urls import URLPattern

from apps.accounts.principals import Principal
from apps.accounts.resources import faces
from apps.api.framework.resources import ResourceViewSet
from apps.api.framework.serializers import camel

ViewSet = type[ResourceViewSet]
MADE_BY_HAND = ("channel", "comparison", "deployment", "export", "key", "plan_run", "schedule", "webhook")
"""In `tests.isolation.world`."""


def all_viewsets() -> dict[ViewSet, list[URLPattern]]:
    """With the addresses of each: its list, a row, and what is below a row."""
    found: dict[ViewSet, list[URLPattern]] = {}
    for one in (pattern for face in faces("api") for pattern in face.urlpatterns):
        cls = getattr(one.callback, "cls", None)
        if cls is not None and issubclass(cls, ResourceViewSet):
            found.setdefault(cls, []).append(one)
    return found


def viewsets() -> list[ViewSet]:
    """Those whose rows callers create, if no hand makes one of each."""
    found = all_viewsets()
    return [one for one in found if "create" in one.usual and one.resource.noun not in MADE_BY_HAND]


def address_of(viewset: ViewSet) -> str:
    return f"/{viewset.place}{viewset.resource.name}"


def body_of(viewset: ViewSet, **fields: Any) -> dict[str, Any]:
    """Of a new row: the example of the reference, with these fields."""
    assert viewset.examples, f"Give {viewset.__name__} `examples`: a body that creates a row, for the agent `echo`."
    return {**viewset.examples[0].value, **fields}


def make(viewset: ViewSet, principal: Principal, name: str) -> Model:
    """A row of the caller's."""
    field = "name" if "name" in viewset.new().fields else "text"
    shape: Any = viewset.new(data=body_of(viewset, **{field: name}), context={"caller": principal})
    shape.is_valid(raise_exception=True)
    assert viewset.resource.save is not None
    row: Model = viewset.resource.save(principal, viewset.resource.model(**shape.validated_data))
    return row


def nameless(operation: str) -> set[str]:
    """The fields of an operation, such as "POST /api/v1/schedules", that are no relations: they name nothing."""
    path = f"{operation.rpartition(' ')[2]}/"
    of_it = [one for one in viewsets() if path.startswith(f"/api/v1{address_of(one)}/")]
    fields = [field for one in of_it for field in one.resource.model._meta.get_fields()]
    return {camel(field.name) for field in fields if not field.is_relation}
