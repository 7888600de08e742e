"""``python -m weir``: what the program leaves to Python."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import pathlib
import sys
from typing import Any, NoReturn, TextIO

import weir

EPILOG = """examples:
  python -m weir tune data/scenarios/demo.toml
  python -m weir tune a.toml b.toml --trials 200 --seeds 5 --price 0.01 --out out/tune
  python -m weir tune a.toml --search policy.margin=0..4 --search policy.memory_rate=1s..20s
  python -m weir tune a.toml --objective power      # of run.objectives = ["power = goodput_bps / delay_p95_ms"]
  python -m weir tune a.toml --dask tcp://scheduler:8786

The objective is utilization - PRICE * (95 % delay in ms), or the column that is named, on average over
scenarios, points and seeds; the largest is the best. The
folder gets front.svg (the Pareto front of delay over utilization), best.toml (lines for a scenario) and
tuning.json (all trials). Exit status: 0 done, 1 failed, 2 wrong arguments or input, 130 interrupted."""


def _value(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text


def _search(text: str) -> tuple[str, tuple[Any, Any]]:
    key, equals, ends = text.partition("=")
    low, dots, high = ends.partition("..")
    if not (key and equals and dots and low and high):
        raise argparse.ArgumentTypeError(f"`{text}` is no range: write it like policy.margin=0..4")
    return key, (_value(low), _value(high))


class _Parser(argparse.ArgumentParser):
    """Raises ValueError for wrong arguments, so that they are told as other wrong input is."""

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        raise ValueError(message)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="python -m weir", description="What the program weir leaves to Python.")
    verbs = parser.add_subparsers(dest="verb", required=True)
    tune = verbs.add_parser(
        "tune", help="search the open parameters of the steering law over scenarios, with Optuna", epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    tune.add_argument("scenarios", nargs="+", metavar="SCENARIO", help="scenario files; of a sweep, every point")
    tune.add_argument("--trials", type=int, default=60, metavar="N", help="parameters to try (60)")
    tune.add_argument("--seeds", type=int, default=3, metavar="N", help="runs of each scenario in a trial, with the seeds 1 to N (3)")
    tune.add_argument("--price", type=float, default=0.005, help="utilization that one ms of 95 %% delay is worth (0.005)")
    tune.add_argument("--objective", metavar="NAME", help="a column of the scenarios instead, such as one of run.objectives or voice_mos_mean")
    tune.add_argument(
        "--search", type=_search, action="append", metavar="KEY=LOW..HIGH",
        help="a key to search, instead of the usual ones; for one that is none of these and takes fractions, "
        "write 0.0..4.0, as 0..4 means integers",
    )
    tune.add_argument("--seed", type=int, default=1, help="seed of the search (1)")
    tune.add_argument("--batch", type=int, default=8, metavar="N", help="trials at a time, after which the search learns (8)")
    tune.add_argument("--jobs", type=int, metavar="N", help="runs at a time on this machine; one for each processor if not given")
    tune.add_argument("--dask", metavar="ADDRESS", help="scheduler of Dask distributed whose workers make the runs")
    tune.add_argument("--out", default="out/tune", metavar="DIR", help="folder for the results (out/tune)")
    tune.add_argument("--json", action="store_true", help="print the result as one JSON object")
    return parser


def _say(text: str, file: TextIO | None = None) -> None:
    """Prints a line. That whoever reads has gone, as in ``weir tune a.toml | head -1``, is no failure."""
    with contextlib.suppress(BrokenPipeError):
        print(text, file=file, flush=True)


def _tune(arguments: argparse.Namespace) -> int:
    # What is needed at the end, and where the results go, is tried first: the search may take hours.
    try:
        from weir import tune

        import matplotlib.figure  # noqa: F401

        if arguments.dask:
            from distributed import Client
    except ImportError as error:
        needed = "optuna matplotlib distributed" if arguments.dask else "optuna matplotlib"
        raise RuntimeError(f"{error}. Remedy: pip install {needed}") from error
    for scenario in arguments.scenarios:
        # Before the folder is made: a scenario that is refused leaves none.
        weir.check(scenario)
    try:
        tune._prepare(arguments.out)
    except OSError as error:
        told = f"the results cannot be written: {error}. Remedy: name another folder with --out"
        raise OSError(told) from error
    client = Client(arguments.dask) if arguments.dask else None
    tuned = tune.tune(
        arguments.scenarios, objective=arguments.objective, search=dict(arguments.search) if arguments.search else None, trials=arguments.trials, seeds=arguments.seeds,
        price=arguments.price, seed=arguments.seed, batch=arguments.batch, client=client, jobs=arguments.jobs, progress=not arguments.json,
    )
    tune.write(tuned, arguments.out)
    if arguments.json:
        _say(json.dumps(json.loads((pathlib.Path(arguments.out) / "tuning.json").read_text())))
        return 0
    _say(f"{'':>8}  {'util %':>7}  {'p95 ms':>7}  {'objective':>9}")
    rows = [("as it was", tuned.base), *((f"trial {t.number}", t) for t in tuned.front), ("best", tuned.best)]
    for name, trial in rows:
        _say(f"{name:>9} {100 * trial.utilization:7.2f}  {trial.delay_ms:7.2f}  {trial.objective:9.4f}")
    for key, value in tuned.best.parameters.items():
        _say(f"{key} = {value if not isinstance(value, float) else format(value, '.4g')}")
    if tuned.refused:
        _say(f"{len(tuned.refused)} trials were refused, such as: {next(iter(tuned.refused.values())).splitlines()[0]}")
    _say(f"Figure: {arguments.out}/front.svg; lines for a scenario: best.toml; all trials: tuning.json")
    return 0


def _failed(error: BaseException, status: int, as_json: bool) -> int:
    """Says what went wrong: to people, and to programs as one object, as the verbs in Rust do."""
    told = "interrupted" if status == 130 else str(error).strip() or type(error).__name__
    # Where neither can be written the exit status remains.
    with contextlib.suppress(OSError):
        _say(f"weir: {told}", sys.stderr)
    if as_json:
        with contextlib.suppress(OSError):
            _say(json.dumps({"error": told}))
    return status


def _settle() -> None:
    """Gives up what nobody takes: the interpreter would try again to write it as it ends, with status 120."""
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def main(arguments: list[str] | None = None) -> int:
    """The program; returns its exit status."""
    asked = sys.argv[1:] if arguments is None else arguments
    # Not from what was parsed: the arguments may be wrong.
    as_json = "--json" in asked
    try:
        return _tune(_parser().parse_args(asked))
    except (weir.ScenarioError, ValueError) as error:
        return _failed(error, 2, as_json)
    except (RuntimeError, OSError) as error:
        return _failed(error, 1, as_json)
    except KeyboardInterrupt as error:
        return _failed(error, 130, as_json)
    except Exception as error:
        # A fault in the program: the traceback says where, and its exit status is 1.
        if as_json:
            _say(json.dumps({"error": f"{type(error).__name__}: {error}"}))
        raise
    finally:
        _settle()


if __name__ == "__main__":
    sys.exit(main())
