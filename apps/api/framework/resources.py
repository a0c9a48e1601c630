"""Endpoints and shapes that are made from models: a shape names its fields, a viewset its resource.

For what is read now and then. Hot reads have writers by hand (`shapes`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import wraps
from typing import Any, ClassVar

from asgiref.sync import markcoroutinefunction
from django.core.exceptions import ImproperlyConfigured
from django.db import models
from django.db.models import QuerySet
from django.urls import URLPattern, path
from drf_spectacular.utils import OpenApiExample, extend_schema_serializer
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.viewsets import ViewSetMixin

from apps.accounts.resources import Act, NotNeeded, Resource
from apps.api.framework.schema import documented
from apps.api.framework.serializers import Body, Choice, Line, Listing, Moment, Struct, Text, page_of
from apps.api.framework.views import Endpoint

DELETE = "delete"


class ModelShape(Body, serializers.ModelSerializer[Any]):
    # a row: what is editable in the model is taken, everything is shown

    serializer_field_mapping: ClassVar[
        dict[type[models.Field[Any, Any]], type[serializers.Field[Any, Any, Any, Any]]]
    ] = {
        **serializers.ModelSerializer.serializer_field_mapping,
        models.CharField: Line,
        models.TextField: Text,
        models.JSONField: Struct,
        models.DateTimeField: Moment,
    }
    serializer_choice_field = Choice

    def build_relational_field(self, field_name: str, relation_info: Any) -> Any:
        raise ImproperlyConfigured(f"Declare {field_name}: a relation takes only what the caller may see.")

    def get_fields(self) -> dict[str, Any]:
        fields = super().get_fields()
        for field in fields.values():
            field.label = ""  # the reference has no titles
        return fields


class RequestShape(ModelShape):
    # a body: only what callers may set, and null only where the model takes a blank

    def get_fields(self) -> dict[str, Any]:
        fields = {name: field for name, field in super().get_fields().items() if not field.read_only}
        for name, field in fields.items():
            if field.allow_null:
                field.allow_null = self.Meta.model._meta.get_field(field.source or name).blank  # type: ignore[attr-defined]
        return fields


class PartialShape(RequestShape):
    """Only the fields to change."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{**options, "partial": True})


class ResourceViewSet(ViewSetMixin, Endpoint):
    """Lists, creates, retrieves, changes and deletes a caller's rows, and performs their acts.

    Attributes:
        operations: the beginning of their names in the reference; by default the name of the resource.
        title: of a row in the reference, such as "a schedule".
        shape: of a row.
        created: of a new row, if it shows more.
        new, changed: of bodies; by default what is editable in `shape`.
        answers: shapes of rows of other models that acts lead to, by the act's name.
        lists: what is listed below a row, by its address: the resource, its shape, and the summary in the reference.
        notes: descriptions of operations in the reference, by name.
        refuses: further statuses of operations in the reference, by name.
        examples: of a body that creates a row.
    """

    resource: ClassVar[Resource[Any]]
    shape: ClassVar[type[ModelShape]]
    answers: ClassVar[Mapping[str, type[ModelShape]]] = {}
    lists: ClassVar[Mapping[str, tuple[Resource[Any], type[ModelShape], str]]] = {}
    notes: ClassVar[Mapping[str, str]] = {}
    refuses: ClassVar[Mapping[str, Sequence[int]]] = {}
    examples: ClassVar[Sequence[OpenApiExample]] = ()
    operations: ClassVar[str] = ""
    title: ClassVar[str] = ""
    created: ClassVar[type[ModelShape]]
    new: ClassVar[type[ModelShape]]
    changed: ClassVar[type[ModelShape]]

    def __init_subclass__(cls, **options: Any) -> None:
        """Each operation is a method of the class, with what the reference says of it."""
        super().__init_subclass__(**options)
        title = cls.title or f"a {cls.resource.noun}"
        for name, base in (("new", RequestShape), ("changed", PartialShape)):
            if name not in cls.__dict__:
                component = f"{name}_{cls.resource.noun}".title().replace("_", "")
                shape = type(component, (base, cls.shape), {"__doc__": base.__doc__})
                setattr(cls, name, extend_schema_serializer(component_name=component)(shape))
        cls.created = cls.__dict__.get("created", cls.shape)
        row, listed = {200: cls.shape}, f"List your {title.partition(' ')[2]}s, newest first"
        cls._declare("list", listed, query=Listing, answers={200: page_of(cls.shape)})
        cls._declare("create", f"Create {title}", body=cls.new, answers={201: cls.created}, examples=cls.examples)
        cls._declare("retrieve", f"Retrieve {title}", answers=row)
        cls._declare("update", f"Change {title}", body=cls.changed, answers=row)
        for act in cls.resource.acts:
            answers = {204: None} if act.name == DELETE else {200: cls.answers.get(act.name, cls.shape)}
            cls._declare(act.name, act.summary, "act", act, note=act.effect, answers=answers)
        for name, (_, shape, summary) in cls.lists.items():
            cls._declare(name, summary, "below", name, query=Listing, answers={200: page_of(shape)})

    @classmethod
    def _declare(cls, name: str, summary: str, method: str = "", *fixed: Any, note: str = "", **declared: Any) -> None:
        """A method NAME, or METHOD_NAME: handlers of HTTP methods, such as `delete`, would be found at each address."""
        handler = getattr(ResourceViewSet, method or name)

        @wraps(handler)
        def operation(self: ResourceViewSet, request: Request, **key: Any) -> Response:
            answer: Response = handler(self, request, *fixed, **key)
            return answer

        operation.__doc__ = cls.notes.get(name, note)
        declared |= {"operation_id": f"{cls.operations or cls.resource.name}_{name}", "summary": summary}
        method_name = f"{method}_{name}" if method else name
        setattr(cls, method_name, documented(**declared, refuses=cls.refuses.get(name, ()))(operation))

    def list(self, request: Request) -> Response:
        return self.listed(self.resource.visible_to(self.principal), self.shape, self.resource.name)

    def create(self, request: Request) -> Response:
        return Response(self.created(self._saved(self.resource.model(), self.body(self.new))).data, status=201)

    def retrieve(self, request: Request, **key: Any) -> Response:
        return Response(self.shape(self.find(**key)).data)

    def update(self, request: Request, **key: Any) -> Response:
        return Response(self.shape(self._saved(self.find(**key), self.body(self.changed))).data)

    def act(self, request: Request, act: Act[Any], **key: Any) -> Response:
        row = result = self.find(**key)
        with suppress(NotNeeded):
            result = act.perform(self.principal, row)
        if act.name == DELETE:
            return Response(status=204)
        if result is row:
            return Response(self.shape(self.find(**key)).data)
        return Response(self.answers.get(act.name, self.shape)(result).data)

    def below(self, request: Request, name: str, **key: Any) -> Response:
        row, (resource, shape, _) = self.find(**key), self.lists[name]
        rows = resource.visible_to(self.principal).filter(**{self.resource.noun: row})
        return self.listed(rows, shape, f"{self.resource.name}-{name}", str(row.pk))

    def listed(self, rows: QuerySet[Any], shape: type[ModelShape], *bound: Any) -> Response:
        """A page of rows, in their order."""
        order = tuple(map(str, rows.query.order_by))
        return self.page(rows, order, self.query(Listing), lambda found: shape(found, many=True).data, *bound)

    def find(self, **key: Any) -> Any:
        """Raises NotFound."""
        return self.resource.find(self.principal, key[self.resource.noun])

    def _saved(self, row: Any, asked: dict[str, Any]) -> Any:
        for name, value in asked.items():
            setattr(row, name, value)
        return self.resource.store(self.principal, row)

    @classmethod
    def urls(cls) -> Sequence[URLPattern]:
        """The addresses of its operations."""
        name, noun = cls.resource.name, cls.resource.noun
        row = f"{name}/<uuid:{noun}>"
        acts = [act.name for act in cls.resource.acts]
        delete = {"delete": f"act_{DELETE}"} if DELETE in acts else {}
        return [
            path(name, cls.at(get="list", post="create"), name=name),
            path(row, cls.at(get="retrieve", patch="update", **delete), name=noun),
            *(path(f"{row}/{act}", cls.at(post=f"act_{act}"), name=f"{noun}-{act}") for act in acts if act != DELETE),
            *(path(f"{row}/{below}", cls.at(get=f"below_{below}"), name=f"{noun}-{below}") for below in cls.lists),
        ]

    @classmethod
    def at(cls, **operations: str) -> Any:
        """The view of an address: its operations by HTTP method."""
        return markcoroutinefunction(cls.as_view({**operations}))
