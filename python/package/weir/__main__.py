"""``python -m weir``: what the program leaves to Python."""

from __future__ import annotations

import argparse
import sys
from typing import Any

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


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m weir", description="What the program weir leaves to Python.")
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
    tune.add_argument("--search", type=_search, action="append", metavar="KEY=LOW..HIGH", help="a key to search, instead of the usual ones")
    tune.add_argument("--seed", type=int, default=1, help="seed of the search (1)")
    tune.add_argument("--batch", type=int, default=8, metavar="N", help="trials at a time, after which the search learns (8)")
    tune.add_argument("--jobs", type=int, metavar="N", help="runs at a time on this machine; one for each processor if not given")
    tune.add_argument("--dask", metavar="ADDRESS", help="scheduler of Dask distributed whose workers make the runs")
    tune.add_argument("--out", default="out/tune", metavar="DIR", help="folder for the results (out/tune)")
    tune.add_argument("--json", action="store_true", help="print the result as one JSON object")
    return parser


def _tune(arguments: argparse.Namespace) -> int:
    import json
    import pathlib

    try:
        from weir import tune
    except ImportError as error:
        print(f"weir: {error}. Remedy: pip install optuna matplotlib", file=sys.stderr)
        return 1
    client = None
    if arguments.dask:
        from distributed import Client

        client = Client(arguments.dask)
    tuned = tune.tune(
        arguments.scenarios, objective=arguments.objective, search=dict(arguments.search) if arguments.search else None, trials=arguments.trials, seeds=arguments.seeds,
        price=arguments.price, seed=arguments.seed, batch=arguments.batch, client=client, jobs=arguments.jobs, progress=not arguments.json,
    )
    tune.write(tuned, arguments.out)
    if arguments.json:
        print(json.dumps(json.loads((pathlib.Path(arguments.out) / "tuning.json").read_text())))
        return 0
    print(f"{'':>8}  {'util %':>7}  {'p95 ms':>7}  {'objective':>9}")
    rows = [("as it was", tuned.base), *((f"trial {t.number}", t) for t in tuned.front), ("best", tuned.best)]
    for name, trial in rows:
        print(f"{name:>9} {100 * trial.utilization:7.2f}  {trial.delay_ms:7.2f}  {trial.objective:9.4f}")
    for key, value in tuned.best.parameters.items():
        print(f"{key} = {value if not isinstance(value, float) else format(value, '.4g')}")
    if tuned.refused:
        print(f"{len(tuned.refused)} trials were refused, such as: {next(iter(tuned.refused.values())).splitlines()[0]}")
    print(f"Figure: {arguments.out}/front.svg; lines for a scenario: best.toml; all trials: tuning.json")
    return 0


def main(arguments: list[str] | None = None) -> int:
    """The program; returns its exit status."""
    given = _parser().parse_args(arguments)
    try:
        return _tune(given)
    except (weir.ScenarioError, ValueError) as error:
        print(f"weir: {error}", file=sys.stderr)
        return 2
    except (RuntimeError, OSError) as error:
        print(f"weir: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
