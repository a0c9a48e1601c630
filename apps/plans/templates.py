"""Templates of steps: sandboxed Jinja.

Their authors are not trusted: `sandbox` limits what they can reach, and their time and memory.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, NamedTuple

from jinja2 import Template, TemplateError, TemplateSyntaxError, Undefined, meta, nodes
from jinja2.parser import Parser

from apps.plans.definitions import listed
from apps.plans.sandbox import (
    ENVIRONMENT,
    NO_OWNER,
    BudgetExceeded,
    TimeBudget,
    UndefinedName,
    as_text,
    budget,
    check_time,
    instrumented,
    why_refused,
)

LONGEST_SOURCE = 50_000  # characters
LARGEST = 200_000  # bytes of a rendered text
TEMPLATE_NAMES = ("inputs", "steps", "item", "index", "last")

EVALUATION_ERRORS = (TemplateError, TypeError, ValueError, ArithmeticError, LookupError, AttributeError)
TOO_DEEP = (SyntaxError, RecursionError, MemoryError)  # SyntaxError: in the Python that Jinja generates


class TemplateProblem(Exception):
    """A template is invalid or failed; the text is a sentence that says why."""


class References(NamedTuple):
    """The steps, inputs and top-level names that a template uses.

    `is_open_ended`: it uses `steps` without a key, so its dependencies are unknown.
    """

    steps: frozenset[str] = frozenset()
    inputs: frozenset[str] = frozenset()
    names: frozenset[str] = frozenset()
    is_open_ended: bool = False


def render(template: str, names: Mapping[str, Any]) -> str:
    """The text of a template. Raises TemplateProblem."""
    with _raise_as_problem(template, names):
        made = _compiled(template, False)
        pieces, size = [], 0
        with budget():
            for piece in made.generate(names):
                size += len(piece.encode(errors="surrogatepass"))
                if size > LARGEST:
                    raise BudgetExceeded(f"it makes more than {LARGEST:,} bytes")
                pieces.append(piece)
        return "".join(pieces)


def evaluate(expression: str, names: Mapping[str, Any], shared: TimeBudget | None = None) -> Any:
    """The value of an expression: JSON and results (dataclasses). Raises TemplateProblem.

    Several evaluations can share a time budget.
    """
    with _raise_as_problem(expression, names, is_expression=True):
        made = _compiled(expression, True)
        with budget(shared):
            context = made.new_context(dict(names))
            for _ in made.root_render_func(context):
                pass
            return _plain_value(context.vars["result"])


@lru_cache(maxsize=4096)
def references_of(template: str, *, is_expression: bool = False) -> References:
    """What a template or expression uses. Raises TemplateProblem if it is invalid."""
    with _raise_as_problem(template, {}, is_expression=is_expression):
        tree = _parse(template, is_expression)
        names = meta.find_undeclared_variables(tree)
        found = [(node.node.name, _key(node)) for node in _accesses(tree) if isinstance(node.node, nodes.Name)]
        mentions = sum(node.name == "steps" for node in tree.find_all(nodes.Name))
    steps = [str(key) for name, key in found if name == "steps" and key is not None]
    inputs = [str(key) for name, key in found if name == "inputs" and key is not None]
    return References(frozenset(steps), frozenset(inputs), frozenset(names), is_open_ended=mentions > len(steps))


@lru_cache(maxsize=2048)
def _compiled(source: str, is_expression: bool) -> Template:
    return ENVIRONMENT.from_string(instrumented(_parse(source, is_expression)))


def _parse(source: str, is_expression: bool) -> nodes.Template:
    """The syntax tree. Raises TemplateProblem, also for syntax that is not permitted."""
    if len(source) > LONGEST_SOURCE:
        raise TemplateProblem(f"It is longer than {LONGEST_SOURCE:,} characters.")
    try:
        tree = _parse_expression(source) if is_expression else ENVIRONMENT.parse(source)
        refusal = why_refused(tree, TEMPLATE_NAMES)
    except TemplateSyntaxError as error:
        where = f" (line {error.lineno})" if "\n" in source else ""
        raise TemplateProblem(_sentence(f"it cannot be read{where}: {error.message}")) from None
    except RecursionError:
        raise TemplateProblem("It is nested too deeply.") from None
    if refusal:
        raise TemplateProblem(_sentence(refusal))
    return tree


def _parse_expression(source: str) -> nodes.Template:
    parser = Parser(ENVIRONMENT, source, state="variable")
    read = parser.parse_expression()
    if not parser.stream.eos:
        raise TemplateSyntaxError("something is left after the end of the expression", parser.stream.current.lineno)
    tree = nodes.Template([nodes.Assign(nodes.Name("result", "store"), read, lineno=1)], lineno=1)
    return tree.set_environment(ENVIRONMENT)  # type: ignore[return-value]


@contextmanager
def _raise_as_problem(source: str, names: Mapping[str, Any], is_expression: bool = False) -> Iterator[None]:
    """Raises every failure as a TemplateProblem."""
    try:
        yield
    except UndefinedName as error:
        raise TemplateProblem(_sentence(_missing_sentence(_parse(source, is_expression), error, names))) from None
    except TOO_DEEP:
        raise TemplateProblem("It is nested too deeply.") from None
    except BudgetExceeded as error:
        raise TemplateProblem(_sentence(str(error))) from None
    except EVALUATION_ERRORS as error:
        raise TemplateProblem(_sentence(f"it cannot be worked out: {error}")) from None


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
    if dataclasses.is_dataclass(owner):
        return f"{where} has no `{name}`; it has {listed(field.name for field in dataclasses.fields(owner))}"
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


def _plain_value(given: Any) -> Any:
    """Turns generators into lists. Raises UndefinedName."""
    if isinstance(given, Undefined):
        str(given)  # says what is missing
    if given is None or isinstance(given, str | int | float) or dataclasses.is_dataclass(given):
        return given
    check_time()
    if isinstance(given, Mapping):
        return {key if isinstance(key, str) else as_text(key): _plain_value(one) for key, one in given.items()}
    if isinstance(given, Iterable):
        return [_plain_value(one) for one in given]
    raise TypeError(f"it gives no value, but {type(given).__name__}")


def _sentence(text: str) -> str:
    text = text.strip().rstrip(".")
    return f"{text[:1].upper()}{text[1:]}."
