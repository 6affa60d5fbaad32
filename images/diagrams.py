"""Draws the diagrams of the lessons as still pictures, for pages where nothing moves.

python images/diagrams.py            all of them, beside this script
python images/diagrams.py FOLDER     elsewhere
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from course_lib import show
from course_lib.show import moving
from course_lib.show.picture import Picture

GROUPS = {"tensor": [[0, 1, 2, 3], [4, 5, 6, 7]], "data": [[0, 4], [1, 5], [2, 6], [3, 7]]}

PICTURES: dict[str, Callable[[], Picture]] = {
    "all_reduce_ring": lambda: moving.collective("all-reduce", 4, "ring").strip(),
    "all_reduce_tree": lambda: moving.collective("all-reduce", 4, "tree").strip(),
    "all_gather": lambda: moving.collective("all-gather", 4).strip(),
    "reduce_scatter": lambda: moving.collective("reduce-scatter", 4).strip(),
    "all_to_all": lambda: moving.collective("all-to-all", 4).strip(),
    "ddp_step": lambda: moving.ddp_step().strip(),
    "fsdp_step": lambda: moving.fsdp_step().strip(),
    "tensor_parallel_mlp": lambda: moving.tensor_parallel_mlp().strip(),
    "loss_scaling": lambda: moving.loss_scaling().strip(most=6),
    "pipeline_naive": lambda: show.schedule("naive", 4, 4),
    "pipeline_gpipe": lambda: show.schedule("gpipe", 4, 4),
    "pipeline_1f1b": lambda: show.schedule("1f1b", 4, 8),
    "pipeline_interleaved": lambda: show.schedule("interleaved", 4, 8),
    "pipeline_zero_bubble": lambda: show.schedule("zero-bubble", 4, 8),
    "rank_groups": lambda: show.ranks(GROUPS, devices_per_node=4),
}


def main(folder: Path) -> None:
    for name, draw in PICTURES.items():
        picture = draw()
        picture.save(folder / f"{name}.png")
        print(f"{name}.png: {picture.alt.split('. ')[0]}")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
