"""Sweeps into folders: the bytes of the program, whoever makes the runs and whatever happens to them."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest
import weir
from test_weir import SCENARIO, program_or_skip

TABLES = ["table.parquet", "table.csv", "summary.csv", "chart.svg", "sweep.toml"]
POINTS = {
    **{k: v for k, v in SCENARIO.items() if k != "policy"},
    "run": {"duration": "2s", "warmup": "500ms", "seeds": 3},
    "sweep": {"aqm.target": ["5ms", "10ms", "20ms"], "flows.0.count": [1, 2, 3, 4]},
}
RUNS = 36


def tables(folder):
    return {name: (pathlib.Path(folder) / name).read_bytes() for name in TABLES}


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """The tables as one thread makes them."""
    out = tmp_path_factory.mktemp("alone")
    made = weir.sweep(POINTS, out=out, jobs=1)
    assert (made.found, made.made, made.failures, made.table.num_rows) == (0, RUNS, [], RUNS)
    assert not (out / "INCOMPLETE").exists()
    return tables(out)


def test_the_bytes_are_those_of_the_program(alone, tmp_path):
    program = program_or_skip()
    file = tmp_path / "points.toml"
    file.write_text(weir._toml_file(POINTS))
    subprocess.run([program, "sweep", file, "--out", tmp_path / "out"], check=True, capture_output=True)
    assert tables(tmp_path / "out") == alone


def test_an_axis_may_have_the_name_of_what_is_measured(tmp_path):
    axes = {
        "flows.0.count": {"name": "flows", "values": [1, 3]},
        "schemes": {"queue": {"CoDel": {"aqm": {"name": "codel"}}, "PIE": {"aqm": {"name": "pie"}}}},
    }
    made = weir.sweep({**POINTS, "flows": [{"count": 2}, {"count": 1}], "sweep": axes}, out=tmp_path, seeds=1)
    names = made.table.column_names
    assert len(names) == len(set(names)) and made.table["queue"].to_pylist() == ["CoDel", "PIE"] * 2
    assert made.table["flows"].to_pylist() == [1, 1, 3, 3] and made.table["flows_measured"].to_pylist() == [2, 2, 4, 4]


def test_threads_and_processes_make_the_same_bytes(alone, tmp_path):
    told = []
    weir.sweep(POINTS, out=tmp_path / "threads", jobs=4, progress=lambda *now: told.append(now))
    assert tables(tmp_path / "threads") == alone
    assert told[-1] == (RUNS, RUNS, 0) and len(told) == RUNS
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        weir.sweep(POINTS, out=tmp_path / "processes", client=pool)
        assert tables(tmp_path / "processes") == alone
        # Without a folder there are results, in order.
        results = [(r.settings, r.seed, r.trace_hash) for r in weir.sweep(POINTS, client=pool, seeds=1)]
    assert results == [(r.settings, r.seed, r.trace_hash) for r in weir.sweep(POINTS, seeds=1)]


def test_a_sweep_goes_on_where_it_ended(alone, tmp_path):
    def stop(done, of, failed):
        if done == 7:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        weir.sweep(POINTS, out=tmp_path, jobs=1, progress=stop)
    assert f"{RUNS - 7} runs are missing" in (tmp_path / "INCOMPLETE").read_text()
    # One is damaged, one of another build: both are made again.
    first, second = sorted((tmp_path / "runs").iterdir())[:2]
    first.write_text(first.read_text().replace("trace_hash", "trace_hush"))
    other = json.loads(second.read_text())
    second.write_text(json.dumps({**other, "build": "another"}))
    made = weir.sweep(POINTS, out=tmp_path)
    assert (made.found, made.made) == (5, RUNS - 5)
    assert tables(tmp_path) == alone and not (tmp_path / "INCOMPLETE").exists()
    assert weir.sweep(POINTS, out=tmp_path).made == 0
    # More seeds go on; another sweep does not.
    assert weir.sweep(POINTS, seeds=4, out=tmp_path).found == RUNS
    with pytest.raises(ValueError, match="another sweep"):
        weir.sweep(POINTS, out=tmp_path, set={"path.rtt": "33ms"})


def test_a_folder_of_others_is_left_alone(tmp_path):
    (tmp_path / "summary.json").write_text("{}")
    with pytest.raises(ValueError, match="did not write"):
        weir.sweep(POINTS, out=tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["summary.json"]


def test_a_failing_point_is_told_and_the_others_are_made(tmp_path):
    points = {**POINTS, "sweep": {"flows.0.congestion": ["cubic", "nosuch", "reno"]}}
    made = weir.sweep(points, out=tmp_path, seeds=2)
    assert [(f.point, f.seed, f.settings) for f in made.failures] == [
        (2, seed, {"flows.0.congestion": '"nosuch"'}) for seed in (1, 2)
    ] or [f.settings["flows.0.congestion"].strip('"') for f in made.failures] == ["nosuch"] * 2
    assert "nosuch" in made.failures[0].error and set(made.table["point"].to_pylist()) == {1, 3}
    assert "2 runs are missing" in (tmp_path / "INCOMPLETE").read_text()
    assert len(json.loads((tmp_path / "failures.json").read_text())) == 2
    with pytest.raises(RuntimeError, match="nosuch"):
        list(weir.sweep(points, seeds=1))


def test_workers_with_another_build_or_trace_are_refused():
    source = weir._source(POINTS, None)
    task = weir._sweep.tasks_of(source, source.read().points(), [1])[0]
    for wrong in ({"build": "another"}, {"fingerprint": "0"}):
        with pytest.raises(RuntimeError, match="another"):
            weir._sweep.row(weir._sweep.Task(**{**vars(task), **wrong}))
    with pytest.raises(TypeError, match="makes no runs"):
        list(weir.sweep(POINTS, client=object()))


def test_a_worker_of_dask_that_is_killed_changes_no_byte(alone, tmp_path):
    distributed = pytest.importorskip("distributed", reason="distributed is not installed")
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None, silence_logs=50) as cluster:
        with distributed.Client(cluster) as client:
            client.wait_for_workers(2)
            killed = []

            def kill(done, of, failed):
                assert failed == 0
                if done >= 4 and not killed:
                    # What it has made by now is there and is told only afterwards.
                    time.sleep(1)
                    killed.append(next(iter(client.run(os.getpid).values())))
                    os.kill(killed[0], signal.SIGKILL)
                    time.sleep(1)

            made = weir.sweep(POINTS, out=tmp_path / "killed", client=client, progress=kill)
            assert killed and made.made == RUNS and made.failures == []
            assert tables(tmp_path / "killed") == alone
            # A failing point is told here as well.
            points = {**POINTS, "sweep": {"flows.0.congestion": ["cubic", "nosuch"]}}
            some = weir.sweep(points, out=tmp_path / "some", client=client, seeds=1)
            assert some.made == 1 and "nosuch" in some.failures[0].error


def test_ray_makes_the_same_bytes(alone, tmp_path, monkeypatch):
    # Else it leaves a file in the user's home.
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    ray = pytest.importorskip("ray", reason="ray is not installed")
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        weir.sweep(POINTS, out=tmp_path, client=ray)
        assert tables(tmp_path) == alone
    finally:
        ray.shutdown()
