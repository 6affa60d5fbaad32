"""Scores of a forecast: the training loss, and the error of the wind."""

from __future__ import annotations

import torch
from torch import Tensor

from weather.fields import WIND_10M


def relative_l2(forecast: Tensor, truth: Tensor) -> Tensor:
    """Return each sample's error: its norm relative to the norm of the truth, with all fields
    scaled alike. A forecast of the long-term mean has an error of 1."""
    error, whole = (x.flatten(1) for x in (forecast - truth, truth))
    return error.norm(dim=1) / whole.norm(dim=1)


def row_weights(latitudes: Tensor) -> Tensor:
    """Return weights of rows. A row near a pole has as many points as the equator, but less area.
    The mean weight is 1."""
    weights = torch.cos(torch.deg2rad(latitudes)).clamp(min=0)
    return weights / weights.mean()


def wind_rmse(forecast: Tensor, truth: Tensor, stds: Tensor, weights: Tensor) -> Tensor:
    """Return each sample's root mean square error of the 10 m wind in m/s. `weights` is [samples,
    rows]."""
    off = (forecast - truth)[:, list(WIND_10M)].double() * stds[list(WIND_10M)].double()
    square = off.square().sum(1).mean(-1)  # [samples, rows]
    return (square * weights / weights.mean(1, keepdim=True)).mean(1).sqrt()
