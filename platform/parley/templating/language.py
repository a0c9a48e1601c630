"""The language of templates and expressions: sandboxed Jinja. It is read and worked out in a process of `child`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, NamedTuple

from jinja2 import Template, TemplateError, TemplateSyntaxError, Undefined, meta, nodes
from jinja2.parser import Parser

from parley.templating.budgets import MEMORY_BYTES
from parley.templating.problems import TemplateProblem, listed, sentence
from parley.templating.sandbox import (
    ENVIRONMENT,
    NO_OWNER,
    BudgetExceeded,
    UndefinedName,
    budget,
    instrumented,
    why_refused,
)
from parley.templating.values import Received, Result

LONGEST_SOURCE = 50_000  # characters
LARGEST = 200_000  # bytes of a rendered text
LARGEST_VALUE = 64_000_000  # bytes of an expression's value as JSON: whole results may pass through
TEMPLATE_NAMES = ("inputs", "steps", "item", "index", "last")

EVALUATION_ERRORS = (TemplateError, TypeError, ValueError, ArithmeticError, LookupError, AttributeError)
TOO_DEEP = (SyntaxError, RecursionError, MemoryError)  # SyntaxError: in the Python that Jinja generates


class Prepared(NamedTuple):
    """A compiled template, and the top-level names that it uses."""

    template: Template
    names: frozenset[str]


def work_out(source: str, is_expression: bool, given: Received) -> str:
    """The text of a template, or the value of an expression, as JSON. Raises TemplateProblem."""
    with _raise_as_problem(source, given.names, is_expression):
        made = prepare(source, is_expression)
        names = {name: given.names[name] for name in made.names if name in given.names}
        with budget():
            try:
                value = _value(made.template, names) if is_expression else _text(made.template, names)
                return _encoded(value, given)
            except MemoryError:
                raise BudgetExceeded(f"it takes more than {MEMORY_BYTES // 1024**2:,} MB of memory") from None


def _text(template: Template, names: Mapping[str, Any]) -> str:
    pieces, size = [], 0
    for piece in template.generate(names):
        size += len(piece.encode(errors="surrogatepass"))
        if size > LARGEST:
            raise BudgetExceeded(f"it makes more than {LARGEST:,} bytes")
        pieces.append(piece)
    return "".join(pieces)


def _value(template: Template, names: Mapping[str, Any]) -> Any:
    context = template.new_context(dict(names))
    for _ in template.root_render_func(context):
        pass
    return context.vars["result"]


def _encoded(value: Any, given: Received) -> str:
    """JSON, in which generators are lists. Raises UndefinedName."""

    def plain(value: Any) -> Any:
        if isinstance(value, Undefined):
            str(value)  # says what is missing
        if isinstance(value, Result):
            return given.reference(value)
        if isinstance(value, Iterable):
            return dict(value) if isinstance(value, Mapping) else list(value)
        raise TypeError(f"it gives no value, but {type(value).__name__}")

    text = json.dumps(value, default=plain)
    if len(text) > LARGEST_VALUE:
        raise BudgetExceeded(f"it makes more than {LARGEST_VALUE:,} bytes")
    return text


def references_of(source: str, is_expression: bool) -> dict[str, Any]:
    """What a template or expression uses, by the fields of `templating.References`. Raises TemplateProblem."""
    with _raise_as_problem(source, {}, is_expression):
        tree = _parse(source, is_expression)
        names = meta.find_undeclared_variables(tree)
        found = [(node.node.name, _key(node)) for node in _accesses(tree) if isinstance(node.node, nodes.Name)]
        mentions = sum(node.name == "steps" for node in tree.find_all(nodes.Name))
    steps = [str(key) for name, key in found if name == "steps" and key is not None]
    inputs = [str(key) for name, key in found if name == "inputs" and key is not None]
    return {"steps": steps, "inputs": inputs, "names": list(names), "is_open_ended": mentions > len(steps)}


@lru_cache(maxsize=256)
def prepare(source: str, is_expression: bool) -> Prepared:
    """Read and compile it. Raises TemplateProblem."""
    with _raise_as_problem(source, {}, is_expression):
        tree = _parse(source, is_expression)
        names = frozenset(meta.find_undeclared_variables(tree))
        return Prepared(ENVIRONMENT.from_string(instrumented(tree)), names)


def _parse(source: str, is_expression: bool) -> nodes.Template:
    """The syntax tree. Raises TemplateProblem, also for syntax that is not permitted."""
    if len(source) > LONGEST_SOURCE:
        raise TemplateProblem(f"It is longer than {LONGEST_SOURCE:,} characters.")
    try:
        tree = _parse_expression(source) if is_expression else ENVIRONMENT.parse(source)
        refusal = why_refused(tree, TEMPLATE_NAMES)
    except TemplateSyntaxError as error:
        where = f" (line {error.lineno})" if "\n" in source else ""
        raise TemplateProblem(sentence(f"it cannot be read{where}: {error.message}")) from None
    except RecursionError:
        raise TemplateProblem("It is nested too deeply.") from None
    if refusal:
        raise TemplateProblem(sentence(refusal))
    return tree


def _parse_expression(source: str) -> nodes.Template:
    parser = Parser(ENVIRONMENT, source, state="variable")
    read = parser.parse_expression()
    if not parser.stream.eos:
        raise TemplateSyntaxError("something is left after the end of the expression", parser.stream.current.lineno)
    tree = nodes.Template([nodes.Assign(nodes.Name("result", "store"), read, lineno=1)], lineno=1)
    return tree.set_environment(ENVIRONMENT)  # type: ignore[return-value]


@contextmanager
def _raise_as_problem(source: str, names: Mapping[str, Any], is_expression: bool) -> Iterator[None]:
    """Raises every failure as a TemplateProblem."""
    try:
        yield
    except UndefinedName as error:
        raise TemplateProblem(sentence(_missing_sentence(_parse(source, is_expression), error, names))) from None
    except TOO_DEEP:
        raise TemplateProblem("It is nested too deeply.") from None
    except BudgetExceeded as error:
        raise TemplateProblem(sentence(str(error))) from None
    except EVALUATION_ERRORS as error:
        raise TemplateProblem(sentence(f"it cannot be worked out: {error}")) from None


def _missing_sentence(tree: nodes.Template, error: UndefinedName, names: Mapping[str, Any]) -> str:
    """Says what is missing, and what exists instead."""
    name, owner = error.name, error.owner
    if error.hint:
        return error.hint
    if owner is NO_OWNER:
        return f"there is no `{name}` here; there are {listed(names) or 'nothing'}"
    paths = {path for node in _accesses(tree) if _key(node) == name and (path := _path(node.node))}
    where = f"`{paths.pop()}`" if len(paths) == 1 else "what it looks into"
    if where == "`steps`":
        return f"there is no step `{name}` before this one"
    if owner is None:
        return f"{where} is empty (null), so there is no `{name}` in it"
    if isinstance(owner, Mapping):
        return f"{where} has no `{name}`; it has {listed(owner) or 'nothing'}"
    if isinstance(owner, Result):
        return f"{where} has no `{name}`; it has {listed(owner.fields)}"
    if isinstance(owner, list | tuple):
        several = f"{where} is a list of {len(owner)}"
        return f"{several}, so there is no `{name}` in it" if isinstance(name, int) else f"{several}, without `{name}`"
    return f"{where} has no `{name}`"


def _accesses(tree: nodes.Template) -> Iterator[nodes.Getattr | nodes.Getitem]:
    yield from tree.find_all(nodes.Getattr)
    yield from tree.find_all(nodes.Getitem)


def _key(node: nodes.Getattr | nodes.Getitem) -> Any:
    if isinstance(node, nodes.Getattr):
        return node.attr
    return node.arg.value if isinstance(node.arg, nodes.Const) else None


def _path(node: nodes.Node) -> str:
    """A value as the source writes it, `steps.review.data`; "" for a computed one."""
    if isinstance(node, nodes.Name):
        return node.name
    if not isinstance(node, nodes.Getattr | nodes.Getitem) or (key := _key(node)) is None:
        return ""
    before = _path(node.node)
    return before and (f"{before}[{key}]" if isinstance(key, int) else f"{before}.{key}")
