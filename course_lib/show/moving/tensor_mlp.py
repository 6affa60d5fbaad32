"""A two-layer perceptron on several devices: A cut in columns, B cut in rows.

The forward pass and the backward pass have one all-reduce each.
"""

from __future__ import annotations

from dataclasses import dataclass

from course_lib.mistakes.errors import ArgumentError
from course_lib.show.moving.scene import Arrow, Cell, Scene, Words, exchange
from course_lib.show.moving.story import Frame, Story
from course_lib.show.style import BLUE, FAINT, GREEN, ORANGE, PURPLE, SKY, VERMILION
from course_lib.words import _

COLUMNS = ("X", "A", "Z", "Y", "B", "P", "out")
BACKWARD = ("dX", "dA", "dZ", "dY", "dB", "dP", "dout")
CUT = {"A": "columns", "Z": "columns", "Y": "columns", "B": "rows"}
ROOM, LIFT, WIDE, TALL = 2.6, 0.58, 1.36, 0.98
PAINTS = {"X": SKY, "A": BLUE, "B": BLUE, "Z": ORANGE, "Y": ORANGE, "P": VERMILION, "out": GREEN}


@dataclass(frozen=True)
class MlpState:
    """State after one moment: `here` names the matrices on every rank, `new` the newest of them."""

    moment: str
    text: str
    new: tuple[str, ...]
    # The matrix whose partial sums are added up.
    reduces: str = ""
    here: frozenset[str] = frozenset()


def simulate() -> list[MlpState]:
    told = (
        (_("cut"), "X A B",
         _("Every rank has all of X, its own columns of A, and the rows of B "
           "with the same numbers.")),
        (_("first matmul"), "Z",
         _("Z = X A. Each rank computes its own columns, and nothing is sent.")),
        (_("activation"), "Y",
         _("It acts on each number alone, so each rank needs only its own columns.")),
        (_("second matmul"), "P",
         _("P = Y B. Every rank gets the full shape, but only a partial sum.")),
        ("all-reduce", "out",
         _("The all-reduce adds the partial sums. It is the only communication of "
           "the forward pass.")),
        (_("backward begins"), "dout dP",
         _("The gradient of the output is the same on all ranks.")),
        (_("backward through the second matmul"), "dB dY",
         _("Each rank computes the gradients of its rows of B and its columns of Y, "
           "without communication.")),
        (_("backward through the first matmul"), "dZ dA dX",
         _("Each rank computes the gradients of its columns of A, and a partial sum for X.")),
        (_("all-reduce of the input's gradient"), "dX",
         _("It is the only communication of the backward pass.")),
    )  # fmt: skip
    states: list[MlpState] = []
    here: set[str] = set()
    for moment, names, text in told:
        new = tuple(names.split())
        reduces = "dX" if here.issuperset(new) else "out" if names == "out" else ""
        here |= set(new)
        states.append(MlpState(moment, text, new, reduces, frozenset(here)))
    return states


def tensor_parallel_mlp(ranks: int = 2) -> Story:
    if ranks not in (2, 3, 4):
        raise ArgumentError(_("{ranks} ranks do not fit the picture; use 2, 3 or 4", ranks=ranks))
    frames = tuple(Frame(state.moment, state.text, _scene(state, ranks)) for state in simulate())
    return Story(_("A perceptron split over {ranks} ranks", ranks=ranks), frames, is_told=True)


def _scene(state: MlpState, ranks: int) -> Scene:
    height = ranks * ROOM + 0.4
    things: list[Cell | Arrow | Words] = []
    for rank in range(ranks):
        y = (ranks - rank - 0.5) * ROOM
        things.append(Words(0.05, y, _("rank {rank}", rank=rank), 10.5, align="left", bold=True))
        for place, names in enumerate(zip(COLUMNS, BACKWARD, strict=True)):
            for name, middle in zip(names, (y + LIFT, y - LIFT), strict=True):
                things += _matrix(name, state, (_x(place), middle), (rank, ranks))
    if state.reduces:
        things += _exchange(state.reduces, ranks)
    return Scene(tuple(things), _x(6) + 1.0, height)


def _exchange(name: str, ranks: int) -> list[Cell | Arrow | Words]:
    """Draw arrows between neighbours, outside all matrices, and the sum."""
    row = COLUMNS if name in COLUMNS else BACKWARD
    forward = row is COLUMNS
    x, lift, side = _x(row.index(name)), LIFT if forward else -LIFT, 0.68 if forward else -0.68
    things: list[Cell | Arrow | Words] = []
    for rank in range(1, ranks):
        low = (ranks - rank - 0.5) * ROOM + lift
        things += exchange(x + side, low, low + ROOM, 0.08)
    summed = " + ".join(f"{'P' if forward else 'dX'}{_low(rank)}" for rank in range(ranks))
    at, align = (x + 0.47, "right") if forward else (x - 0.47, "left")
    middle = (ranks - 1) * ROOM
    return [*things, Words(at, middle, summed, 10, align=align, paint=VERMILION, bold=True)]


def _matrix(
    name: str, state: MlpState, at: tuple[float, float], who: tuple[int, int]
) -> list[Cell | Arrow | Words]:
    """Draw a whole matrix as one box, or a cut matrix as the rank's slice beside empty slices."""
    plain = name.removeprefix("d")
    is_here, is_new = name in state.here, name in state.new
    paint = PURPLE if name.startswith("d") and plain in ("A", "B") else PAINTS.get(plain, FAINT)
    x, y = at
    if plain not in CUT:
        partial = name == "P" or (name == "dX" and state.reduces != "dX")
        text = f"{name}{_low(who[0])}" if partial else name
        size = (0.95, 0.72)
        if not is_here:
            return [Cell(x, y, "", FAINT, *size)]
        return [Cell(x, y, text, paint, *size, strong=is_new, size=10)]
    own = (name, paint if is_here else FAINT, is_new and is_here)
    return _sliced(own, CUT[plain], at, *who)


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
        if part != rank or paint == FAINT:
            things.append(Cell(*place, "", FAINT, *size))
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
