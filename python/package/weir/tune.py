"""Tuning: the open parameters of the steering law by Optuna, over a set of scenarios.

>>> import weir.tune
>>> tuned = weir.tune.tune([weir.tune.EXAMPLE], trials=4, batch=2, seeds=1)
>>> len(tuned.trials), sorted(tuned.best.parameters) == sorted(weir.tune.SEARCH)
(4, True)
>>> all(a.delay_ms < b.delay_ms and a.utilization < b.utilization for a, b in zip(tuned.front, tuned.front[1:]))
True

``python -m weir tune FILE...`` does it from a shell. The objective is stated and not hidden in a weight of
the law: utilization less a price for each ms of 95 % delay, or a column that the scenarios have, such as one of
their ``run.objectives``, averaged over scenarios and seeds. The same
arguments give the same trials, whoever makes the runs and however many there are at a time.
"""

from __future__ import annotations

import difflib
import json
import math
import os
import pathlib
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import optuna

from . import Scenario, _read, _source, _sweep, _toml, _weir

__all__ = ["EXAMPLE", "SEARCH", "Trial", "Tuning", "draw", "tune", "write"]

SEARCH: dict[str, tuple[Any, Any]] = {
    "policy.raise_factor": (1.2, 4.0),
    "policy.margin": (0.0, 4.0),
    "policy.samples_min": (1, 20),
    "policy.target_min_up": ("500us", "10000us"),
    "policy.memory_depth": ("1000ms", "30000ms"),
    "policy.memory_rate": ("1000ms", "15000ms"),
}
"""Keys that are open, each with the smallest and the largest value: numbers, or texts with the same unit,
which are searched by their logarithm. Two integers are searched as integers, but not those of a key that has
fractions here. The policy itself (``utilization_low``, ``target_max``) is what its
user wants, and is not searched unless it is named."""

EXAMPLE: dict[str, Any] = {
    "title": "tuning",
    "link": {"rate": "10Mbit/s", "buffer": "200ms"},
    "path": {"rtt": "80ms"},
    "aqm": {"name": "gsp"},
    "policy": {"utilization_low": "99%", "target_max": "30ms"},
    "flows": [{"count": 2}],
    "run": {"duration": "12s", "warmup": "2s"},
}
"""A scenario to try it with."""


@dataclass(frozen=True)
class Trial:
    """What some parameters came to, on average over scenarios and seeds."""

    number: int
    """Number of the trial, from 0; -1 for the scenarios as they are."""
    parameters: dict[str, Any]
    """The values that were set."""
    delay_ms: float
    """95 % delay of the first link, ms."""
    utilization: float
    """Utilization of the first link, 0 to 1."""
    objective: float
    """``utilization - price * delay_ms``, or the column that was named."""


@dataclass(frozen=True)
class Tuning:
    """What came of tuning."""

    price: float
    """Utilization that one ms of delay is worth."""
    base: Trial
    """The scenarios as they are."""
    trials: list[Trial]
    """All trials whose runs could be made, in order."""
    refused: dict[int, str]
    """Trials whose parameters contradict each other or another key, and why."""
    column: str | None = None
    """The column that was made largest, if one was named."""

    @property
    def says(self) -> str:
        """The objective as it is written down."""
        return self.column or f"utilization - {self.price!r} * delay_p95_ms"

    @property
    def best(self) -> Trial:
        """The largest objective; the first of equal ones."""
        return max(self.trials, key=lambda t: t.objective)

    @property
    def front(self) -> list[Trial]:
        """The Pareto front: trials than which none has less delay and more utilization, by delay."""
        front: list[Trial] = []
        for trial in sorted(self.trials, key=lambda t: (t.delay_ms, -t.utilization)):
            if not front or trial.utilization > front[-1].utilization:
                front.append(trial)
        return front


_NUMBER = re.compile(r"([0-9.]+)\s*([A-Za-z/%]*)")


def _suggest(trial: optuna.Trial, key: str, low: Any, high: Any) -> Any:
    """A value between two others of the same kind."""
    if isinstance(low, str) and isinstance(high, str):
        parts = [_NUMBER.fullmatch(text.strip()) for text in (low, high)]
        if not all(parts) or parts[0][2] != parts[1][2]:
            raise ValueError(f"{key}: {low!r} and {high!r} are no two values of one unit")
        value = trial.suggest_float(key, float(parts[0][1]), float(parts[1][1]), log=True)
        return f"{value:.6g}{parts[0][2]}"
    # `policy.margin=0..4` means all that lies between, and not five values: that key has fractions.
    has_fractions = any(isinstance(end, float) for end in SEARCH.get(key, ()))
    if isinstance(low, int) and isinstance(high, int) and not has_fractions:
        return trial.suggest_int(key, low, high)
    return trial.suggest_float(key, low, high)


def _of_first_link(row: str, name: str) -> float:
    """A quantity of the first link in the row of a run."""
    for column, value in json.loads(row)["measured"]:
        if column == name or column.endswith(f".{name}"):
            return math.nan if value is None else float(value)
    return math.nan


def _objective(row: str, name: str) -> float:
    """A column of a run, such as an objective of its scenario."""
    measured = dict(json.loads(row)["measured"])
    if name in measured:
        return math.nan if measured[name] is None else float(measured[name])
    near = difflib.get_close_matches(name, measured, n=1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    own = f'write it into the scenarios, as run.objectives = ["{name} = goodput_bps / delay_p95_ms"]'
    raise ValueError(f"objective: no run has a column {name!r}. Remedy: {hint}name a column of table.csv, or {own}")


def _tell(text: str) -> None:
    """Says how far the search is. Whoever reads may have gone, as in ``weir tune a.toml | head -1``, or the
    disk of a log may be full: the search goes on, as its trials are written at its end only."""
    try:
        print(text, flush=True)
    except OSError:
        pass


def tune(
    scenarios: Sequence[Scenario],
    *,
    objective: str | None = None,
    search: Mapping[str, tuple[Any, Any]] | None = None,
    trials: int = 60,
    seeds: int = 3,
    price: float = 0.005,
    seed: int = 1,
    batch: int = 8,
    client: Any = None,
    jobs: int | None = None,
    progress: bool = False,
) -> Tuning:
    """Searches the open parameters that make ``utilization - price * (95 % delay in ms)`` largest, on average
    over all scenarios with the seeds 1 to ``seeds``; or ``objective``, the name of a column of all scenarios'
    sweeps, such as one of their ``run.objectives``. Runs without a value of it count as the worst.

    ``search`` has the keys with their smallest and largest values (:data:`SEARCH` if not given); any key of a
    scenario will do. ``batch`` trials are made at a time, on threads, or where ``client`` says as in
    :func:`weir.sweep`; ``seed`` is that of Optuna's TPE sampler, which learns after each batch. Raises
    :class:`weir.ScenarioError` for a scenario that is refused, and RuntimeError if a run fails.
    """
    if not scenarios or trials < 1 or seeds < 1 or batch < 1:
        raise ValueError("give at least one scenario, one trial, one seed, and batches of one")
    space = dict(SEARCH if search is None else search)
    jobs = jobs or _sweep.processors()
    for scenario in scenarios:
        _read(scenario, None)

    def tasks_of(parameters: Mapping[str, Any]) -> list[_sweep.Task]:
        tasks = []
        for scenario in scenarios:
            source = _source(scenario, parameters)
            # Of a sweep, all points.
            tasks += _sweep.tasks_of(source, source.read().points(), range(1, seeds + 1))
        return tasks

    def measured(asked: list[tuple[int, dict[str, Any], list[_sweep.Task]]]) -> list[Trial]:
        everything = [task for _, _, tasks in asked for task in tasks]
        rows = iter(_sweep.in_order(client, list(dict.fromkeys(everything)), _sweep.row, jobs))
        known: dict[_sweep.Task, str] = {}
        made = []
        for number, parameters, tasks in asked:
            for task in tasks:
                if task not in known:
                    known[task] = next(rows)
            mean = {
                name: math.fsum(_of_first_link(known[task], name) for task in tasks) / len(tasks)
                for name in ("delay_p95_ms", "utilization")
            }
            delay, utilization = mean["delay_p95_ms"], mean["utilization"]
            value = utilization - price * delay
            if objective is not None:
                value = math.fsum(_objective(known[task], objective) for task in tasks) / len(tasks)
                value = value if math.isfinite(value) else -math.inf
            made.append(Trial(number, parameters, delay, utilization, value))
        return made

    base = measured([(-1, {}, tasks_of({}))])[0]
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    sampler = optuna.samplers.TPESampler(seed=seed, constant_liar=True, n_startup_trials=min(10, max(1, trials // 3)))
    study = optuna.create_study(direction="maximize", sampler=sampler)
    done: list[Trial] = []
    refused: dict[int, str] = {}
    while (left := trials - len(done) - len(refused)) > 0:
        asked, running = [], {}
        for _ in range(min(batch, left)):
            trial = study.ask()
            parameters = {key: _suggest(trial, key, *ends) for key, ends in space.items()}
            try:
                asked.append((trial.number, parameters, tasks_of(parameters)))
                running[trial.number] = trial
            except _weir.ScenarioError as error:
                refused[trial.number] = str(error)
                study.tell(trial, state=optuna.trial.TrialState.FAIL)
                if len(refused) == trials:
                    raise
        for made in measured(asked):
            if math.isfinite(made.objective):
                study.tell(running[made.number], made.objective)
            else:
                study.tell(running[made.number], state=optuna.trial.TrialState.FAIL)
            done.append(made)
        if progress:
            best = max(done, key=lambda t: t.objective, default=base)
            _tell(f"weir: {len(done) + len(refused)} of {trials} trials, best {best.objective:.4f}")
    if done and not any(math.isfinite(trial.objective) for trial in done):
        raise ValueError(f"objective: no trial has a value of {objective!r}. Remedy: a longer run.duration, or another column")
    return Tuning(price, base, done, refused, objective)


def draw(tuning: Tuning, path: str | os.PathLike[str]) -> None:
    """Draws utilization over delay: all trials, the Pareto front, the best by the objective, and the
    scenarios as they are."""
    import matplotlib

    # The same trials give the same bytes.
    with matplotlib.rc_context({"svg.hashsalt": "weir", "svg.fonttype": "none"}):
        from matplotlib.figure import Figure

        figure = Figure(figsize=(7, 4.5), layout="constrained")
        axes = figure.subplots()
        points = lambda of: ([t.delay_ms for t in of], [100 * t.utilization for t in of])  # noqa: E731
        axes.plot(*points(tuning.trials), ".", color="0.7", label="trials")
        axes.plot(*points(tuning.front), "o-", color="tab:blue", label="Pareto front")
        axes.plot(*points([tuning.best]), "*", color="tab:green", markersize=14, label="best by the objective")
        axes.plot(*points([tuning.base]), "s", color="tab:red", label="as it was")
        axes.set_xlabel("95 % delay, ms")
        axes.set_ylabel("utilization, %")
        axes.set_title(tuning.column or f"utilization - {tuning.price:g} x 95 % delay in ms")
        axes.grid(alpha=0.3)
        axes.legend()
        figure.savefig(path, metadata={"Date": None} if str(path).endswith(".svg") else None)


def _told(trial: Trial) -> dict[str, object]:
    """A trial as JSON has it, which knows no infinity."""
    told = asdict(trial)
    return {key: None if isinstance(value, float) and not math.isfinite(value) else value for key, value in told.items()}


def _prepare(out: str | os.PathLike[str]) -> pathlib.Path:
    """Makes the folder of :func:`write`, and tries whether a file can be written there; OSError if not."""
    folder = pathlib.Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=folder, prefix=".weir-") as file:
        file.write(b"\n")
        file.flush()
    return folder


def write(tuning: Tuning, out: str | os.PathLike[str]) -> None:
    """Writes ``tuning.json`` with all trials, ``best.toml``, lines that go into a scenario or a
    configuration, and ``front.svg``."""
    folder = _prepare(out)
    content = {
        "objective": tuning.says,
        "base": _told(tuning.base),
        "best": _told(tuning.best),
        "front": [trial.number for trial in tuning.front],
        "trials": [_told(trial) for trial in tuning.trials],
        "refused": tuning.refused,
    }
    # The trials first: they took the time, and the others can be made of them again.
    _sweep._write(folder / "tuning.json", json.dumps(content, indent=2).encode())
    best = "".join(f"{key} = {_toml(value, key)}\n" for key, value in tuning.best.parameters.items())
    _sweep._write(folder / "best.toml", best.encode())
    draw(tuning, folder / "front.svg")
