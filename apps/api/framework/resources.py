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

from apps.accounts.resources import Act, NotNeeded, Resource
from apps.api.framework.schema import documented
from apps.api.framework.serializers import Body, Choice, Line, Listing, Moment, Shape, Struct, Text, page_of
from apps.api.framework.views import Operations

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

    def build_standard_field(self, field_name: str, model_field: Any) -> Any:
        made, options = super().build_standard_field(field_name, model_field)
        if issubclass(made, serializers.ChoiceField) and not list(options["choices"]):
            # The apps that add choices are left out. A schema cannot say so: `save` refuses any text.
            return Line, {name: one for name, one in options.items() if name != "choices"}
        return made, options

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


class ResourceViewSet(Operations):
    """Lists, creates, retrieves, changes and deletes a caller's rows, and performs their acts.

    A class may define an act itself as a method `act_NAME`, such as one that waits for another server. It documents
    what else it defines itself, such as a `list` with filters.

    Attributes:
        usual: which of the operations list, create, retrieve and update there are.
        deletes: the act of HTTP's DELETE.
        converter: of the rows' keys in addresses.
        operations: the beginning of their names in the reference; by default the name of the resource.
        place: the beginning of their addresses, if it is not the name of the resource, such as "notifications/".
        title: of a row in the reference, such as "a schedule".
        shape: of a row.
        created: of a new row, if it shows more.
        new, changed: of bodies; by default what is editable in `shape`.
        answers: shapes of what acts lead to, if that is not the row, by the act's name.
        lists: what is listed below a row, by its address: the resource, its shape, and the summary in the reference.
        notes: descriptions of operations in the reference, by name.
        refuses: further statuses of operations in the reference, by name.
        examples: of a body that creates a row.
    """

    resource: ClassVar[Resource[Any]]
    usual: ClassVar[Sequence[str]] = ("list", "create", "retrieve", "update")
    deletes: ClassVar[str] = DELETE
    converter: ClassVar[str] = "uuid"
    shape: ClassVar[type[Shape]]
    answers: ClassVar[Mapping[str, type[Shape]]] = {}
    lists: ClassVar[Mapping[str, tuple[Resource[Any], type[ModelShape], str]]] = {}
    notes: ClassVar[Mapping[str, str]] = {}
    refuses: ClassVar[Mapping[str, Sequence[int]]] = {}
    examples: ClassVar[Sequence[OpenApiExample]] = ()
    operations: ClassVar[str] = ""
    place: ClassVar[str] = ""
    title: ClassVar[str] = ""
    created: ClassVar[type[Shape]]
    new: ClassVar[type[Body]] = Body
    changed: ClassVar[type[Body]] = Body

    def __init_subclass__(cls, **options: Any) -> None:
        """Each operation is a method of the class, with what the reference says of it."""
        super().__init_subclass__(**options)
        title = cls.title or f"a {cls.resource.noun}"
        for operation, name, base in (("create", "new", RequestShape), ("update", "changed", PartialShape)):
            if operation in cls.usual and not cls.__dict__.keys() & {operation, name}:
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
            answers = {204: None} if act.name == cls.deletes else {200: cls.answers.get(act.name, cls.shape)}
            cls._declare(act.name, act.summary, "act", act, note=f"{act.effect} {act.note}".strip(), answers=answers)
        for name, (_, shape, summary) in cls.lists.items():
            cls._declare(name, summary, "below", name, query=Listing, answers={200: page_of(shape)})

    @classmethod
    def _declare(cls, name: str, summary: str, method: str = "", *fixed: Any, note: str = "", **declared: Any) -> None:
        """A method NAME, or METHOD_NAME: handlers of HTTP methods, such as `delete`, would be found at each address."""
        method_name = f"{method}_{name}" if method else name
        if not method and (name in cls.__dict__ or name not in cls.usual):
            return
        handler = getattr(ResourceViewSet, method or name)

        @wraps(handler)
        def by_the_kit(self: ResourceViewSet, request: Request, **key: Any) -> Response:
            answer: Response = handler(self, request, *fixed, **key)
            return answer

        operation = cls.__dict__.get(method_name, by_the_kit) if method else by_the_kit
        operation.__doc__ = cls.notes.get(name, note)
        declared |= {"operation_id": f"{cls.operations or cls.resource.name}_{name}", "summary": summary}
        setattr(cls, method_name, documented(**declared, refuses=cls.refuses.get(name, ()))(operation))

    def list(self, request: Request) -> Response:
        return self.listed(self.resource.visible_to(self.principal), self.shape)

    def create(self, request: Request) -> Response:
        row = self._saved(self.resource.model(), self.body(self.new))
        return Response(self.shown(self.created, row), status=201)

    def retrieve(self, request: Request, **key: Any) -> Response:
        return Response(self.shown(self.shape, self.find(**key)))

    def update(self, request: Request, **key: Any) -> Response:
        return Response(self.shown(self.shape, self._saved(self.find(**key), self.body(self.changed))))

    def act(self, request: Request, act: Act[Any], **key: Any) -> Response:
        row = self.find(**key)
        with suppress(NotNeeded):
            result = act.perform(self.principal, row)
            if act.name in self.answers:
                return Response(self.shown(self.answers[act.name], result))
        if act.name == self.deletes:
            return Response(status=204)
        return Response(self.shown(self.shape, self.find(**key)))

    def below(self, request: Request, name: str, **key: Any) -> Response:
        row, (resource, shape, _) = self.find(**key), self.lists[name]
        rows = resource.visible_to(self.principal).filter(**{self.resource.noun: row})
        return self.listed(rows, shape)

    def listed(self, rows: QuerySet[Any], shape: type[Shape]) -> Response:
        """A page of rows, in their order."""
        order = tuple(map(str, rows.query.order_by))
        return self.page(rows, order, self.query(Listing), lambda found: self.shown(shape, found, many=True))

    def shown(self, shape: type[Shape], found: Any, *, many: bool = False) -> Any:
        """What a shape shows of a row or of many to the caller."""
        return shape(found, many=many, context={"caller": self.principal}).data

    def find(self, **key: Any) -> Any:
        """Raises NotFound."""
        return self.resource.find(self.principal, key[self.resource.noun])

    def _saved(self, row: Any, asked: dict[str, Any]) -> Any:
        for name, value in asked.items():
            setattr(row, name, value)
        return self.resource.store(self.principal, row)

    @classmethod
    def at(cls, **operations: str) -> Any:
        """Methods that save a row or do an act want of the caller's role what the resource and the act say."""
        acts = {f"act_{act.name}": act.permission for act in cls.resource.acts if act.permission}
        needed = {"create": cls.resource.permission, "update": cls.resource.permission, **acts}
        declared = {method.upper(): needed[done] for method, done in operations.items() if done in needed}
        return markcoroutinefunction(cls.as_view({**operations}, permissions={**declared, **cls.permissions}))

    @classmethod
    def urls(cls) -> Sequence[URLPattern]:
        """The addresses of its operations."""
        name, noun = cls.resource.name, cls.resource.noun
        rows = f"{cls.place}{name}"
        row = f"{rows}/<{cls.converter}:{noun}>"
        acts = [act.name for act in cls.resource.acts]
        of_all = {method: done for method, done in (("get", "list"), ("post", "create")) if done in cls.usual}
        of_row = {method: done for method, done in (("get", "retrieve"), ("patch", "update")) if done in cls.usual}
        if cls.deletes in acts:
            of_row["delete"] = f"act_{acts.pop(acts.index(cls.deletes))}"
        return [
            path(rows, cls.at(**of_all), name=name),
            path(row, cls.at(**of_row), name=noun),
            *(path(f"{row}/{act}", cls.at(post=f"act_{act}"), name=f"{noun}-{act}") for act in acts),
            *(path(f"{row}/{below}", cls.at(get=f"below_{below}"), name=f"{noun}-{below}") for below in cls.lists),
        ]
