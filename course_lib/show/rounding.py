"""Rounding errors of number formats: range and digits in one figure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from course_lib.mistakes.errors import ArgumentError
from course_lib.show.picture import Picture
from course_lib.show.style import DASHES, SERIES, legend_below, raised, sheet
from course_lib.words import _

SMALLEST, LARGEST, BEST = 1e-12, 1e12, 2e-6  # limits of the axes; BEST is in percent


def number_formats(formats: Mapping[str, Any]) -> Picture:
    """Draw the largest rounding error against the size of the number.

    `formats` maps names to `torch.finfo` objects with `max`, `smallest_normal` and `eps`.
    """
    if not formats:
        raise ArgumentError(
            _('name at least one format, as in {"bf16": torch.finfo(torch.bfloat16)}')
        )
    said = []
    with sheet(height_in=4.0) as page:
        title = _("Rounding error by the size of the number")
        axes = page.axes(_("size of the number"), _("largest rounding error (%)"), title)
        for position, (name, info) in enumerate(formats.items()):
            look = {"color": SERIES[position % 8], "ls": DASHES[position % len(DASHES)]}
            size = np.geomspace(SMALLEST, min(float(info.max), LARGEST), 2000)
            gap = np.maximum(size, float(info.smallest_normal)) * float(info.eps)
            error = np.minimum(50 * gap / size, 100)
            axes.plot(size, error, label=name, **look)
            if info.max < LARGEST:
                axes.plot([info.max, info.max], [error[-1], 100], **look)
            said.append(
                _(
                    "{name}: {value:.2g} % from {smallest_normal:.2g} to {max:.3g}",
                    name=name,
                    value=50 * info.eps,
                    smallest_normal=info.smallest_normal,
                    max=info.max,
                )
            )
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xticks(10.0 ** np.arange(-12, 13, 4), [raised(10, p) for p in range(-12, 13, 4)])
        axes.set_yticks([1e-5, 1e-3, 0.1, 10, 100], ["0.00001", "0.001", "0.1", "10", _("lost")])
        axes.set_ylim(BEST, 150)
        axes.minorticks_off()
        legend_below(axes)
        return page.picture(
            _("Rounding error by the size of the number. {said}.", said="; ".join(said))
        )
