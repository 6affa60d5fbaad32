"""Scores of a forecast: the loss of training, and the error that people ask for."""

from __future__ import annotations

import torch
from torch import Tensor

from weather.fields import WIND_10M


def relative_l2(forecast: Tensor, truth: Tensor) -> Tensor:
    """Error of each sample: its length over that of the truth, all fields scaled alike.
    Forecasting the long-term mean has 1."""
    error, whole = (x.flatten(1) for x in (forecast - truth, truth))
    return error.norm(dim=1) / whole.norm(dim=1)


def row_weights(latitudes: Tensor) -> Tensor:
    """A row near a pole has as many points as the equator, on less of the planet. Their mean is 1
    for the rows that are given."""
    weights = torch.cos(torch.deg2rad(latitudes)).clamp(min=0)
    return weights / weights.mean()


def wind_rmse(forecast: Tensor, truth: Tensor, stds: Tensor, weights: Tensor) -> Tensor:
    """Root mean square, for each sample and in m/s, of the error of the 10 m wind.
    `weights` is [samples, rows]."""
    off = (forecast - truth)[:, list(WIND_10M)].double() * stds[list(WIND_10M)].double()
    square = off.square().sum(1).mean(-1)  # [samples, rows]
    return (square * weights / weights.mean(1, keepdim=True)).mean(1).sqrt()
