"""Figures of a run with matplotlib: the panels, lines and colours of the charts that the program writes.

>>> import weir, weir.plots, weir.tune
>>> result = weir.run(weir.tune.EXAMPLE, seed=1)
>>> figure = weir.plots.draw(result, policy=weir.tune.EXAMPLE["policy"])
>>> [axes.get_title(loc="left") for axes in figure.axes]
['Throughput, Mbit/s', 'Delay, ms', 'Signals, packets/s', 'Flows']
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from . import Result

__all__ = ["Panel", "Series", "draw", "panels"]

COLOURS = {"main": "#0072b2", "faint": "#8cc3e6", "aim": "#d55e00", "second": "#a8487f", "third": "#008f68"}
"""Colours by the part that a line plays, as in crates/report/src/chart/style.css."""


@dataclass
class Series:
    """A line of a panel."""

    name: str
    """What it shows, as in the legend."""
    tone: str
    """The part it plays, a key of :data:`COLOURS`."""
    t: list[float]
    """Times in seconds."""
    v: list[float]
    """Values in the unit of the panel; NaN where there is none."""
    step: bool = False
    """Whether a value holds until the next one."""


@dataclass
class Panel:
    """A quantity over time."""

    title: str
    """Its name."""
    unit: str
    """The unit of its values; empty for numbers."""
    series: list[Series]
    """Its lines."""
    limits: list[tuple[str, float]] = field(default_factory=list)
    """Horizontal lines that they are compared with: name and value."""

    def scaled(self) -> Panel:
        """With a decimal prefix before the unit, so that numbers are short."""
        values = [v for s in self.series for v in s.v] + [value for _, value in self.limits]
        highest = max((v for v in values if math.isfinite(v)), default=0.0)
        divisor, letter = next((p for p in ((1e9, "G"), (1e6, "M"), (1e3, "k")) if highest >= p[0]), (1.0, ""))
        self.unit = letter + self.unit
        for series in self.series:
            series.v = [v / divisor for v in series.v]
        self.limits = [(name, value / divisor) for name, value in self.limits]
        return self


def _number(text: Any, units: Mapping[str, float]) -> float:
    """A value of a policy in the smallest of some units."""
    if isinstance(text, (int, float)):
        return float(text)
    found = re.fullmatch(r"\s*([0-9.]+)\s*([a-z%]*)\s*", str(text))
    if not found or found[2] not in units:
        raise ValueError(f"`{text}` is no value of a policy: write it as in a scenario, such as \"99%\" or \"30ms\"")
    return float(found[1]) * units[found[2]]


_SHARE = {"%": 0.01, "": 1.0}
_MS = {"ns": 1e-6, "us": 1e-3, "ms": 1.0, "s": 1e3}


def panels(result: Result, link: str | None = None, policy: Mapping[str, Any] | None = None) -> list[Panel]:
    """What is drawn of a link (the first, if not named): throughput, delay, signals, the backlog of a virtual
    queue where there is one, and active flows. ``policy`` is that of the scenario, whose limits are drawn."""
    name = link if link is not None else next(iter(result.links))
    if name not in result.links:
        raise ValueError(f"there is no link {name!r}; the links are {', '.join(result.links)}")
    columns = result.links[name].to_pydict()
    t = columns["t_s"]
    policy = policy or {}

    def line(label: str, tone: str, column: str, *, step: bool = False, positive: bool = False) -> Series:
        values = [math.nan if v is None or (positive and v <= 0) else float(v) for v in columns[column]]
        return Series(label, tone, list(t), values, step)

    def per_second(label: str, tone: str, column: str) -> Series:
        lengths = [b - a for a, b in zip(t, t[1:])]
        # The first period is taken to be as long as the second.
        lengths = [lengths[0] if lengths else (t[0] if t else 0.0), *lengths]
        rates = [count / length if length > 0 else math.nan for count, length in zip(columns[column], lengths)]
        return Series(label, tone, list(t), rates)

    has_virtual = any(columns["virtual_backlog_bytes"]) or any(columns["virtual_rate_bps"])
    throughput = [line("arrived", "faint", "arrived_bps"), line("delivered", "main", "delivered_bps")]
    if has_virtual:
        throughput.append(line("virtual rate", "second", "virtual_rate_bps", step=True, positive=True))
    rate = next((entry.get("rate_bps") for entry in result.summary["links"] if entry["name"] == name), None)
    limits = []
    if rate:
        limits.append(("rate", float(rate)))
        for key, label in (("utilization_low", "u_low"), ("utilization_target", "u_target")):
            if key in policy:
                share = _number(policy[key], _SHARE)
                limits.append((f"{label} {100 * share:.4g} %", share * rate))
    made = [Panel("Throughput", "bit/s", throughput, limits).scaled()]

    delay = [line("max", "faint", "delay_max_ms"), line("mean", "main", "delay_mean_ms")]
    if any(v is not None for v in columns["setpoint_ms"]):
        delay.append(line("set point", "aim", "setpoint_ms", step=True))
    limits = []
    if "target_max" in policy:
        value = _number(policy["target_max"], _MS)
        limits.append((f"target_max {value:.3g} ms", value))
    made.append(Panel("Delay", "ms", delay, limits))

    signals = [per_second("drops", "aim", "drops")]
    for label, tone in (("overflows", "second"), ("marks", "third")):
        if any(columns[label]):
            signals.append(per_second(label, tone, label))
    made.append(Panel("Signals", "packets/s", signals))

    if has_virtual:
        backlog = [line("backlog", "main", "backlog_bytes"), line("virtual backlog", "second", "virtual_backlog_bytes")]
        made.append(Panel("Backlog", "B", backlog).scaled())
    active = _active(result)
    if active.t:
        made.append(Panel("Flows", "", [active]))
    return made


def _active(result: Result) -> Series:
    """How many flows are between their first and their last sample; the last of all ends none."""
    lives: dict[int, tuple[float, float]] = {}
    for t, flow in zip(result.flows["t_s"].to_pylist(), result.flows["flow"].to_pylist()):
        first, last = lives.get(flow, (t, t))
        lives[flow] = (min(first, t), max(last, t))
    series = Series("active flows", "main", [], [], step=True)
    if not lives:
        return series
    begin, end = min(first for first, _ in lives.values()), max(last for _, last in lives.values())
    # Flows that stop within the last hundredth stop with the run: samples of different flows are not taken at
    # the same instant.
    changes = [(first, 1) for first, _ in lives.values()]
    changes += [(last, -1) for _, last in lives.values() if last < end - (end - begin) / 100]
    active = 0
    for t, change in sorted(changes, key=lambda c: c[0]):
        active += change
        if series.t and series.t[-1] == t:
            series.v[-1] = active
        else:
            series.t.append(t)
            series.v.append(active)
    series.t.append(end)
    series.v.append(active)
    return series


def draw(
    result: Result,
    path: str | os.PathLike[str] | None = None,
    *,
    link: str | None = None,
    policy: Mapping[str, Any] | None = None,
) -> Figure:
    """Draws a link of a run over time; with ``path`` into a file, whose name says the format (``.svg``,
    ``.pdf``, ``.png``). Returns the figure. The warm-up is grey, moves of the set point are small marks above
    the delay."""
    import matplotlib
    from matplotlib.figure import Figure

    drawn = panels(result, link, policy)
    name = link if link is not None else next(iter(result.links))
    with matplotlib.rc_context({"svg.hashsalt": "weir", "svg.fonttype": "none"}):
        figure = Figure(figsize=(8, 2 * len(drawn)), layout="constrained")
        all_axes = figure.subplots(len(drawn), sharex=True, squeeze=False)[:, 0]
        for axes, panel in zip(all_axes, drawn):
            for series in panel.series:
                style = "steps-post" if series.step else "default"
                width = 1.7 if series.tone == "aim" else 1.3
                axes.plot(series.t, series.v, drawstyle=style, color=COLOURS[series.tone], linewidth=width, label=series.name)
            for label, value in panel.limits:
                axes.axhline(value, color="#5b6670", linestyle=(0, (5, 3)), linewidth=1, label=label)
            axes.set_title(panel.title + (f", {panel.unit}" if panel.unit else ""), loc="left", fontsize="medium")
            if result.summary["warmup_s"] > 0:
                axes.axvspan(0, result.summary["warmup_s"], color="#68727c", alpha=0.1, linewidth=0)
            axes.set_ylim(bottom=0)
            axes.grid(color="#e7eaee")
            axes.legend(loc="upper right", fontsize="small", ncols=len(panel.series) + len(panel.limits))
        moves = [t for t, of in zip(result.events["t_s"].to_pylist(), result.events["link"].to_pylist()) if of == name]
        if moves:
            all_axes[1].plot(moves, [1.0] * len(moves), "|", color=COLOURS["aim"], transform=all_axes[1].get_xaxis_transform(), clip_on=False)
        all_axes[-1].set_xlabel("time, s")
        all_axes[-1].set_xlim(left=0)
        figure.suptitle(f"{result.summary['title']}, {name}, seed {result.seed}")
        if path is not None:
            figure.savefig(path, metadata={"Date": None} if str(path).endswith(".svg") else None)
    return figure
