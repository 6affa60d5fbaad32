"""Twenty fields of a state of the atmosphere, in the order and units of the reanalysis files with
which weather models are trained."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from weather.dynamics import CORIOLIS_PER_S, GAS_J_KG_K, Atmosphere, saturation

# u, v: wind eastward and northward (m/s); t: temperature (K); sp, msl: pressure at the surface and
# at sea level (Pa); z: geopotential (m²/s²); r: relative humidity (%); tcwv: water in the column
# (kg/m²). The number is the pressure in hPa, or a height of 2 or 10 m.
FIELDS = (
    "u10", "v10", "t2m", "sp", "msl", "t850", "u1000", "v1000", "z1000", "u850", "v850", "z850",
    "u500", "v500", "z500", "t500", "z50", "r500", "r850", "tcwv",
)  # fmt: skip
WIND_10M = (FIELDS.index("u10"), FIELDS.index("v10"))

# Share of the upper layer's flow at each level; the rest is the lower layer's.
UPPER_SHARE = {1000: -0.1, 850: 0.0, 500: 0.6, 50: 1.0}
GEOPOTENTIAL = {1000: 1.0e3, 850: 1.45e4, 500: 5.45e4, 50: 2.0e5}
GRAVITY = 9.81
TURN = math.radians(20)  # by which friction turns the wind at the ground towards low pressure


def fields_of(atmosphere: Atmosphere, state: Tensor) -> Tensor:
    """Return [20, height, width], from north to south as in the reanalysis files."""
    stream = atmosphere.stream(state)
    east, north = atmosphere.winds(state)
    t850 = atmosphere.temperature(state)
    land, height_m = atmosphere.ground.land, atmosphere.ground.height_m

    def level(pressure: int, layers: Tensor) -> Tensor:
        share = UPPER_SHARE[pressure]
        return share * layers[0] + (1 - share) * layers[1]

    found = {
        f"{name}{p}": level(p, layers)
        for p in (1000, 850, 500)
        for name, layers in (("u", east), ("v", north))
    }
    for p, mean in GEOPOTENTIAL.items():
        found[f"z{p}"] = mean + CORIOLIS_PER_S * level(p, stream)
    found["z50"] = _smooth(found["z50"])  # waves of the weather decay with height
    found["t850"] = t850
    found["t500"] = 255 + 0.8 * (t850 - 278)
    # Land slows the wind more than water.
    kept = 0.75 - 0.25 * land
    u, v = found["u1000"], found["v1000"]
    found["u10"] = kept * (math.cos(TURN) * u - math.sin(TURN) * v)
    found["v10"] = kept * (math.sin(TURN) * u + math.cos(TURN) * v)
    found["t2m"] = 287 + (0.9 + 0.3 * land) * (t850 - 278) - 0.004 * height_m
    found["msl"] = 1.0e5 + 1.25 * found["z1000"]
    found["sp"] = found["msl"] * torch.exp(-GRAVITY * height_m / (GAS_J_KG_K * found["t2m"]))
    upper, lower = 100 * state[2:] / saturation(t850)
    found["r500"], found["r850"] = upper.clamp(0, 100), lower.clamp(0, 100)
    found["tcwv"] = state[2:].clamp(min=0).sum(0) * 2.0e4 / GRAVITY  # most water is low in a layer
    return torch.stack([found[name] for name in FIELDS]).flip(1)


def _smooth(field: Tensor) -> Tensor:
    """Keep waves of a quarter of the globe and longer."""
    waves = torch.fft.rfft(field)
    number = torch.arange(waves.shape[-1], device=field.device)
    return torch.fft.irfft(waves * torch.exp(-((number / 4) ** 2)), n=field.shape[-1])


def latitudes(height: int) -> Tensor:
    """Return the rows' degrees from north to south: 7000 km around 45°."""
    south_to_north_degrees = 63.0
    rows = (torch.arange(height, dtype=torch.float64) + 0.5) / height
    return 45 + south_to_north_degrees * (0.5 - rows)
