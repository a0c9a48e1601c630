"""Arithmetic, which language models do badly: an expression is read and worked out, and nothing else can be in it."""

import ast
import math
import operator
from collections.abc import Callable

from agentkit import tool

Number = int | float

LONGEST = 500  # characters of an expression
MOST_BITS = 4096  # of a whole number on the way
TOO_LARGE = "The number becomes too large."


def _round(number: Number, digits: int = 0) -> Number:
    """Python's `round` would work for hours on a billion digits."""
    return round(number, digits) if 0 < abs(digits) <= MOST_BITS else round(number)


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
    if len(expression) > LONGEST:
        raise ValueError(f"The expression is longer than {LONGEST} characters. Calculate it in pieces.")
    try:
        return str(_value(ast.parse(expression.strip(), mode="eval").body))
    except (SyntaxError, RecursionError, MemoryError):
        raise ValueError("This is no arithmetic expression. Write one such as (3 + 4) * 2.") from None
    except OverflowError:
        raise ValueError(TOO_LARGE) from None
    except (ArithmeticError, TypeError) as error:
        raise ValueError(f"This cannot be calculated: {error}.") from None


def _value(node: ast.AST) -> Number:
    match node:
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            return _bounded(number)
        case ast.Name(id=name) if name in CONSTANTS:
            return CONSTANTS[name]
        case ast.UnaryOp(op=op, operand=operand) if type(op) in OPERATORS:
            return OPERATORS[type(op)](_value(operand))
        case ast.BinOp(left=base, op=ast.Pow(), right=exponent):
            return _power(_value(base), _value(exponent))
        case ast.BinOp(left=left, op=op, right=right) if type(op) in OPERATORS:
            return _bounded(OPERATORS[type(op)](_value(left), _value(right)))
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]) if name in FUNCTIONS:
            return _bounded(_called(name, [_value(argument) for argument in arguments]))
        case _:
            raise ValueError(f"{ast.unparse(node)} is nothing that can be calculated here.")


def _called(name: str, numbers: list[Number]) -> Number:
    try:
        return FUNCTIONS[name](*numbers)
    except ValueError as error:  # a number that the function is not defined for
        raise ArithmeticError(str(error)) from None


def _power(base: Number, exponent: Number) -> Number:
    if isinstance(base, int) and isinstance(exponent, int) and base.bit_length() * exponent > MOST_BITS:
        raise ValueError(TOO_LARGE)
    found = base**exponent
    if isinstance(found, complex):
        raise ValueError("The result is no real number.")
    return _bounded(found)


def _bounded(number: Number) -> Number:
    if number.bit_length() > MOST_BITS if isinstance(number, int) else not math.isfinite(number):
        raise ValueError(TOO_LARGE)
    return number
