"""Jinja's sandbox, restricted to cheap, read-only operations, with budgets for size.

Time is not its matter: `child` interrupts what takes too long.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import wraps
from itertools import chain
from typing import Any, cast

from jinja2 import StrictUndefined, Undefined, UndefinedError, nodes, pass_context
from jinja2.filters import FILTERS
from jinja2.runtime import Context, LoopContext
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.visitor import NodeTransformer

from parley.templating.values import Result

LARGEST = 1_000_000  # characters of a text, or values of a nested list, during evaluation
LARGEST_SUM = 10 * LARGEST  # of all of those together
MOST_BITS = 4_096  # of a number
LONG_NAME = 100  # characters
LONGEST_NEEDLE = 100  # characters to search for, if the search cannot be interrupted

SIZED_TYPES = (str, Mapping, list, tuple)


class BudgetExceeded(BaseException):
    """A template takes too long or makes too much. A BaseException, so that nothing in Jinja can catch it."""


@dataclass
class _Budget:
    """What one template may still put together."""

    left: int = LARGEST_SUM
    sizes: dict[int, tuple[Any, int]] = field(default_factory=dict)

    def add_size(self, size: int) -> None:
        self.left -= size
        if self.left < 0:
            raise BudgetExceeded(f"it puts together more than {LARGEST_SUM:,} characters and values in all")

    def size(self, value: Any) -> int:
        if isinstance(value, str):
            return 1 + len(value) // 16
        if id(value) not in self.sizes:
            self.add_size(len(value))
            large_names = (one for one in value if not isinstance(one, str) or len(one) > LONG_NAME)
            within = chain(value.values(), large_names) if isinstance(value, Mapping) else value
            size = 1 + len(value) + sum(self.size(one) for one in within if isinstance(one, SIZED_TYPES))
            self.sizes[id(value)] = (value, size)  # the reference keeps the id from being reused
        return self.sizes[id(value)][1]


_budget: ContextVar[_Budget] = ContextVar("_budget")


@contextmanager
def budget() -> Iterator[None]:
    """Sets a template's budget."""
    token = _budget.set(_Budget())
    try:
        yield
    finally:
        _budget.reset(token)


def check_result(made: Any) -> Any:
    """Raises BudgetExceeded for too large a value."""
    if isinstance(made, int) and made.bit_length() > MOST_BITS:
        raise BudgetExceeded("it makes too large a number")
    if isinstance(made, str):
        _budget.get().add_size(len(made))
    if isinstance(made, Mapping | list | tuple):
        check_size(_budget.get().size(made))
    return made


def check_size(size: int) -> None:
    if size > LARGEST:
        raise BudgetExceeded(f"it puts together more than {LARGEST:,} characters or values")


def check_needle(name: str, *sought: Any) -> None:
    if any(isinstance(one, str) and len(one) > LONGEST_NEEDLE for one in sought):
        raise BudgetExceeded(f"`{name}` takes at most {LONGEST_NEEDLE} characters to look for")


LOOP_FIELDS = frozenset(("index", "index0", "revindex", "revindex0", "first", "last", "length", "previtem", "nextitem"))
BUILT_IN_FILTERS = (
    "abs", "capitalize", "count", "d", "default", "dictsort", "first", "float", "int", "items", "last", "length",
    "list", "lower", "map", "max", "min", "reject", "rejectattr", "reverse", "select", "selectattr", "sort", "title",
    "truncate", "unique", "upper", "wordcount",
)  # fmt: skip
"""Jinja's filters that take linear time."""


def readable_fields(obj: Any) -> frozenset[str]:
    """The readable attributes of an object."""
    if isinstance(obj, LoopContext):
        return LOOP_FIELDS
    return frozenset(obj.fields) if isinstance(obj, Result) else frozenset()


def as_text(value: Any) -> str:
    """A value as text: JSON for numbers, lists and objects, "" for null, and a result's text."""
    if isinstance(value, Undefined | str | Result):
        return str(value)
    return "" if value is None else _as_json(value)


def _as_json(value: Any, indent: int | None = None) -> str:
    if indent is not None and not 0 <= indent <= 8:
        raise ValueError("indent by 0 to 8")
    if isinstance(value, int | float):
        return json.dumps(value)
    pieces, size = [], 0
    for piece in json.JSONEncoder(ensure_ascii=False, indent=indent, default=_json_default).iterencode(value):
        size += len(piece)
        check_size(size)  # indentation and shared values can multiply the size
        pieces.append(piece)
    return "".join(pieces)


def _json_default(value: Any) -> Any:
    if isinstance(value, Undefined):
        return str(value)
    if isinstance(value, Result):
        return {name: value.read(name) for name in sorted(value.fields)}
    return list(value)


def _joined(values: Iterable[Any], between: Any = "") -> str:
    pieces: list[str] = []
    separator, size = as_text(between), 0
    for one in values:
        pieces.append(as_text(one))
        size += len(pieces[-1]) + len(separator)
        check_size(size)
    return separator.join(pieces)


@pass_context
def _join(context: Context, values: Any, d: Any = "", attribute: str | int | None = None) -> str:
    if attribute is not None:
        values = FILTERS["map"](context, values, attribute=attribute)
    return _joined(values, d)


@pass_context
def _sum(context: Context, values: Any, attribute: str | int | None = None, start: float = 0) -> float:
    if attribute is not None:
        values = FILTERS["map"](context, values, attribute=attribute)
    total = start
    for one in values:
        if not isinstance(one, int | float) or not isinstance(total, int | float):
            raise TypeError("`sum` is for numbers")
        total = check_result(total + one)
    return total


def _replace(value: Any, old: Any, new: Any, count: int = -1) -> str:
    text, gone, there = as_text(value), as_text(old), as_text(new)
    check_size(len(text) + text.count(gone) * max(len(there) - len(gone), 0))
    return text.replace(gone, there, count)


def _trim(value: Any, chars: str | None = None) -> str:
    check_needle("trim", chars)
    return str(FILTERS["trim"](value, chars))


def _round(value: float, precision: int = 0) -> float:
    if not -15 <= precision <= 15:
        raise ValueError("round to at most 15 digits")
    return round(float(value), precision)


def bounded(function: Callable[..., Any]) -> Callable[..., Any]:
    """Charges a filter or test to the budget. `wraps` keeps Jinja's pass_context marks."""

    @wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        return check_result(function(*args, **kwargs))

    return called


OWN_FILTERS: dict[str, Callable[..., Any]] = {
    "join": _join,
    "replace": _replace,
    "round": _round,
    "string": as_text,
    "sum": _sum,
    "tojson": _as_json,
    "trim": _trim,
}
JOINED_FILTER, MADE_FILTER = "joined", "made"
INSTRUMENT_FILTERS: dict[str, Callable[..., Any]] = {
    JOINED_FILTER: _joined,
    MADE_FILTER: lambda made: made,
}
"""Wrapped around `~` and lists; harmless if a template names them."""

NO_OWNER: Any = Undefined()._undefined_obj  # for a missing top-level name

TEXT_METHODS = frozenset((
    "upper", "lower", "title", "capitalize", "strip", "lstrip", "rstrip", "split", "rsplit", "splitlines", "find",
    "startswith", "endswith", "removeprefix", "removesuffix", "count", "isdigit",
))  # fmt: skip
TEXT_METHODS_THAT_COMPARE = frozenset(("strip", "lstrip", "rstrip", "rsplit"))  # with each character of the argument
LONGEST_RANGE = 10_000
MAPPING_METHODS = frozenset(("items", "keys", "values", "get"))
PERMITTED_NODES = (
    nodes.Output, nodes.TemplateData, nodes.For, nodes.If, nodes.Assign, nodes.Name, nodes.Const, nodes.Tuple,
    nodes.List, nodes.Dict, nodes.Pair, nodes.Keyword, nodes.CondExpr, nodes.Filter, nodes.Test, nodes.Call,
    nodes.Getitem, nodes.Getattr, nodes.Slice, nodes.Concat, nodes.Compare, nodes.Operand, nodes.UnaryExpr,
    nodes.BinExpr,
)  # fmt: skip


class UndefinedName(UndefinedError):
    """A template uses a name that is missing in `owner`; `hint` replaces the message."""

    def __init__(self, name: Any, owner: Any, hint: str | None) -> None:
        super().__init__(hint or f"{name} is not there")
        self.name, self.owner, self.hint = name, owner, hint


class _Undefined(StrictUndefined):
    __slots__ = ()

    @property
    def _undefined_message(self) -> str:
        raise UndefinedName(self._undefined_name, self._undefined_obj, self._undefined_hint)


class Environment(ImmutableSandboxedEnvironment):
    """Looks up mapping keys before methods, and only permitted attributes of other objects."""

    intercepted_binops = frozenset(["+", "*", "**", "%"])

    def getattr(self, obj: Any, attribute: str) -> Any:
        found = self.getitem(obj, attribute)
        if isinstance(found, Undefined):
            return getattr(obj, attribute) if attribute in _callable_methods(obj) else found
        return found

    def getitem(self, obj: Any, argument: Any) -> Any:
        if isinstance(obj, Undefined):
            str(obj)  # raises UndefinedName
        if isinstance(obj, Mapping | list | tuple | str | range):
            try:
                return obj[argument]
            except (TypeError, LookupError):
                return self.undefined(obj=obj, name=argument)
        if isinstance(argument, str) and argument in readable_fields(obj):
            return obj.read(argument) if isinstance(obj, Result) else getattr(obj, argument)
        return self.undefined(obj=obj, name=argument)

    def is_safe_callable(self, obj: Any) -> bool:
        return obj is _range or getattr(obj, "__name__", "") in _callable_methods(getattr(obj, "__self__", None))

    def call(__self, __context: Context, __obj: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N805
        if isinstance(__obj, Undefined):
            str(__obj)
        if not __self.is_safe_callable(__obj):
            raise TypeError("it calls what cannot be called here")
        if getattr(__obj, "__name__", "") in TEXT_METHODS_THAT_COMPARE:
            check_needle(__obj.__name__, *args, *kwargs.values())
        return check_result(__context.call(__obj, *args, **kwargs))

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        _check_operands(operator, left, right)
        return check_result(super().call_binop(context, operator, left, right))


def _callable_methods(obj: Any) -> frozenset[str]:
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
    bits = left.bit_length() if isinstance(left, int) else 0
    if operator == "**" and (abs(right) > 64 or bits * abs(right) > MOST_BITS):
        raise BudgetExceeded("it makes too large a number")


def _range(*args: int) -> range:
    made = range(*args)
    if len(made) > LONGEST_RANGE:
        raise BudgetExceeded(f"`range` goes up to {LONGEST_RANGE:,} here")
    return made


@pass_context
def _finalize(_: Context, value: Any) -> str:  # without pass_context, Jinja would fold constants at compile time
    return as_text(value)


def _environment() -> Environment:
    made = Environment(undefined=_Undefined, optimized=False, finalize=_finalize, keep_trailing_newline=True)
    filters = {name: FILTERS[name] for name in BUILT_IN_FILTERS} | OWN_FILTERS | INSTRUMENT_FILTERS
    made.filters = {name: bounded(cast("Callable[..., Any]", one)) for name, one in filters.items()}
    made.tests = {name: bounded(cast("Callable[..., Any]", one)) for name, one in made.tests.items()}
    made.globals = {"range": _range}
    return made


ENVIRONMENT = _environment()


def why_refused(tree: nodes.Template, taken: Iterable[str]) -> str:
    """Why a template is not permitted, as a sentence; "" if it is."""
    for node in tree.find_all(nodes.Node):
        if not isinstance(node, PERMITTED_NODES) or (isinstance(node, nodes.For) and node.recursive):
            return f"it uses {type(node).__name__.lower()}, which templates here do not"
        if isinstance(node, nodes.Getattr) and node.attr.startswith("_"):
            return f"names that begin with `_` are not reached: `{node.attr}`"
        if isinstance(node, nodes.Name) and node.ctx == "store" and node.name in taken:
            return f"`{node.name}` has a meaning here: choose another name"
        if isinstance(node, nodes.Name) and node.name in ("self", "super", "caller"):
            return f"there is no `{node.name}` here"
        if isinstance(node, nodes.Filter) and node.name not in ENVIRONMENT.filters:
            return f"there is no filter `{node.name}`; there are {', '.join(sorted([*BUILT_IN_FILTERS, *OWN_FILTERS]))}"
        if isinstance(node, nodes.Test) and node.name not in ENVIRONMENT.tests:
            return f"there is no test `{node.name}`"
        if isinstance(node, nodes.Const) and isinstance(node.value, float) and not math.isfinite(node.value):
            return "it writes too large a number"
    return ""


class _Instrument(NodeTransformer):
    def visit_Concat(self, node: nodes.Concat) -> nodes.Filter:  # noqa: N802
        self.generic_visit(node)
        return _filter_node(nodes.List(node.nodes, lineno=node.lineno), JOINED_FILTER)

    def _visit_made(self, node: nodes.List | nodes.Dict | nodes.Getitem | nodes.Tuple) -> nodes.Expr:
        self.generic_visit(node)
        is_slice = not isinstance(node, nodes.Getitem) or isinstance(node.arg, nodes.Slice)
        is_loaded = not isinstance(node, nodes.Tuple) or node.ctx == "load"
        return _filter_node(node, MADE_FILTER) if is_slice and is_loaded else node

    visit_List = visit_Dict = visit_Getitem = visit_Tuple = _visit_made  # noqa: N815


def _filter_node(node: nodes.Expr, name: str) -> nodes.Filter:
    return nodes.Filter(node, name, [], [], None, None, lineno=node.lineno)


def instrumented(tree: nodes.Template) -> nodes.Template:
    """The tree with lists, slices and `~` charged to the budget."""
    made: nodes.Template = _Instrument().visit(tree)
    return made.set_environment(ENVIRONMENT)  # type: ignore[return-value]
