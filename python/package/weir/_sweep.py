"""Sweeps into a folder: points as pure tasks, on threads, in processes or on a cluster."""

from __future__ import annotations

import concurrent.futures
import functools
import hashlib
import json
import os
import pathlib
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow

from . import _weir

Progress = Callable[[int, int, int], None]
"""Is told how many runs there are by now, of how many, and how many failed."""


@dataclass(frozen=True)
class Source:
    """A scenario as it is sent to who makes its runs."""

    name: str
    """Its name in messages; traces that it names lie where relative paths from it lead."""
    text: str
    """Its TOML."""
    over: tuple[tuple[str, str], ...]
    """Keys and values over it."""
    has_lines: bool
    """Whether lines of the text are those of the user."""

    def read(self) -> _weir.Scenario:
        return _weir.Scenario.parse(self.name, self.text, list(self.over), self.has_lines)


@dataclass(frozen=True)
class Task:
    """One run. Equal tasks give equal results, wherever they are made."""

    source: Source
    point: int
    seed: int
    fingerprint: str
    build: str

    def key(self, work: Callable[[Task], Any]) -> str:
        """A name for it on a cluster: equal names are made once."""
        return f"weir-{work.__name__}-{self.fingerprint}-{self.build}-{self.point}-{self.seed}"


@dataclass(frozen=True)
class Failure:
    """A run that could not be made."""

    point: int
    """Number of the point, from 1."""
    seed: int
    """Seed of the run."""
    settings: dict[str, str]
    """The keys that the point sets, and their values."""
    error: str
    """Why."""


@dataclass(frozen=True)
class Sweep:
    """What came of a sweep into a folder."""

    folder: pathlib.Path
    """Where ``table.parquet``, ``table.csv``, ``summary.csv`` and, where a figure can show them,
    ``chart.svg`` are."""
    table: pyarrow.Table
    """``table.parquet``: a row for each run that was made, in the order of points and seeds."""
    failures: list[Failure]
    """Runs that could not be made. The folder has them as ``failures.json``, and a file ``INCOMPLETE``."""
    found: int
    """Runs that were there from before."""
    made: int
    """Runs that were made now."""


@functools.lru_cache(maxsize=1)
def build() -> str:
    """What tells results of this build from those of another: a hash of what is written in Rust."""
    return hashlib.sha256(pathlib.Path(_weir.__file__).read_bytes()).hexdigest()[:32]


@functools.lru_cache(maxsize=4)
def _points(source: Source) -> list[_weir.Scenario]:
    return source.read().points()


def point_of(task: Task) -> _weir.Scenario:
    """The scenario of a task, on who makes it."""
    if build() != task.build:
        raise RuntimeError("this worker has another build of weir, whose results may differ; install the same one everywhere")
    point = _points(task.source)[task.point - 1]
    if point.fingerprint != task.fingerprint:
        raise RuntimeError("on this worker the scenario is another one: a trace file that it names differs")
    return point


def row(task: Task) -> str:
    """Makes one run: what it measured, as JSON. This is what workers do."""
    return point_of(task).row(task.point, task.seed)


Work = Callable[[Task], Any]
Finished = Iterator[tuple[Task, Any, "BaseException | None"]]
"""Tasks in the order in which they end, each with what came of it, or with what went wrong."""


def _on_executor(pool: concurrent.futures.Executor, tasks: Sequence[Task], work: Work, most: int) -> Finished:
    """On threads or processes of this machine, with a few tasks waiting for each."""
    left = iter(tasks)
    running: dict[concurrent.futures.Future[Any], Task] = {}
    try:
        while True:
            for task in left:
                running[pool.submit(work, task)] = task
                if len(running) >= most:
                    break
            if not running:
                return
            done, _ = concurrent.futures.wait(running, return_when=concurrent.futures.FIRST_COMPLETED)
            for future in done:
                task, error = running.pop(future), future.exception()
                yield (task, None, error) if error else (task, future.result(), None)
    finally:
        for future in running:
            future.cancel()


def _on_dask(client: Any, tasks: Sequence[Task], work: Work) -> Finished:
    """On the workers of a Dask client. What a worker had that died is made again on another."""
    from distributed import as_completed

    futures = {client.submit(work, task, key=task.key(work), pure=True): task for task in tasks}
    try:
        for batch in as_completed(list(futures), with_results=True, raise_errors=False).batches():
            for future, result in batch:
                task = futures.pop(future)
                # Not by the status, which is that of now: what came from a worker that died since is being made
                # again. An error is told as its kind, itself and its traceback; no work makes a tuple.
                error = result[1] if isinstance(result, tuple) else result
                yield (task, None, error) if isinstance(error, BaseException) else (task, result, None)
    finally:
        client.cancel(list(futures))


def _on_ray(ray: Any, tasks: Sequence[Task], work: Work) -> Finished:
    """On the workers of Ray. What a worker had that died is made again on another."""
    remote = ray.remote(work)
    running = {remote.remote(task): task for task in tasks}
    try:
        while running:
            done, _ = ray.wait(list(running), num_returns=1)
            for reference in done:
                task = running.pop(reference)
                try:
                    made = ray.get(reference)
                except ray.exceptions.RayError as error:
                    yield task, None, getattr(error, "cause", None) or error
                else:
                    yield task, made, None
    finally:
        for reference in running:
            ray.cancel(reference)


def make(client: Any, tasks: Sequence[Task], work: Work, jobs: int) -> Finished:
    """Makes runs where ``client`` says."""
    if client is None:
        pool = concurrent.futures.ThreadPoolExecutor(jobs, thread_name_prefix="weir")
        try:
            yield from _on_executor(pool, tasks, work, 2 * jobs)
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
    elif isinstance(client, concurrent.futures.Executor):
        yield from _on_executor(client, tasks, work, 4 * max(jobs, getattr(client, "_max_workers", 1)))
    elif type(client).__module__.split(".")[0] == "distributed":
        yield from _on_dask(client, tasks, work)
    elif getattr(client, "__name__", "") == "ray":
        yield from _on_ray(client, tasks, work)
    else:
        raise TypeError(
            f"a {type(client).__name__} makes no runs: give a client of Dask distributed, the module ray, an executor of "
            "concurrent.futures, or None for threads of this process"
        )


def _write(path: pathlib.Path, content: bytes) -> None:
    """Whole or not at all, also when the machine stops in the middle."""
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".weir-", delete=False) as file:
        try:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
            os.replace(file.name, path)
        except BaseException:
            os.unlink(file.name)
            raise


class Folder:
    """The folder of a sweep: ``runs`` has a file for each run that was made, so that a sweep goes on where it
    ended."""

    def __init__(self, path: str | os.PathLike[str], canonical: str) -> None:
        self.path = pathlib.Path(path)
        self.runs = self.path / "runs"
        if not self.runs.is_dir():
            there = [name for name in ("sweep.json", "summary.json", "table.parquet") if (self.path / name).exists()]
            if there:
                raise ValueError(f"{self.path} holds {there[0]}, which this sweep did not write; choose another folder with out=")
        self.runs.mkdir(parents=True, exist_ok=True)
        _write(self.path / "sweep.toml", canonical.encode())

    def _file(self, task: Task) -> pathlib.Path:
        return self.runs / f"{task.point:06}-{task.seed}.json"

    def find(self, task: Task) -> str | None:
        """The row of a run from before; none where it is missing, damaged, or of another build."""
        try:
            kept = json.loads(self._file(task).read_bytes())
            whole = hashlib.sha256(kept["row"].encode()).hexdigest() == kept["checksum"]
            mine = kept["fingerprint"] == task.fingerprint
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError, AttributeError):
            return None
        if not whole or kept.get("build") != task.build:
            return None
        if not mine:
            raise ValueError(
                f"{self._file(task)} belongs to another sweep; choose another folder with out=, or remove {self.path}"
            )
        return kept["row"]

    def keep(self, task: Task, row: str) -> None:
        """Keeps the row of a run."""
        checksum = hashlib.sha256(row.encode()).hexdigest()
        kept = {"build": task.build, "fingerprint": task.fingerprint, "checksum": checksum, "row": row}
        _write(self._file(task), json.dumps(kept).encode())

    def publish(self, files: dict[str, bytes], missing: int, failures: list[Failure]) -> None:
        """Writes the tables; where runs are missing a file beside them says so first."""
        told = self.path / "failures.json"
        if missing:
            _write(self.path / "INCOMPLETE", f"What lies here is not whole: {missing} runs are missing.\n".encode())
        if failures:
            _write(told, json.dumps([vars(f) for f in failures], indent=2).encode())
        for name, content in files.items():
            _write(self.path / name, content)
        if "chart.svg" not in files:
            (self.path / "chart.svg").unlink(missing_ok=True)
        if not failures:
            told.unlink(missing_ok=True)
        if not missing:
            (self.path / "INCOMPLETE").unlink(missing_ok=True)


def _line(done: int, all: int, failed: int) -> None:
    """Progress on standard error: one line that is written over."""
    text = f"\rweir: {done} of {all} runs" + (f", {failed} failed" if failed else "")
    end = "\n" if done + failed == all else ""
    print(text, end=end, file=sys.stderr, flush=True)


def processors() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def tasks_of(source: Source, points: Sequence[_weir.Scenario], seeds: Sequence[int]) -> list[Task]:
    """The runs of a sweep, in the order of points and seeds."""
    prints = [point.fingerprint for point in points]
    return [Task(source, n + 1, seed, prints[n], build()) for n in range(len(points)) for seed in seeds]


def in_order(client: Any, tasks: Sequence[Task], work: Work, jobs: int) -> Iterator[Any]:
    """What comes of tasks, in their order; the first that cannot be made raises."""
    early: dict[Task, Any] = {}
    left = iter(tasks)
    next_one = next(left, None)
    for task, made, error in make(client, tasks, work, jobs):
        if error is not None:
            raise error
        early[task] = made
        while next_one in early:
            yield early.pop(next_one)
            next_one = next(left, None)


def into_folder(
    source: Source, seeds: Sequence[int], out: str | os.PathLike[str], client: Any, jobs: int, progress: bool | Progress
) -> Sweep:
    """Makes every run that the folder lacks, and writes its tables."""
    scenario = source.read()
    points = scenario.points()
    tasks = tasks_of(source, points, seeds)
    folder = Folder(out, scenario.to_toml())
    rows = {task: found for task in tasks if (found := folder.find(task)) is not None}
    found = len(rows)
    tell: Progress = progress if callable(progress) else _line if progress else lambda *_: None
    # The longest first, so that no worker ends long before the others.
    order = sorted((t for t in tasks if t not in rows), key=lambda t: -points[t.point - 1].cost)
    failures: list[Failure] = []
    try:
        for task, made, error in make(client, order, row, jobs):
            if error is not None:
                settings = dict(points[task.point - 1].settings)
                failures.append(Failure(task.point, task.seed, settings, f"{type(error).__name__}: {error}"))
            else:
                folder.keep(task, made)
                rows[task] = made
            tell(len(rows), len(tasks), len(failures))
    finally:
        failures.sort(key=lambda f: (f.point, f.seed))
        files = dict(scenario.tables([rows[task] for task in tasks if task in rows]))
        folder.publish(files, len(tasks) - len(rows), failures)
    import pyarrow.parquet

    table = pyarrow.parquet.read_table(pyarrow.BufferReader(files["table.parquet"]))
    return Sweep(folder.path, table, failures, found, len(rows) - found)
