"""The tools of agents without code that every installation has; AGENT_TOOLS names further modules."""

import ast
import datetime
import math
import operator
from collections.abc import Callable
from zoneinfo import ZoneInfo

from agentkit import File, TaskContext, UnreadableContent, tool
from agentkit.llm.reading import NoText, file_text

Number = int | float

MAX_EXPRESSION_LENGTH = 500  # characters of an expression
MAX_BITS = 4096  # of an integer
TOO_LARGE = "The number becomes too large."


def _round(number: Number, digits: int = 0) -> Number:
    """`round`, which would otherwise take hours for a billion digits."""
    return round(number, digits) if 0 < abs(digits) <= MAX_BITS else round(number)


OPERATORS: dict[type[ast.AST], Callable[..., Number]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.UAdd: operator.pos,
    ast.USub: operator.neg,
}
FUNCTIONS: dict[str, Callable[..., Number]] = {
    "abs": abs,
    "ceil": math.ceil,
    "cos": math.cos,
    "exp": math.exp,
    "floor": math.floor,
    "log": math.log,
    "log10": math.log10,
    "max": max,
    "min": min,
    "round": _round,
    "sin": math.sin,
    "sqrt": math.sqrt,
    "tan": math.tan,
}
CONSTANTS: dict[str, Number] = {"pi": math.pi, "e": math.e}


@tool()
def calculate(expression: str) -> str:
    """Works out an arithmetic expression such as (3 + 4.5) * 2 ** 10 / sqrt(7); angles are in radians.

    It knows + - * / // % ** and parentheses, the functions abs, ceil, cos, exp, floor, log, log10, max, min, round,
    sin, sqrt and tan, and the constants pi and e. Raises ValueError for anything else.
    """
    if len(expression) > MAX_EXPRESSION_LENGTH:
        raise ValueError(f"The expression is longer than {MAX_EXPRESSION_LENGTH} characters. Calculate it in pieces.")
    try:
        return str(_evaluate(ast.parse(expression.strip(), mode="eval").body))
    except (SyntaxError, RecursionError, MemoryError):
        raise ValueError("This is no arithmetic expression. Write one such as (3 + 4) * 2.") from None
    except OverflowError:
        raise ValueError(TOO_LARGE) from None
    except (ArithmeticError, TypeError) as error:
        raise ValueError(f"This cannot be calculated: {error}.") from None


def _evaluate(node: ast.AST) -> Number:
    match node:
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            return _bounded(number)
        case ast.Name(id=name) if name in CONSTANTS:
            return CONSTANTS[name]
        case ast.UnaryOp(op=op, operand=operand) if type(op) in OPERATORS:
            return OPERATORS[type(op)](_evaluate(operand))
        case ast.BinOp(left=base, op=ast.Pow(), right=exponent):
            return _power(_evaluate(base), _evaluate(exponent))
        case ast.BinOp(left=left, op=op, right=right) if type(op) in OPERATORS:
            return _bounded(OPERATORS[type(op)](_evaluate(left), _evaluate(right)))
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]) if name in FUNCTIONS:
            return _bounded(_call(name, [_evaluate(argument) for argument in arguments]))
        case _:
            raise ValueError(f"{ast.unparse(node)} is nothing that can be calculated here.")


def _call(name: str, numbers: list[Number]) -> Number:
    try:
        return FUNCTIONS[name](*numbers)
    except ValueError as error:
        raise ArithmeticError(str(error)) from None


def _power(base: Number, exponent: Number) -> Number:
    if isinstance(base, int) and isinstance(exponent, int) and base.bit_length() * exponent > MAX_BITS:
        raise ValueError(TOO_LARGE)
    found = base**exponent
    if isinstance(found, complex):
        raise ValueError("The result is no real number.")
    return _bounded(found)


def _bounded(number: Number) -> Number:
    if number.bit_length() > MAX_BITS if isinstance(number, int) else not math.isfinite(number):
        raise ValueError(TOO_LARGE)
    return number


@tool()
def current_time(time_zone: str = "UTC") -> str:
    """Tells the current date and time, with the day of the week, in a time zone such as Europe/Paris."""
    try:
        zone = ZoneInfo(time_zone)
    except (OSError, ValueError, LookupError):
        raise ValueError(f"No time zone is named {time_zone!r} here. Write one such as Europe/Paris, or UTC.") from None
    now = datetime.datetime.now(zone)
    return f"{now:%A}, {now.isoformat(sep=' ', timespec='seconds')} ({time_zone})"


CHARACTERS_PER_CALL = 20_000  # characters that one call gives


@tool()
def read_file(task: TaskContext, name: str = "", start: int = 0) -> str:
    """Reads a text or document of the conversation from character `start` on; without a name it lists all files."""
    files = task.all_files
    if not files:
        return "No file was attached to this conversation."
    if not name:
        return "\n".join(map(_describe, files))
    file = next((one for one in files if one.name == name), None)
    if file is None:
        raise ValueError(f"No file is named {name!r}. There are: {', '.join(one.name for one in files)}.")
    text = _text(file)
    piece = text[max(start, 0) : max(start, 0) + CHARACTERS_PER_CALL]
    return f"Characters {max(start, 0)} to {max(start, 0) + len(piece)} of {len(text)}:\n{piece}"


def _describe(file: File) -> str:
    size = "a link" if file.size is None else f"{file.size:,} bytes"
    return f"{file.name or 'without a name'} ({file.media_type}, {size})"


def _text(file: File) -> str:
    try:
        return file_text(file).text
    except (NoText, UnreadableContent) as problem:
        raise ValueError(f"{_describe(file)} cannot be read with this tool. {problem}") from None
