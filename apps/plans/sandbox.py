"""What templates may do: Jinja's sandbox, narrowed to what is read-only and cheap, with a budget for the rest."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

from jinja2 import StrictUndefined, Undefined, UndefinedError, nodes, pass_context
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.visitor import NodeTransformer

from apps.plans.budgets import MOST_BITS, TooMuch, check_size, check_sought, fits, look, take
from apps.plans.filters import BUILT_IN, EACH, JOINED, MADE, OWN, bounded, fields_of, filters, written

ABSENT: Any = Undefined()._undefined_obj
"""Where Jinja found nothing that it could look into."""

TEXT_METHODS = frozenset((
    "upper", "lower", "title", "capitalize", "strip", "lstrip", "rstrip", "split", "rsplit", "splitlines", "find",
    "startswith", "endswith", "removeprefix", "removesuffix", "count", "isdigit",
))  # fmt: skip
TEXT_METHODS_THAT_COMPARE = frozenset(("strip", "lstrip", "rstrip", "rsplit"))  # each character with all they are given
LONGEST_RANGE = 10_000
MAPPING_METHODS = frozenset(("items", "keys", "values", "get"))
NODES = (
    nodes.Output, nodes.TemplateData, nodes.For, nodes.If, nodes.Assign, nodes.Name, nodes.Const, nodes.Tuple,
    nodes.List, nodes.Dict, nodes.Pair, nodes.Keyword, nodes.CondExpr, nodes.Filter, nodes.Test, nodes.Call,
    nodes.Getitem, nodes.Getattr, nodes.Slice, nodes.Concat, nodes.Compare, nodes.Operand, nodes.UnaryExpr,
    nodes.BinExpr,
)  # fmt: skip


class NotThere(UndefinedError):
    """A template speaks of what is not there.

    Attributes:
        name: what it looks for; owner: where (ABSENT: among the names that it is given).
        hint: what is to be said instead.
    """

    def __init__(self, name: Any, owner: Any, hint: str | None) -> None:
        super().__init__(hint or f"{name} is not there")
        self.name, self.owner, self.hint = name, owner, hint


class _NotThere(StrictUndefined):
    __slots__ = ()

    @property
    def _undefined_message(self) -> str:
        raise NotThere(self._undefined_name, self._undefined_obj, self._undefined_hint)


class Environment(ImmutableSandboxedEnvironment):
    """Reads mappings by their keys first, so that `data.items` is what the data says, and of others what is listed."""

    intercepted_binops = frozenset(["+", "*", "**", "%"])

    def getattr(self, obj: Any, attribute: str) -> Any:
        found = self.getitem(obj, attribute)
        if isinstance(found, Undefined):
            return getattr(obj, attribute) if attribute in _methods(obj) else found
        return found

    def getitem(self, obj: Any, argument: Any) -> Any:
        look()
        if isinstance(obj, Undefined):
            str(obj)  # says what is missing
        if isinstance(obj, Mapping | list | tuple | str | range):
            try:
                return obj[argument]
            except (TypeError, LookupError):
                return self.undefined(obj=obj, name=argument)
        if isinstance(argument, str) and argument in fields_of(obj):
            return getattr(obj, argument)
        return self.undefined(obj=obj, name=argument)

    def is_safe_callable(self, obj: Any) -> bool:
        return obj is _range or getattr(obj, "__name__", "") in _methods(getattr(obj, "__self__", None))

    def call(__self, __context: Context, __obj: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N805
        take()
        if isinstance(__obj, Undefined):
            str(__obj)
        if not __self.is_safe_callable(__obj):
            raise TypeError("it calls what cannot be called here")
        if getattr(__obj, "__name__", "") in TEXT_METHODS_THAT_COMPARE:
            check_sought(__obj.__name__, *args, *kwargs.values())
        return fits(__context.call(__obj, *args, **kwargs))

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        take()
        _check_operands(operator, left, right)
        return fits(super().call_binop(context, operator, left, right))


def _methods(obj: Any) -> frozenset[str]:
    """What can be called of a value."""
    if isinstance(obj, str):
        return TEXT_METHODS
    return MAPPING_METHODS if isinstance(obj, Mapping) else frozenset()


def _check_operands(operator: str, left: Any, right: Any) -> None:
    for one in (left, right):
        if isinstance(one, Undefined):
            str(one)
    if operator == "+":
        if isinstance(left, str | list | tuple) and isinstance(right, str | list | tuple):
            check_size(len(left) + len(right))
        return
    if not (isinstance(left, int | float) and isinstance(right, int | float)):
        raise TypeError(f"`{operator}` is for numbers")
    if operator == "**" and (abs(right) > 64 or _bits(left) * abs(right) > MOST_BITS):
        raise TooMuch("it makes too large a number")


def _bits(number: float) -> int:
    return number.bit_length() if isinstance(number, int) else 0


def _range(*args: int) -> range:
    made = range(*args)
    if len(made) > LONGEST_RANGE:
        raise TooMuch(f"`range` goes up to {LONGEST_RANGE:,} here")
    return made


@pass_context
def _finalized(_: Context, value: Any) -> str:  # with the context, for else Jinja works constants out while it compiles
    return written(value)


def _environment() -> Environment:
    made = Environment(undefined=_NotThere, optimized=False, finalize=_finalized, keep_trailing_newline=True)
    made.filters = filters()
    made.tests = {name: bounded(cast("Callable[..., Any]", one)) for name, one in made.tests.items()}
    made.globals = {"range": _range}
    return made


ENVIRONMENT = _environment()


def permitted(tree: nodes.Template, taken: Iterable[str]) -> str:
    """Why this cannot be a template of ours, as a sentence; empty where it can."""
    for node in tree.find_all(nodes.Node):
        if not isinstance(node, NODES) or (isinstance(node, nodes.For) and node.recursive):
            return f"it uses {type(node).__name__.lower()}, which templates of plans do not"
        if isinstance(node, nodes.Getattr) and node.attr.startswith("_"):
            return f"names that begin with `_` are not reached: `{node.attr}`"
        if isinstance(node, nodes.Name) and node.ctx == "store" and node.name in taken:
            return f"`{node.name}` has a meaning here: choose another name"
        if isinstance(node, nodes.Name) and node.name in ("self", "super", "caller"):
            return f"there is no `{node.name}` here"
        if isinstance(node, nodes.Filter) and node.name not in ENVIRONMENT.filters:
            return f"there is no filter `{node.name}`; there are {', '.join(sorted([*BUILT_IN, *OWN]))}"
        if isinstance(node, nodes.Test) and node.name not in ENVIRONMENT.tests:
            return f"there is no test `{node.name}`"
        if isinstance(node, nodes.Const) and isinstance(node.value, float) and not math.isfinite(node.value):
            return "it writes too large a number"
    return ""


class _Counted(NodeTransformer):
    def visit_For(self, node: nodes.For) -> nodes.For:  # noqa: N802
        self.generic_visit(node)
        node.iter = _filtered(cast(nodes.Expr, node.iter), EACH)
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Filter:  # noqa: N802
        self.generic_visit(node)
        return _filtered(nodes.List(node.nodes, lineno=node.lineno), JOINED)

    def visit_List(self, node: nodes.List) -> nodes.Filter:  # noqa: N802
        self.generic_visit(node)
        return _filtered(node, MADE)

    def visit_Dict(self, node: nodes.Dict) -> nodes.Filter:  # noqa: N802
        self.generic_visit(node)
        return _filtered(node, MADE)

    def visit_Getitem(self, node: nodes.Getitem) -> nodes.Expr:  # noqa: N802
        self.generic_visit(node)
        return _filtered(node, MADE) if isinstance(node.arg, nodes.Slice) else node

    def visit_Tuple(self, node: nodes.Tuple) -> nodes.Expr:  # noqa: N802
        self.generic_visit(node)
        return _filtered(node, MADE) if node.ctx == "load" else node


def _filtered(node: nodes.Expr, name: str) -> nodes.Filter:
    return nodes.Filter(node, name, [], [], None, None, lineno=node.lineno)


def counted(tree: nodes.Template) -> nodes.Template:
    """The same, with its loops, lists, slices and `~` counted."""
    made: nodes.Template = _Counted().visit(tree)
    return made.set_environment(ENVIRONMENT)  # type: ignore[return-value]
