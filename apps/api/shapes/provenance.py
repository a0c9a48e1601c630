"""What led to an artifact, as the schema declares it; `features.provenance.graphs` makes the values."""

from __future__ import annotations

from drf_spectacular.utils import extend_schema_serializer
from rest_framework import serializers

from apps.api.fields import Shape, Struct
from apps.features.provenance.graphs import RELATIONS, TYPES, Kind, Link


@extend_schema_serializer(component_name="ProvenanceNode")
class NodeShape(Shape):
    """Something that led to an artifact, or the artifact itself."""

    id = serializers.CharField()
    kind = serializers.ChoiceField([kind.value for kind in Kind])
    prov = serializers.ChoiceField(sorted(set(TYPES.values())), help_text="What it is in the PROV data model.")
    name = serializers.CharField(help_text="What people call it.")
    at = serializers.DateTimeField(allow_null=True, help_text="When it was begun, said or made.")
    details = Struct(help_text="What there is depends on the kind: of a file its SHA-256, name, media type and size.")


class _Link(Shape):
    """From what came later to what it came of."""

    kind = serializers.ChoiceField([kind.value for kind in Link])
    relation = serializers.ChoiceField(sorted(set(RELATIONS.values())), help_text="The relation of PROV.")
    details = Struct(help_text="Of carried_out_by, the turns; of given, the message.")


EdgeShape = type(
    "ProvenanceEdge",
    (_Link,),
    {
        "from": serializers.CharField(help_text="The id of a node."),
        "to": serializers.CharField(help_text="The id of a node that is earlier."),
        "__doc__": _Link.__doc__,
    },
)


@extend_schema_serializer(component_name="Provenance")
class ProvenanceShape(Shape):
    """What led to an artifact: a graph of entities, activities and agents (W3C PROV)."""

    artifact = serializers.CharField(help_text="The id of its node.")
    nodes = NodeShape(many=True)
    edges = EdgeShape(many=True)
    truncated = serializers.BooleanField(help_text="There is more: the nodes here are the nearest.")
