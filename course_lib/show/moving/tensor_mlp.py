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

Matrix = np.ndarray[Any, np.dtype[np.float64]]
ROWS, WIDTH, HIDDEN = 4, 6, 12
COLUMNS = ("X", "A", "Z", "Y", "B", "P", "out")
BACKWARD = ("dX", "dA", "dZ", "dY", "dB", "dP", "dout")
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

    text = "Every rank has all inputs, some columns of A, and the same rows of B."
    tell("cut", text, "X", "A", "B")
    for v in values:
        v["Z"] = v["X"] @ v["A"]
    tell("first product", "Z = X A: each rank gets its own columns, nothing is sent.", "Z")
    for v in values:
        v["Y"] = activation(v["Z"])
    tell("activation", "It acts on every number alone, so columns can be kept apart.", "Y")
    for v in values:
        v["P"] = v["Y"] @ v["B"]
    tell("second product", "P = Y B: full shape on every rank, but each is only a summand.", "P")
    total = np.sum([v["P"] for v in values], axis=0)
    for v in values:
        v["out"] = total
    text = "The only communication of the forward pass: the summands are added up."
    tell("all-reduce", text, "out", reduces="out")
    _backward(values, given["dout"], tell)
    return states


def _backward(values: list[dict[str, Matrix]], dout: Matrix, tell: Any) -> None:
    for v in values:
        v["dout"] = v["dP"] = dout
    tell("backward begins", "The gradient of the output is the same on all ranks.", "dout", "dP")
    for v in values:
        v["dB"], v["dY"] = v["Y"].T @ dout, dout @ v["B"].T
    tell("second layer", "Gradients of B's own rows and of Y's own columns: local.", "dB", "dY")
    for v in values:
        v["dZ"] = v["dY"] * activation_slope(v["Z"])
        v["dA"] = v["X"].T @ v["dZ"]
        v["dX"] = v["dZ"] @ v["A"].T
    text = "Gradients of A's own columns; what each rank finds for X is again only a summand."
    tell("first layer", text, "dZ", "dA", "dX")
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
    return Story(f"A perceptron cut over {ranks} ranks", frames)


def _scene(state: MlpState) -> Scene:
    ranks = len(state.values)
    height = ranks * 2.5 + 0.4
    things: list[Cell | Arrow | Words] = []
    for rank, values in enumerate(state.values):
        y = (ranks - rank - 0.5) * 2.5
        things.append(Words(0.05, y, f"rank {rank}", 10.5, align="left", bold=True))
        for place, names in enumerate(zip(COLUMNS, BACKWARD, strict=True)):
            for name, middle in zip(names, (y + 0.55, y - 0.6), strict=True):
                things.append(_matrix(name, values, _x(place), middle, name in state.new))
    if state.reduces:
        row = COLUMNS if state.reduces in COLUMNS else BACKWARD
        x, lift = _x(row.index(state.reduces)), 0.55 if row is COLUMNS else -0.6
        for rank in range(1, ranks):
            low, high = (
                (ranks - rank - 0.5) * 2.5 + lift + 0.5,
                (ranks - rank + 0.5) * 2.5 + lift - 0.5,
            )
            things.append(Arrow(x - 0.15, low, x - 0.15, high, paint=VERMILION))
            things.append(Arrow(x + 0.15, high, x + 0.15, low, paint=VERMILION))
    return Scene(tuple(things), _x(6) + 1.0, height)


def _matrix(name: str, values: dict[str, Matrix], x: float, y: float, new: bool) -> Cell:
    """Drawn in proportion: a rank's piece of A is narrow, its piece of B is flat."""
    plain = name.removeprefix("d")
    value = values.get(name)
    rows, columns = (values.get(plain, values["X"]) if value is None else value).shape
    size = (columns * 0.13 + 0.25, rows * 0.08 + 0.35)
    if value is None:
        return Cell(x, y, "", "#eef0f2", *size)
    paint = PURPLE if name.startswith("d") and plain in ("A", "B") else PAINTS.get(plain, FAINT)
    return Cell(x, y, name, paint, *size, strong=new, size=10)


def _x(place: int) -> float:
    return 1.75 + place * 1.55
