"""The knobs of the simulated world: its network, disks and clocks while no fault is active."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from holdfast.clusters.backends.sim.network import Weather

DEFAULTS: dict[str, int] = {
    "sim_fast_us": 100,
    "sim_slow_us": 2000,
    "sim_spike_us": 20_000,
    "sim_loss_ppm": 0,
    "sim_double_ppm": 0,
    "sim_sync_us": 0,
    "sim_drift_ppm": 300,
    "sim_marshal": 0,
    "sim_guard": 0,
    "sim_network": 0,
}
"""option -> its default; all are whole numbers.

sim_fast_us, sim_slow_us   a frame takes between these, mostly near the first
sim_spike_us               one frame in 200 takes up to so much longer
sim_loss_ppm, sim_double_ppm   share of the frames between servers that is lost, or comes twice;
                           where one of them is not 0, these frames overtake each other too
sim_sync_us                a sync to disk takes up to so long, and the node stands still meanwhile
sim_drift_ppm              a node's clocks are fast or slow by up to so much
sim_marshal                1: every frame goes through JSON, which must change nothing
sim_guard                  1: whoever inside asks a clock, chance or a file of the host is named,
                           as a problem of the run
sim_network                which of many networks: the chance of its links and of nothing else, so
                           that one schedule of faults can be tried on several; 0 is the seed's own
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Knobs:
    """The options as values."""

    weather: Weather
    sync_ns: int
    drift_ppm: int
    guard: bool
    network: int

    @staticmethod
    def of(options: Mapping[str, str]) -> Knobs:
        """From `--set` options; what is not given has its default."""
        value = {name: int(options.get(name, default)) for name, default in DEFAULTS.items()}
        return Knobs(
            weather=Weather(
                fast_ns=value["sim_fast_us"] * 1000,
                slow_ns=max(value["sim_fast_us"], value["sim_slow_us"]) * 1000,
                spike_ns=value["sim_spike_us"] * 1000,
                loose=bool(value["sim_loss_ppm"] or value["sim_double_ppm"]),
                loss=value["sim_loss_ppm"] / 1e6,
                double=value["sim_double_ppm"] / 1e6,
                marshal=bool(value["sim_marshal"]),
            ),
            sync_ns=value["sim_sync_us"] * 1000,
            drift_ppm=value["sim_drift_ppm"],
            guard=bool(value["sim_guard"]),
            network=value["sim_network"],
        )
