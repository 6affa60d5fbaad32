"""A two-layer perceptron on several devices: A cut in columns, B cut in rows, one all-reduce
forward and one backward. The numbers are real matrices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from course_lib.mistakes.errors import ArgumentError
from course_lib.show.moving.scene import Arrow, Cell, Scene, Words
from course_lib.show.moving.story import Frame, Story
from course_lib.show.style import BLUE, FAINT, GREEN, ORANGE, PURPLE, SKY, VERMILION
from course_lib.words import told

Matrix = np.ndarray[Any, np.dtype[np.float64]]
ROWS, WIDTH, HIDDEN = 4, 6, 12
COLUMNS = ("X", "A", "Z", "Y", "B", "P", "out")
BACKWARD = ("dX", "dA", "dZ", "dY", "dB", "dP", "dout")
CUT = {"A": "columns", "Z": "columns", "Y": "columns", "B": "rows"}
EMPTY = "#eef0f2"
ROOM, LIFT, WIDE, TALL = 2.6, 0.58, 1.36, 0.98
PAINTS = {"X": SKY, "A": BLUE, "B": BLUE, "Z": ORANGE, "Y": ORANGE, "P": VERMILION, "out": GREEN}


@dataclass(frozen=True)
class MlpState:
    """Values by rank and name; a name that is absent has not been computed yet."""

    moment: str
    text: str
    values: tuple[dict[str, Matrix], ...]
    new: tuple[str, ...]
    reduces: str = ""


def activation(z: Matrix) -> Matrix:
    return np.asarray(z / (1 + np.exp(-1.702 * z)))


def activation_slope(z: Matrix) -> Matrix:
    s = 1 / (1 + np.exp(-1.702 * z))
    return np.asarray(s + 1.702 * z * s * (1 - s))


def inputs() -> dict[str, Matrix]:
    random = np.random.default_rng(0)
    shapes = {"X": (ROWS, WIDTH), "A": (WIDTH, HIDDEN), "B": (HIDDEN, WIDTH), "dout": (ROWS, WIDTH)}
    return {name: random.normal(size=shape) for name, shape in shapes.items()}


def simulate(ranks: int) -> list[MlpState]:
    given = inputs()
    values: list[dict[str, Matrix]] = []
    for rank in range(ranks):
        part = slice(rank * HIDDEN // ranks, (rank + 1) * HIDDEN // ranks)
        values.append({"X": given["X"], "A": given["A"][:, part], "B": given["B"][part]})
    states: list[MlpState] = []

    def tell(moment: str, text: str, *new: str, reduces: str = "") -> None:
        states.append(MlpState(moment, text, tuple(dict(v) for v in values), new, reduces))

    text = "Every rank has all of X, its own columns of A, and the rows of B with the same numbers."
    tell(told("cut"), text, "X", "A", "B")
    for v in values:
        v["Z"] = v["X"] @ v["A"]
    tell("first product", "Z = X A: each rank gets its own columns, nothing is sent.", "Z")
    for v in values:
        v["Y"] = activation(v["Z"])
    tell(told("activation"), "It acts on every number alone, so columns can be kept apart.", "Y")
    for v in values:
        v["P"] = v["Y"] @ v["B"]
    tell("second product", "P = Y B: full shape on every rank, but only a partial sum.", "P")
    total = np.sum([v["P"] for v in values], axis=0)
    for v in values:
        v["out"] = total
    text = "The only communication of the forward pass: the partial sums are added up."
    tell("all-reduce", text, "out", reduces="out")
    _backward(values, given["dout"], tell)
    return states


def _backward(values: list[dict[str, Matrix]], dout: Matrix, tell: Any) -> None:
    for v in values:
        v["dout"] = v["dP"] = dout
    tell("backward begins", "The gradient of the output is the same on all ranks.", "dout", "dP")
    for v in values:
        v["dB"], v["dY"] = v["Y"].T @ dout, dout @ v["B"].T
    text = "Gradients of B's own rows and of Y's own columns: local."
    tell("back through the second product", text, "dB", "dY")
    for v in values:
        v["dZ"] = v["dY"] * activation_slope(v["Z"])
        v["dA"] = v["X"].T @ v["dZ"]
        v["dX"] = v["dZ"] @ v["A"].T
    text = "Gradients of A's own columns; for X each rank finds a partial sum."
    tell("back through the first product", text, "dZ", "dA", "dX")
    total = np.sum([v["dX"] for v in values], axis=0)
    for v in values:
        v["dX"] = total
    text = "The only communication of the backward pass."
    tell("all-reduce of the input's gradient", text, "dX", reduces="dX")


def tensor_parallel_mlp(ranks: int = 2) -> Story:
    if ranks not in (2, 3, 4):
        raise ArgumentError(f"{ranks} ranks do not fit the picture; use 2, 3 or 4")
    states = simulate(ranks)
    frames = tuple(Frame(state.moment, state.text, _scene(state)) for state in states)
    return Story(f"A perceptron cut over {ranks} ranks", frames, is_told=True)


def _scene(state: MlpState) -> Scene:
    ranks = len(state.values)
    height = ranks * ROOM + 0.4
    things: list[Cell | Arrow | Words] = []
    for rank, values in enumerate(state.values):
        y = (ranks - rank - 0.5) * ROOM
        things.append(Words(0.05, y, f"rank {rank}", 10.5, align="left", bold=True))
        for place, names in enumerate(zip(COLUMNS, BACKWARD, strict=True)):
            for name, middle in zip(names, (y + LIFT, y - LIFT), strict=True):
                things += _matrix(name, state, values, (_x(place), middle), rank)
    if state.reduces:
        things += _exchange(state.reduces, ranks)
    return Scene(tuple(things), _x(6) + 1.0, height)


def _exchange(name: str, ranks: int) -> list[Cell | Arrow | Words]:
    """Arrows between neighbours, outside of all matrices, and what they add up."""
    row = COLUMNS if name in COLUMNS else BACKWARD
    forward = row is COLUMNS
    x, lift, side = _x(row.index(name)), LIFT if forward else -LIFT, 0.68 if forward else -0.68
    things: list[Cell | Arrow | Words] = []
    for rank in range(1, ranks):
        low = (ranks - rank - 0.5) * ROOM + lift
        high = low + ROOM
        things.append(Arrow(x + side - 0.08, low, x + side - 0.08, high, paint=VERMILION))
        things.append(Arrow(x + side + 0.08, high, x + side + 0.08, low, paint=VERMILION))
    summed = " + ".join(f"{'P' if forward else 'dX'}{_low(rank)}" for rank in range(ranks))
    at, align = (x + 0.47, "right") if forward else (x - 0.47, "left")
    middle = (ranks - 1) * ROOM
    return [*things, Words(at, middle, summed, 10, align=align, paint=VERMILION, bold=True)]


def _matrix(
    name: str, state: MlpState, values: dict[str, Matrix], at: tuple[float, float], rank: int
) -> list[Cell | Arrow | Words]:
    """Whole matrices as one box; of one that is cut, the rank's own slice beside those that
    other ranks have."""
    plain = name.removeprefix("d")
    is_here, is_new = name in values, name in state.new
    paint = PURPLE if name.startswith("d") and plain in ("A", "B") else PAINTS.get(plain, FAINT)
    x, y = at
    if plain not in CUT:
        partial = name == "P" or (name == "dX" and state.reduces != "dX")
        text = f"{name}{_low(rank)}" if partial else name
        size = (0.95, 0.72)
        if not is_here:
            return [Cell(x, y, "", EMPTY, *size)]
        return [Cell(x, y, text, paint, *size, strong=is_new, size=10)]
    own = (name, paint if is_here else EMPTY, is_new and is_here)
    return _sliced(own, CUT[plain], at, rank, len(state.values))


def _sliced(
    own: tuple[str, str, bool], cut: str, at: tuple[float, float], rank: int, ranks: int
) -> list[Cell | Arrow | Words]:
    (name, paint, is_new), (x, y) = own, at
    things: list[Cell | Arrow | Words] = []
    for part in range(ranks):
        off = (part - (ranks - 1) / 2) / ranks
        if cut == "columns":
            place, size = (x + off * WIDE, y), (WIDE / ranks, 0.72)
        else:
            place, size = (x, y - off * TALL), (0.95, TALL / ranks)
        if part != rank or paint == EMPTY:
            things.append(Cell(*place, "", EMPTY, *size))
            continue
        text_size = 10 if ranks == 2 else 8
        things.append(
            Cell(*place, f"{name}{_low(part)}", paint, *size, strong=is_new, size=text_size)
        )
    return things


def _low(number: int) -> str:
    return "₀₁₂₃"[number]


def _x(place: int) -> float:
    return 2.1 + place * 1.6
