"""Flow of an artificial atmosphere: two layers of air on a rotating planet, with their water.

Two-layer quasi-geostrophic equations on a channel that is periodic from west to east and has walls
in the south and in the north, 7000 km apart. Warm air in the south and cold air in the north cause
a west wind that grows with height and is unstable: cyclones grow, move, merge and decay.

    potential vorticity of a layer   carried by the wind of that layer, with the planet's own (beta)
    wind                             computed from it at any time, by inverting a Laplacian
    humidity of a layer              carried by the same wind; evaporates below, and rains when
                                     saturated

The method is pseudo-spectral: derivatives in wavenumbers, products on the grid. Walls are mirrors:
the flow continues beyond them with the opposite sign, so that no wind blows across."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

# Time between two states.
HOURS = 6.0
SOUTH_TO_NORTH_M = 7.0e6
CORIOLIS_PER_S = 1.0e-4
BETA_PER_M_S = 1.6e-11  # growth of the Coriolis parameter northwards
SHEAR_M_S = 16.0  # mean west wind of the upper layer relative to the lower one
LOWER_WIND_M_S = 4.0
DEFORMATION_M = 6.0e5  # size of the fastest-growing waves, divided by about 2 π
DRAG_PER_S = 1 / (4 * 86400)  # drag of the ground on the lower layer
COOLING_PER_S = 1 / (20 * 86400)  # radiation restores the contrast of south and north
EVAPORATION_PER_S, RAIN_PER_S, LIFT_PER_S = 1 / (4 * 86400), 1 / (4 * 3600), 1 / (3 * 86400)
GAS_J_KG_K = 287.0
GUSTS_M_S = 10.0  # largest increase of the fastest wind within six hours
# Position from west to east and from south to north, as shares, and height in metres.
MOUNTAINS = ((0.2, 0.55, 2200.0), (0.62, 0.4, 1500.0), (0.8, 0.7, 900.0))


@dataclass(frozen=True)
class Ground:
    """Unchanging ground: height in metres, and share of land (0 to 1)."""

    height_m: Tensor
    land: Tensor


def saturation(temperature_k: Tensor) -> Tensor:
    """Return the most water that the upper and the lower layer hold, in kg per kg of air, from the
    temperature at 850 hPa."""
    lower = 0.0068 * torch.exp(0.065 * (temperature_k - 278.0))
    upper = 0.0014 * torch.exp(0.065 * (temperature_k - 278.0))
    return torch.stack([upper, lower])


class Atmosphere:
    """Atmosphere on a grid. A state is [q upper, q lower, humidity upper, humidity lower] from
    south to north and is complete: the flow can continue from any state."""

    def __init__(self, height: int, width: int, device: torch.device | str = "cpu") -> None:
        self.height, self.width = height, width
        cell_m = SOUTH_TO_NORTH_M / height
        kind: Any = {"dtype": torch.float32, "device": device}
        self.y_m = (torch.arange(height, **kind) + 0.5) * cell_m
        west_to_east = 2 * math.pi * torch.fft.rfftfreq(width, cell_m, **kind)
        south_to_north = 2 * math.pi * torch.fft.fftfreq(2 * height, cell_m, **kind)[:, None]
        self.dx, self.dy = 1j * west_to_east, 1j * south_to_north
        square = west_to_east**2 + south_to_north**2
        self.laplacian = -square
        self.stretching = 1 / (2 * DEFORMATION_M**2)
        self.invert_sum = -1 / torch.where(square > 0, square, 1.0) * (square > 0)
        self.invert_difference = -1 / (square + 2 * self.stretching)
        # Products create waves that are too short for the grid; the filter removes its shortest
        # waves.
        short = (square.sqrt() * cell_m - 0.65 * math.pi).clamp(min=0)
        self.filter = torch.exp(-23.6 * short**4)
        self.longest_step_m = 2.6 * cell_m / (0.65 * math.pi)  # otherwise short waves would grow
        self.wind = torch.tensor([LOWER_WIND_M_S + SHEAR_M_S, LOWER_WIND_M_S], **kind)[
            :, None, None
        ]
        sign = torch.tensor([1.0, -1.0], **kind)[:, None, None]
        self.gradient = BETA_PER_M_S + sign * self.stretching * SHEAR_M_S
        self.ground = self._ground()
        hill = self.ground.height_m * CORIOLIS_PER_S / 8000.0 / 4  # a quarter: air also flows round
        self.hill = torch.cat([hill, -hill.flip(0)])

    def _ground(self) -> Ground:
        x = (torch.arange(self.width, device=self.y_m.device) + 0.5) / self.width
        y = (self.y_m / SOUTH_TO_NORTH_M)[:, None]
        height = torch.zeros(self.height, self.width, device=self.y_m.device)
        for east, north, top_m in MOUNTAINS:
            away = (x - east + 0.5) % 1 - 0.5
            height += top_m * torch.exp(-((away / 0.06) ** 2) - ((y - north) / 0.13) ** 2)
        return Ground(height, torch.sigmoid((height - 150.0) / 60.0))

    def initial(self, seed: int) -> Tensor:
        """Return a weak random flow, which takes days to develop into weather."""
        random = torch.Generator().manual_seed(seed)
        amplitude = torch.randn(2, 6, 12, generator=random, dtype=torch.float64)
        phase = 2 * math.pi * torch.rand(2, 6, 12, generator=random, dtype=torch.float64)
        x = torch.arange(self.width, dtype=torch.float64) / self.width
        y = (torch.arange(self.height, dtype=torch.float64) + 0.5) / self.height
        waves = torch.arange(1, 13, dtype=torch.float64)
        along = torch.cos(2 * math.pi * waves[:, None] * x + phase[..., None])
        across = torch.sin(math.pi * waves[:6, None] * y)
        q = torch.einsum("lmk,lmkx,my->lyx", amplitude, along, across) * 3e-6
        q = q.to(self.y_m)
        warmth = self._warmth(torch.zeros_like(q[0]))
        return torch.cat([q, 0.7 * saturation(warmth)])

    def advance(self, state: Tensor) -> Tensor:
        """Return the state six hours later, by fourth-order Runge-Kutta steps."""
        now = self._to_waves(state)
        fastest_m_s = max(wind.abs().max().item() for wind in self.winds(state)) + GUSTS_M_S
        steps = max(4, math.ceil(HOURS * 3600 * fastest_m_s / self.longest_step_m))
        step_s = HOURS * 3600 / steps
        for _ in range(steps):
            a = self._tendency(now)
            b = self._tendency(now + 0.5 * step_s * a)
            c = self._tendency(now + 0.5 * step_s * b)
            d = self._tendency(now + step_s * c)
            now = self.filter * (now + step_s / 6 * (a + 2 * b + 2 * c + d))
        return self._to_grid(now)[:, : self.height]

    def stream(self, state: Tensor) -> Tensor:
        """Return the stream function of both layers, m²/s, including the mean wind."""
        waves = self._stream(self._to_waves(state)[:2])
        there = self.y_m[:, None] - SOUTH_TO_NORTH_M / 2
        return self._to_grid(waves)[:, : self.height] - self.wind * there

    def winds(self, state: Tensor) -> tuple[Tensor, Tensor]:
        """Return the eastward and northward wind of both layers."""
        waves = self._stream(self._to_waves(state)[:2])
        both = self._to_grid(torch.cat([-self.dy * waves, self.dx * waves]))[:, : self.height]
        return both[:2] + self.wind, both[2:]

    def temperature(self, state: Tensor) -> Tensor:
        """Return the temperature in kelvin at 850 hPa, from the thickness between the layers."""
        waves = self._stream(self._to_waves(state)[:2])
        upper, lower = self._to_grid(waves)[:, : self.height]
        return self._warmth(upper - lower)

    def _warmth(self, difference: Tensor) -> Tensor:
        """Return the temperature from the difference of the stream functions without mean wind."""
        thickness = difference - SHEAR_M_S * (self.y_m[:, None] - SOUTH_TO_NORTH_M / 2)
        return 278.0 + CORIOLIS_PER_S / (GAS_J_KG_K * math.log(850 / 250)) * thickness

    def _stream(self, q: Tensor) -> Tensor:
        total = self.invert_sum * (q[0] + q[1])
        difference = self.invert_difference * (q[0] - q[1])
        return torch.stack([total + difference, total - difference]) / 2

    def _tendency(self, now: Tensor) -> Tensor:
        stream = self._stream(now[:2])
        difference = stream[0] - stream[1]
        grid = self._to_grid(
            torch.cat([-self.dy * stream, self.dx * stream, now, difference[None]])
        )
        carried = grid[4:8].view(2, 2, *grid.shape[1:])  # kind, layer
        carried[0, 1] += self.hill
        u, v = grid[:2] + self.wind, grid[2:4]
        water = self._water(carried[1, :, : self.height], grid[8, : self.height])
        made = [(u * carried).flatten(0, 1), (v * carried).flatten(0, 1), water]
        waves = torch.fft.rfft2(torch.cat(made))
        change = -self.dx * waves[:4] - self.dy * waves[4:8]
        cooled = COOLING_PER_S * self.stretching * difference
        change[:2] -= self.gradient * self.dx * stream
        change[0] += cooled
        change[1] -= cooled + DRAG_PER_S * self.laplacian * stream[1]
        change[2:] += waves[8:]
        return change

    def _water(self, humidity: Tensor, difference: Tensor) -> Tensor:
        """Return the change of humidity by evaporation, lift and rain, in the mirror as well."""
        most = saturation(self._warmth(difference))
        source = -RAIN_PER_S * (humidity - most).clamp(min=0)
        wet = 0.9 - 0.4 * self.ground.land
        source[1] += EVAPORATION_PER_S * (wet * most[1] - humidity[1])
        source[0] += LIFT_PER_S * (0.12 * humidity[1] - humidity[0])
        return torch.cat([source, source.flip(1)], 1)

    def _to_waves(self, state: Tensor) -> Tensor:
        mirror = state.flip(1)
        mirror = torch.cat([-mirror[:2], mirror[2:]])
        return torch.fft.rfft2(torch.cat([state, mirror], 1))

    def _to_grid(self, waves: Tensor) -> Tensor:
        return torch.fft.irfft2(waves, s=(2 * self.height, self.width))
