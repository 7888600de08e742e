"""Weir's simulator and algorithms.

>>> import weir
>>> scenario = {
...     "title": "two flows",
...     "link": {"rate": "10Mbit/s", "buffer": "100ms"},
...     "path": {"rtt": "20ms"},
...     "aqm": {"name": "codel"},
...     "flows": [{"count": 2}],
...     "run": {"duration": "3s", "warmup": "1s"},
... }
>>> result = weir.run(scenario, seed=1)
>>> result.summary["links"][0]["utilization"] > 0.9
True
>>> result.link().column_names[:3]
['t_s', 'arrived_bps', 'delivered_bps']

Units are in the names: ``_s`` seconds, ``_ms`` and ``_ns`` milli- and nanoseconds, ``_bps`` bit/s, ``_bytes``
bytes. The same scenario and seed give the same numbers on every machine, as ``weir sim`` does.
"""

from __future__ import annotations

import json
import os
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Union, overload

import pyarrow

from . import _sweep, _weir
from ._sweep import Failure, Sweep
from ._weir import ScenarioError, __version__

__all__ = [
    "Algorithm", "Failure", "Result", "ScenarioError", "Sweep", "__version__", "algorithms", "check", "disciplines", "parameters",
    "run", "sweep",
]

Scenario = Union[str, os.PathLike, Mapping[str, Any]]
"""A scenario: the path of a TOML file, TOML as text (with a line end in it), or a mapping with the same
keys."""


@dataclass(frozen=True)
class Result:
    """What came of one run."""

    summary: dict[str, Any]
    """The summary, with the keys of ``summary.json`` of ``weir sim --out``."""
    links: dict[str, pyarrow.Table]
    """For each link by name a table with a row for each sampling period: time ``t_s``, rates, delays,
    backlog, set point
    (null where there is none), and packets dropped, overflowed and marked in the period."""
    flows: pyarrow.Table
    """A row for each flow and sampling period: window, threshold and round trip as ``tcp_info`` tells
    them."""
    events: pyarrow.Table
    """A row for each move of a set point: when, on which link, by which rule, from where to where, in which
    unit."""
    seed: int
    """The seed of the run."""
    settings: dict[str, str] = field(default_factory=dict)
    """In a sweep: the keys that this point sets, and their values."""
    trace_hash: int = 0
    """Fingerprint of every decision about every packet: equal for equal scenario and seed, everywhere."""

    def plot(self, path: str | os.PathLike[str] | None = None, *, link: str | None = None, policy: Mapping[str, Any] | None = None) -> Any:
        """Draws a link over time with matplotlib; see :func:`weir.plots.draw`."""
        from . import plots

        return plots.draw(self, path, link=link, policy=policy)

    def link(self, name: str | None = None) -> pyarrow.Table:
        """The table of a link; without a name that of the first."""
        return self.links[name] if name is not None else next(iter(self.links.values()))


def _toml(value: Any, key: str) -> str:
    """A value as TOML in one line."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        # What JSON escapes TOML escapes alike.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    # Kinds of numbers that are derived from these, such as numpy's, may write themselves in another way.
    if isinstance(value, int):
        return int.__repr__(value)
    if isinstance(value, float):
        return float.__repr__(value)
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_toml(str(k), key)} = {_toml(v, f'{key}.{k}')}" for k, v in value.items()) + " }"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_toml(v, f"{key}.{n}") for n, v in enumerate(value)) + "]"
    raise TypeError(f"key `{key}`: a {type(value).__name__} has no place in a scenario; give a text, a number, a list or a mapping")


def _toml_file(mapping: Mapping[str, Any]) -> str:
    return "".join(f"{_toml(str(key), str(key))} = {_toml(value, str(key))}\n" for key, value in mapping.items())


def _read(scenario: Scenario, set: Mapping[str, Any] | None) -> _weir.Scenario:
    if isinstance(scenario, Mapping) or (isinstance(scenario, str) and "\n" in scenario):
        return _source(scenario, set).read()
    return _weir.Scenario.load(os.fspath(scenario), list(_over(set)))


def _over(set: Mapping[str, Any] | None) -> tuple[tuple[str, str], ...]:
    return tuple((key, _toml(value, key)) for key, value in (set or {}).items())


def _source(scenario: Scenario, set: Mapping[str, Any] | None) -> _sweep.Source:
    """A scenario as a text, for others to read."""
    if isinstance(scenario, Mapping):
        return _sweep.Source("scenario", _toml_file(scenario), _over(set), False)
    if isinstance(scenario, str) and "\n" in scenario:
        return _sweep.Source("scenario", scenario, _over(set), True)
    path = os.path.abspath(scenario)
    with open(path, encoding="utf-8") as file:
        return _sweep.Source(path, file.read(), _over(set), True)


def check(scenario: Scenario, *, set: Mapping[str, Any] | None = None) -> list[str]:
    """Checks a scenario without running it; returns warnings, as ``weir check`` prints them.

    Raises :class:`ScenarioError` for what is refused, with all problems at once.

    >>> import weir
    >>> try:
    ...     weir.check({"link": {"rate": "10Mbit/s", "bufer": "100ms"}})
    ... except weir.ScenarioError as error:
    ...     print([p["remedy"] for p in error.problems if p["key"] == "link.bufer"])
    ['did you mean `buffer`?']
   
    """
    return _read(scenario, set).warnings


def _run(scenario: _weir.Scenario, seed: int) -> Result:
    summary, links, flows, events, trace_hash = scenario.run(seed)
    return Result(
        summary=json.loads(summary),
        links={name: pyarrow.table(table) for name, table in links},
        flows=pyarrow.table(flows),
        events=pyarrow.table(events),
        seed=seed,
        settings=dict(scenario.settings),
        trace_hash=trace_hash,
    )


def run(scenario: Scenario, seed: int = 1, *, set: Mapping[str, Any] | None = None) -> Result:
    """Simulates a scenario once.

    ``set`` changes keys over the scenario, as ``--set`` of the program does: ``{"run.duration": "5s",
    "flows.0.count": 9}``. A sweep in the scenario is passed over: see :func:`sweep`. The interpreter is
    released meanwhile, so that threads run side by side; Ctrl-C ends a run. Raises :class:`ScenarioError` for
    a scenario that is refused.
    """
    return _run(_read(scenario, set), seed)


@overload
def sweep(
    scenario: Scenario,
    *,
    seeds: int | Iterable[int] | None = None,
    jobs: int | None = None,
    set: Mapping[str, Any] | None = None,
    client: Any = None,
    out: None = None,
) -> Iterator[Result]: ...
@overload
def sweep(
    scenario: Scenario,
    *,
    seeds: int | Iterable[int] | None = None,
    jobs: int | None = None,
    set: Mapping[str, Any] | None = None,
    client: Any = None,
    out: str | os.PathLike[str],
    progress: bool | _sweep.Progress = False,
) -> Sweep: ...
def sweep(
    scenario: Scenario,
    *,
    seeds: int | Iterable[int] | None = None,
    jobs: int | None = None,
    set: Mapping[str, Any] | None = None,
    client: Any = None,
    out: str | os.PathLike[str] | None = None,
    progress: bool | _sweep.Progress = False,
) -> Iterator[Result] | Sweep:
    """Runs every point of a scenario's sweep with every seed; an iterator of results, or with ``out`` a
    folder of tables.

    ``seeds`` is a number of runs of each point, with the seeds from 1 on, or the seeds themselves; without it
    ``run.seeds`` of the scenario says how many. A scenario that is refused raises here, before the first run.

    Runs are made on threads of this process, as many as ``jobs`` (processors, if not given), or where
    ``client`` says: on the workers of a ``distributed.Client`` (Dask), of Ray (``client=ray``, the module),
    or on an executor of ``concurrent.futures``. Each is a pure task, which a cluster makes again where a
    worker died.

    Without ``out``, results come in the order of points and seeds, each as soon as it and those before it are
    there; on threads no more than twice as many as ``jobs`` are kept. ``settings`` of a result has the point.
    A run that fails raises.

    With ``out`` everything is run now, into that folder: ``table.parquet``, ``table.csv``, ``summary.csv``
    and ``chart.svg`` are, byte for byte, those that ``weir sweep`` writes, whoever made the runs and in which
    order. Each run is kept as soon as it is there; started again, the sweep makes those that are missing. A
    run that fails is told in ``failures``, and the others are made all the same. ``progress`` prints how far
    it is, or is called with how many runs are there, of how many, and how many failed.
    """
    checked = _read(scenario, set)
    points = checked.points()
    if seeds is None:
        # Points may have numbers of seeds of their own; as in the program, all get as many as the largest.
        seeds = max(point.seeds for point in points)
    numbers = list(range(1, seeds + 1)) if isinstance(seeds, int) else list(seeds)
    jobs = jobs if jobs is not None else _sweep.processors()
    if jobs < 1:
        raise ValueError(f"jobs = {jobs} makes no runs: give 1 or more")
    if out is not None:
        return _sweep.into_folder(_source(scenario, set), numbers, out, client, jobs, progress)
    if client is not None:
        return _sweep.in_order(client, _sweep.tasks_of(_source(scenario, set), points, numbers), _result, jobs)
    return _in_order(((point, seed) for point in points for seed in numbers), jobs)


def _result(task: _sweep.Task) -> Result:
    """One run of a sweep, on a worker."""
    return _run(_sweep.point_of(task), task.seed)


def _in_order(runs: Iterable[tuple[_weir.Scenario, int]], jobs: int) -> Iterator[Result]:
    pool = ThreadPoolExecutor(jobs, thread_name_prefix="weir")
    waiting: deque[Future[Result]] = deque()
    try:
        for point, seed in runs:
            waiting.append(pool.submit(_run, point, seed))
            if len(waiting) >= 2 * jobs:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        # Whoever takes no more results waits for the runs that have begun, and no others.
        pool.shutdown(wait=True, cancel_futures=True)


def algorithms() -> list[str]:
    """The names of the algorithms.

    >>> import weir
    >>> "codel" in weir.algorithms()
    True
   
    """
    return _weir.algorithms()


def disciplines() -> list[str]:
    """The names of the queue disciplines."""
    return _weir.disciplines()


def parameters(algorithm: str) -> list[dict[str, str]]:
    """The parameters of an algorithm, each with ``name``, ``doc``, ``default``, ``min`` and ``max``.

    >>> import weir
    >>> weir.parameters("codel")[0]["name"]
    'target'
   
    """
    return [dict(zip(("name", "doc", "default", "min", "max"), row)) for row in _weir.parameters(algorithm)]


_STEP = (
    "call", "now_ns", "arrived_ns", "seq", "len", "flow", "ecn", "backlog", "packets", "delay_ns", "rate_bps", "dice", "rtt_ns",
)
"""The keys of a step."""


def _step(given: Mapping[str, Any]) -> dict[str, Any]:
    """A step whose keys are known; ``verdict``, which golden steps have beside them, is passed over."""
    step = dict(given)
    step.pop("verdict", None)
    for key in step:
        if key not in _STEP:
            raise TypeError(f"a step has no key {key!r}; its keys are {', '.join(_STEP)}")
    return step


class Algorithm:
    """An algorithm alone, step by step; who asks keeps the packets.

    Parameters are those of the ``aqm`` table: ``Algorithm("codel", target="5ms")``. A step is a mapping with
    ``call`` and ``now_ns``, and what the call needs, as golden steps have it (data/vectors/README.md):
    ``enqueue``, ``dequeue``, ``overflow``, ``empty``, ``wakeup`` or ``sample``. ``dice`` are 64 random bits
    as a number.

    >>> import weir
    >>> codel = weir.Algorithm("codel", target="5ms")
    >>> codel.step(call="enqueue", now_ns=0, len=1500, rate_bps=10_000_000)
    'forward'
    >>> codel.setpoint_ns
    5000000
   
    """

    def __init__(self, name: str, *, start_ns: int = 0, **parameters: Any) -> None:
        self._inner = _weir.Algorithm.parse(_toml_file({"name": name, **parameters}), start_ns)
        self.name = name

    def step(self, **step: Any) -> str | None:
        """Asks one question: ``forward``, ``mark: CAUSE``, ``drop: CAUSE``, or None where there is nothing to
        say."""
        return self._inner.steps([_step(step)])[0]

    def steps(self, steps: Iterable[Mapping[str, Any]]) -> list[str | None]:
        """Asks questions in order. One that is refused raises; those before it were asked. An unknown key
        raises before the first is asked."""
        return self._inner.steps([_step(step) for step in steps])

    @property
    def setpoint_ns(self) -> int | None:
        """The set point in force in nanoseconds, None where there is none. Set, it is kept within its
        range."""
        return self._inner.setpoint_ns

    @setpoint_ns.setter
    def setpoint_ns(self, to: int) -> None:
        self._inner.setpoint_ns = to

    @property
    def next_wakeup_ns(self) -> int | None:
        """When the algorithm wants the call ``wakeup`` next."""
        return self._inner.next_wakeup_ns

    def gauges(self) -> dict[str, float]:
        """Inner variables by name, in the unit that the name ends with."""
        return self._inner.gauges()
