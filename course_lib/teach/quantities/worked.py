"""A sum in quotation marks ("20e6 / (96 * 2048 / 5.2)", "12 + 12 + 12"), worked out."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable
from typing import Any

LONGEST, LARGEST_POWER = 200, 1024
SIGNS = str.maketrans({"×": "*", "·": "*", "÷": "/", "−": "-"})
ONLY_FIGURES = re.compile(r"[\d.eE_\s()*/+<-]+")
IS_A_SUM = re.compile(r"[(+]|<<")
BITS = re.compile(r"0[xb][\da-f_]+", re.IGNORECASE)


def _power(base: float, exponent: float) -> float:
    """In floats, which end at 1e308: whole numbers would fill the memory."""
    return float(float(base) ** exponent)


SIGN_OF: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
    ast.Div: operator.truediv, ast.Pow: _power, ast.LShift: operator.lshift,
}  # fmt: skip


def sum_in(text: str) -> float | None:
    """The value of brackets, sums and shifts, or of a number with another base; else None."""
    if BITS.fullmatch(text) and len(text) < LONGEST:
        return _or_none(lambda: float(int(text, 0)))
    figures = text.translate(SIGNS).replace("^", "**")
    is_sum = ONLY_FIGURES.fullmatch(figures) and IS_A_SUM.search(figures)
    if not is_sum or len(text) > LONGEST:
        return None
    return _or_none(lambda: float(_value(ast.parse(figures.strip(), mode="eval").body)))


def _or_none(value: Callable[[], float]) -> float | None:
    try:
        return value()
    except (ValueError, SyntaxError, TypeError, ArithmeticError, RecursionError, MemoryError):
        return None


def _value(node: ast.expr) -> Any:
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        return node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.UAdd | ast.USub):
        value = _value(node.operand)
        return -value if isinstance(node.op, ast.USub) else value
    if not isinstance(node, ast.BinOp) or type(node.op) not in SIGN_OF:
        raise ValueError(ast.dump(node))
    left, right = _value(node.left), _value(node.right)
    if isinstance(node.op, ast.Pow | ast.LShift) and not abs(right) <= LARGEST_POWER:
        raise ValueError(right)
    return SIGN_OF[type(node.op)](left, right)
