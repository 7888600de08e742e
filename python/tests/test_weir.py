"""The package as its users see it. `make embed` runs these, with the golden steps of the repository."""

import collections.abc
import doctest
import enum
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import threading
import time

import pyarrow
import pytest
import weir

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCENARIO = {
    "title": "two flows",
    "link": {"rate": "10Mbit/s", "buffer": "100ms"},
    "path": {"rtt": "20ms"},
    "aqm": {"name": "gsp"},
    "policy": {"utilization_low": "99%", "target_max": "30ms"},
    "flows": [{"count": 2}],
    "run": {"duration": "6s", "warmup": "1s"},
}
TEXT = """title = "two flows"
[link]
rate = "10Mbit/s"
buffer = "100ms"
[path]
rtt = "20ms"
[aqm]
name = "gsp"
[policy]
utilization_low = "99%"
target_max = "30ms"
[[flows]]
count = 2
[run]
duration = "6s"
warmup = "1s"
"""


def program_or_skip():
    """The program weir: what WEIR_PROGRAM names, or what is built here."""
    named = os.environ.get("WEIR_PROGRAM")
    places = [named] if named else [ROOT / "target/release/weir", ROOT / "target/debug/weir"]
    program = next((p for p in places if shutil.which(p)), None)
    if program is None:
        pytest.skip("the program weir is not built: make quick, or set WEIR_PROGRAM")
    return program


def test_a_mapping_a_text_and_a_file_are_the_same_scenario(tmp_path):
    file = tmp_path / "two.toml"
    file.write_text(TEXT)
    hashes = {weir.run(form, seed=3).trace_hash for form in (SCENARIO, TEXT, file, str(file))}
    assert len(hashes) == 1
    assert weir.run(SCENARIO, seed=4).trace_hash not in hashes


def test_results_are_tables():
    result = weir.run(SCENARIO, seed=1)
    link = result.link()
    assert isinstance(link, pyarrow.Table) and link.num_rows == 60
    assert link.schema.field("t_s").type == pyarrow.float64() and link["t_s"][0].as_py() == pytest.approx(0.1)
    assert sum(link["marks"].to_pylist()) + sum(link["drops"].to_pylist()) > 0
    assert set(result.flows["flow"].to_pylist()) == {0, 1}
    assert result.summary["links"][0]["utilization"] > 0.9
    # Moves of the set point, with what was measured by name. A long path leaves the link idle, so that there are some.
    events = weir.run(SCENARIO, set={"path.rtt": "80ms"}).events
    assert events.num_rows > 0 and set(events["unit"].to_pylist()) <= {"ms", "Mbit/s"}
    assert dict(events["measured"][0].as_py())["rate_target_bps"] == 10_000_000
    # Without a set point there is nothing, and not a number that means nothing.
    plain = weir.run({**{k: v for k, v in SCENARIO.items() if k != "policy"}, "aqm": {"name": "blue"}})
    assert plain.link()["setpoint_ms"].null_count == 60


def test_columns_are_not_copied():
    inner = weir._read(SCENARIO, {"run.duration": "3s"})
    table = inner.run(1)[1][0][1]
    addresses = {pyarrow.table(table)["t_s"].chunk(0).buffers()[1].address for _ in range(2)}
    assert len(addresses) == 1
    # They outlive what they came from.
    kept = pyarrow.table(table)
    del table, inner
    assert len(kept["t_s"].to_pylist()) == 30


def test_refusals_are_those_of_the_program():
    with pytest.raises(weir.ScenarioError) as of_text:
        weir.run(TEXT.replace("buffer", "bufer").replace('"gsp"', '"gps"'))
    assert isinstance(of_text.value, ValueError)
    assert [p["line"] for p in of_text.value.problems] == [4, 8]
    assert "did you mean \"gsp\"" in str(of_text.value) and "scenario:4: key `link.bufer`" in str(of_text.value)
    with pytest.raises(weir.ScenarioError) as of_mapping:
        weir.run({**SCENARIO, "link": {"rate": "10Mbit/s", "bufer": "100ms"}})
    assert of_mapping.value.problems[0]["line"] is None and of_mapping.value.problems[0]["key"] == "link.bufer"
    with pytest.raises(weir.ScenarioError, match="nosuch.toml"):
        weir.run("nosuch.toml")
    with pytest.raises(weir.ScenarioError, match="range"):
        weir.run(SCENARIO, set={"aqm.target": "9h"})
    with pytest.raises(TypeError, match="link.rate"):
        weir.run({**SCENARIO, "link": {"rate": object()}})


def test_numbers_of_kinds_that_write_themselves_in_another_way_are_numbers():
    class Count(enum.IntEnum):
        TWO = 2

    class Share(float):
        # As those of numpy write themselves.
        def __repr__(self):
            return f"np.float64({float(self)})"

    assert weir._toml([Count.TWO, Share(0.25), 3, 0.5, True], "key") == "[2, 0.25, 3, 0.5, true]"
    weir.check({**SCENARIO, "flows": [{"count": Count.TWO}]})


def test_every_scenario_of_the_repository_is_understood():
    files = sorted((ROOT / "data/scenarios").glob("*_smoke.toml"))
    assert len(files) > 10
    for file in files:
        weir.check(file)


def test_a_sweep_yields_all_points_in_order_whatever_the_number_of_threads():
    points = {**SCENARIO, "run": {"duration": "2s"}, "sweep": {"aqm.target": ["5ms", "20ms"], "flows.0.count": [1, 3]}}
    points.pop("policy")
    runs = [[(r.settings, r.seed, r.trace_hash) for r in weir.sweep(points, seeds=2, jobs=jobs)] for jobs in (1, 4)]
    assert runs[0] == runs[1] and len(runs[0]) == 8
    assert [list(s.values()) for s, seed, _ in runs[0] if seed == 1] == [["5ms", "1"], ["5ms", "3"], ["20ms", "1"], ["20ms", "3"]]
    # One point alone is what it is in the sweep.
    alone = {k: v for k, v in points.items() if k != "sweep"}
    assert weir.run(alone, 2, set={"aqm.target": "20ms", "flows.0.count": 3}).trace_hash == runs[0][-1][2]
    assert [r.seed for r in weir.sweep(alone, seeds=[7, 5])] == [7, 5]
    # Who takes no more results is not kept waiting by those that nobody began.
    first = weir.sweep(points, seeds=100, jobs=1)
    next(first)
    first.close()
    with pytest.raises(ValueError, match="jobs"):
        weir.sweep(points, jobs=0)


def test_runs_release_the_interpreter():
    turns = 0
    thread = threading.Thread(target=weir.run, args=(SCENARIO,), kwargs={"set": {"run.duration": "120s"}})
    thread.start()
    while thread.is_alive():
        turns += 1
        time.sleep(0.001)
    thread.join()
    assert turns > 5


def test_an_interrupt_ends_a_run():
    # Who is started in the background by a shell ignores the signal, and so does what it starts.
    heeds = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    program = f"{heeds}; import weir; print('begun', flush=True); weir.run({SCENARIO!r}, set={{'run.duration': '24h'}})"
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "begun\n"
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    assert "KeyboardInterrupt" in process.communicate(timeout=60)[1]


UNITS = {"Duration": "ns", "Bytes": "B", "Rate": "bit/s"}


@pytest.mark.parametrize("file", sorted((ROOT / "data/vectors").glob("*.jsonl")), ids=lambda f: f.stem)
def test_golden_steps(file):
    head, *calls = map(json.loads, file.read_text().splitlines())
    if head["algorithm"] not in weir.algorithms():
        pytest.skip("an algorithm for tests of the repository")
    declared = {p["name"]: p["default"] for p in weir.parameters(head["algorithm"])}
    given = {}
    for name, value in head["params"].items():
        default = declared[name]
        if isinstance(value, bool):
            given[name] = value
        elif default.endswith("%"):
            given[name] = f"{value * 100!r}%"
        elif default.endswith("bit/s"):
            given[name] = f"{value}bit/s"
        elif default.endswith("B"):
            given[name] = f"{value}B"
        elif default.endswith("s"):
            given[name] = f"{value}ns"
        else:
            given[name] = value
    algorithm = weir.Algorithm(head["algorithm"], start_ns=head["start_ns"], **given)
    steps = [{**call, "dice": int(call.get("dice", "0"), 16)} for call in calls]
    assert algorithm.steps(steps) == [call.get("verdict") for call in calls]


def test_steps_that_cannot_be_are_refused():
    codel = weir.Algorithm("codel")
    codel.step(call="empty", now_ns=10)
    with pytest.raises(ValueError, match="before 10"):
        codel.step(call="empty", now_ns=9)
    with pytest.raises(ValueError, match="the calls are"):
        codel.step(call="enqeue", now_ns=20)
    with pytest.raises(TypeError, match="no key 'length'; its keys are call, now_ns"):
        codel.step(call="enqueue", now_ns=20, length=1500)
    with pytest.raises(TypeError, match="no key 'rate'"):
        codel.steps([{"call": "empty", "now_ns": 20}, {"call": "empty", "now_ns": 21, "rate": 1}])
    # Neither was asked, and what a mapping raises is no default.
    codel.step(call="empty", now_ns=11)

    class Broken(collections.abc.Mapping):
        def __getitem__(self, key):
            if key == "len":
                raise RuntimeError("not to be had")
            return {"call": "enqueue", "now_ns": 30}[key]

        def __iter__(self):
            return iter(("call", "now_ns", "len"))

        def __len__(self):
            return 3

    with pytest.raises(RuntimeError, match="not to be had"):
        codel.steps([Broken()])
    with pytest.raises(weir.ScenarioError, match="targt"):
        weir.Algorithm("codel", targt="5ms")
    codel.setpoint_ns = 7_000_000
    assert codel.setpoint_ns == 7_000_000 and codel.next_wakeup_ns is None and codel.gauges()
    with pytest.raises(ValueError, match="no set point"):
        weir.Algorithm("blue").setpoint_ns = 1
    assert weir.Algorithm("blue").setpoint_ns is None


def test_examples_of_the_docstrings():
    assert doctest.testmod(weir) == (0, doctest.testmod(weir).attempted) and doctest.testmod(weir).attempted > 8


def test_the_tutorial_says_what_it_shows():
    said = subprocess.run([sys.executable, ROOT / "python/tutorial.py"], capture_output=True, text=True, check=True).stdout
    for wanted in ("tail drop", "gsp, steered", "raise", "codel x 8", 'did you mean "codel"', "CoDel alone"):
        assert wanted in said, said


def test_stubs_name_what_is_there():
    stub = (ROOT / "python/package/weir/_weir.pyi").read_text()
    for name in dir(weir._weir):
        assert name.startswith("__") or name in stub, name
