"""Tuning: a stated objective, the same trials again, and a front on which nothing is beaten."""

import doctest
import importlib.util
import json
import os
import re
import subprocess
import sys

import pytest
import weir
from test_weir import program_or_skip

pytest.importorskip("optuna", reason="optuna is not installed")
import weir.tune  # noqa: E402
from weir.__main__ import main  # noqa: E402

FEW = {"trials": 6, "batch": 3, "seeds": 2}


def test_the_same_arguments_give_the_same_trials_however_many_runs_at_a_time():
    one = weir.tune.tune([weir.tune.EXAMPLE], jobs=1, **FEW)
    two = weir.tune.tune([weir.tune.EXAMPLE], jobs=2, **FEW)
    assert one == two and [t.number for t in one.trials] == list(range(6))
    assert one.trials != weir.tune.tune([weir.tune.EXAMPLE], seed=2, **FEW).trials
    # The objective is what it says it is, over all seeds.
    runs = [weir.run(weir.tune.EXAMPLE, seed, set=one.best.parameters).summary["links"][0] for seed in (1, 2)]
    delay, used = (sum(of) / 2 for of in zip(*((r["delay_ms"]["p95"], r["utilization"]) for r in runs)))
    assert one.best.delay_ms == pytest.approx(delay) and one.best.utilization == pytest.approx(used)
    assert one.best.objective == pytest.approx(used - 0.005 * delay) == max(t.objective for t in one.trials)
    for trial in one.front:
        assert not any(t.delay_ms < trial.delay_ms and t.utilization > trial.utilization for t in one.trials)


def test_it_finds_what_is_better():
    # A search along one key whose answer is known: with delay for nothing, a set point that may be high is best.
    space = {"policy.target_max": ("1ms", "60ms")}
    free = weir.tune.tune([weir.tune.EXAMPLE], search=space, price=0.0, trials=8, batch=4, seeds=1)
    dear = weir.tune.tune([weir.tune.EXAMPLE], search=space, price=1.0, trials=8, batch=4, seeds=1)
    assert free.best.utilization > dear.best.utilization and free.best.delay_ms > dear.best.delay_ms


def test_a_scenario_says_what_is_best(tmp_path):
    run = {**weir.tune.EXAMPLE["run"], "objectives": ["power = goodput_bps / delay_p95_ms / 1e6", "slow = delay_p95_ms"]}
    scenario = {**weir.tune.EXAMPLE, "run": run}
    space = {"policy.target_max": ("1ms", "60ms")}
    asked = {"search": space, "trials": 6, "batch": 3, "seeds": 1}
    slow = weir.tune.tune([scenario], objective="slow", **asked)
    assert slow.says == "slow" and all(t.objective == pytest.approx(t.delay_ms) for t in [slow.base, *slow.trials])
    power = weir.tune.tune([scenario], objective="power", **asked)
    assert power.best.delay_ms < slow.best.delay_ms
    link = weir.run(scenario, 1, set=power.best.parameters).summary["links"][0]
    # Goodput of two flows is the link's but for headers and what was lost.
    assert power.best.objective == pytest.approx(10 * link["utilization"] / link["delay_ms"]["p95"], rel=0.06)
    # Any column will do; one that nobody has is told with the one that was meant.
    assert weir.tune.tune([scenario], objective="utilization", **asked).best.objective <= 1.0
    with pytest.raises(ValueError, match="did you mean 'power'.*run.objectives"):
        weir.tune.tune([scenario], objective="powr", **asked)
    file = tmp_path / "example.toml"
    file.write_text(weir._toml_file(scenario))
    arguments = ["tune", str(file), "--trials", "2", "--seeds", "1", "--objective"]
    if importlib.util.find_spec("matplotlib"):
        assert main([*arguments, "power", "--out", str(tmp_path / "out")]) == 0
        assert json.loads((tmp_path / "out/tuning.json").read_text())["objective"] == "power"
        assert main([*arguments, "powr", "--out", str(tmp_path / "out")]) == 2


def test_what_contradicts_itself_is_told_and_passed_over():
    space = {"policy.target_max": ("1ms", "30ms"), "policy.target_min": ("1ms", "30ms")}
    tuned = weir.tune.tune([weir.tune.EXAMPLE], search=space, trials=8, batch=8, seeds=1)
    assert len(tuned.trials) + len(tuned.refused) == 8 and tuned.trials
    with pytest.raises(weir.ScenarioError, match="nosuch"):
        weir.tune.tune([weir.tune.EXAMPLE], search={"policy.nosuch": (1, 2)}, trials=2)
    with pytest.raises(ValueError, match="one unit"):
        weir.tune.tune([weir.tune.EXAMPLE], search={"policy.target_max": ("1ms", "2s")}, trials=1)


def test_the_command_writes_a_front_and_lines_for_a_scenario(tmp_path, capsys):
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    file = tmp_path / "example.toml"
    file.write_text(weir._toml_file(weir.tune.EXAMPLE))
    arguments = ["tune", str(file), "--trials", "3", "--seeds", "1", "--search", "policy.margin=0..4", "--out"]
    assert main([*arguments, str(tmp_path / "a")]) == 0
    assert "Pareto" not in capsys.readouterr().err
    assert main([*arguments, str(tmp_path / "b"), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert len(told["trials"]) == 3 and told["objective"] == "utilization - 0.005 * delay_p95_ms"
    for name in ("front.svg", "best.toml", "tuning.json"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    lines = (tmp_path / "a/best.toml").read_text()
    weir.check(lines + weir._toml_file({k: v for k, v in weir.tune.EXAMPLE.items() if k != "policy"}))
    assert main(["tune", str(tmp_path / "nosuch.toml")]) == 2
    assert "nosuch.toml" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["tune", "--help"])
    assert "Pareto front" in capsys.readouterr().out


def test_the_program_hands_over_and_the_front_is_drawn(tmp_path):
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    program = program_or_skip()
    file = tmp_path / "example.toml"
    file.write_text(weir._toml_file(weir.tune.EXAMPLE))

    def tune(*arguments):
        command = [program, "tune", *arguments]
        return subprocess.run(command, env={**os.environ, "WEIR_PYTHON": sys.executable}, capture_output=True, text=True)

    made = tune(str(file), "--trials", "4", "--seeds", "1", "--out", str(tmp_path / "out"))
    assert made.returncode == 0 and "as it was" in made.stdout and "best.toml" in made.stdout, made.stderr
    trials = json.loads((tmp_path / "out/tuning.json").read_text())
    figure = (tmp_path / "out/front.svg").read_text()
    # The front is drawn, with words that say what it is; which trials it has the file says.
    assert {"Pareto front", "95 % delay, ms", "utilization, %", "as it was"} <= set(re.findall(r">([^<>]+)</text>", figure))
    front = weir.tune.Tuning(0.005, *of_file(trials)).front
    assert [t.number for t in front] == trials["front"] and len(trials["trials"]) == 4
    # Errors and their exit status are those of the package.
    refused = tune(str(tmp_path / "nosuch.toml"))
    assert refused.returncode == 2 and "nosuch.toml" in refused.stderr and not refused.stdout
    refused = tune("--json", str(tmp_path / "nosuch.toml"))
    assert refused.returncode == 2 and "nosuch.toml" in json.loads(refused.stdout)["error"]
    assert json.loads(tune("--json", str(file), "--trials", "1", "--seeds", "1", "--out", str(tmp_path / "b")).stdout)["trials"]


def test_integers_as_ends_do_not_make_a_key_with_fractions_whole():
    # As `--search policy.margin=0..4` has it.
    space = {"policy.margin": (0, 4), "policy.samples_min": (1, 20)}
    tuned = weir.tune.tune([weir.tune.EXAMPLE], search=space, trials=4, batch=4, seeds=1)
    margins = [trial.parameters["policy.margin"] for trial in tuned.trials]
    assert len(margins) == 4 and all(isinstance(m, float) and 0 <= m <= 4 for m in margins), margins
    assert any(m != int(m) for m in margins), margins
    assert all(isinstance(trial.parameters["policy.samples_min"], int) for trial in tuned.trials)


@pytest.fixture
def example(tmp_path, monkeypatch):
    """The file of a scenario. Where nothing else is said results go below the folder of the test."""
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "example.toml"
    file.write_text(weir._toml_file(weir.tune.EXAMPLE))
    return str(file)


def no_search(*_, **__):
    pytest.fail("the search began")


def test_what_the_end_needs_is_tried_before_the_search(example, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(weir.tune, "tune", no_search)
    if importlib.util.find_spec("matplotlib"):
        # A folder that cannot be made, and one that cannot be written to, also by root.
        for out in (tmp_path / "example.toml/out", "/proc/self"):
            assert main(["tune", example, "--out", str(out)]) == 1
            told = capsys.readouterr().err
            assert "the results cannot be written" in told and "Remedy" in told, told
        # A scenario that is refused leaves no folder.
        assert main(["tune", "nosuch.toml", "--out", "left"]) == 2
        assert not (tmp_path / "left").exists()
    for name in ("matplotlib", "matplotlib.figure"):
        monkeypatch.setitem(sys.modules, name, None)
    capsys.readouterr()
    assert main(["tune", example]) == 1
    told = capsys.readouterr().err
    assert "matplotlib" in told and "Remedy: pip install optuna matplotlib" in told, told


def test_trials_are_written_before_anything_is_drawn(tmp_path, monkeypatch):
    def draw(*_):
        raise RuntimeError("no figure")

    monkeypatch.setattr(weir.tune, "draw", draw)
    base = weir.tune.Trial(-1, {}, 12.0, 0.9, 0.84)
    best = weir.tune.Trial(0, {"policy.margin": 1.5}, 10.0, 0.95, 0.9)
    with pytest.raises(RuntimeError, match="no figure"):
        weir.tune.write(weir.tune.Tuning(0.005, base, [best], {}), tmp_path)
    told = json.loads((tmp_path / "tuning.json").read_text())
    assert of_file(told) == (base, [best], {})
    assert (tmp_path / "best.toml").read_text() == "policy.margin = 1.5\n"


def test_a_reader_that_goes_does_not_end_the_search(example, tmp_path):
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    # As `| head -1`, which has gone before the first line.
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "weir", "tune", example, "--trials", "3", "--batch", "1", "--seeds", "1"]
    made = subprocess.run([*command, "--out", "out"], stdout=write, stderr=subprocess.PIPE, text=True)
    os.close(write)
    assert made.returncode == 0 and "Broken pipe" not in made.stderr, made.stderr
    assert len(json.loads((tmp_path / "out/tuning.json").read_text())["trials"]) == 3


def test_programs_get_one_object_whatever_fails(example, monkeypatch, capsys):
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")

    def told(status, *arguments):
        assert main(["tune", "--json", *arguments]) == status
        content = json.loads(capsys.readouterr().out)
        assert list(content) == ["error"]
        return content["error"]

    assert "nosuch.toml" in told(2, "nosuch.toml")
    assert "--trials" in told(2, example, "--trials", "many")
    assert "one trial" in told(2, example, "--trials", "0")
    assert "cannot be written" in told(1, example, "--out", example)

    def fails_with(error):
        def tune(*_, **__):
            raise error

        monkeypatch.setattr(weir.tune, "tune", tune)

    fails_with(RuntimeError("a run failed"))
    assert told(1, example) == "a run failed"
    fails_with(KeyboardInterrupt())
    assert told(130, example) == "interrupted"
    # A fault in the program has its traceback besides.
    fails_with(TypeError("no number"))
    with pytest.raises(TypeError):
        main(["tune", "--json", example])
    assert json.loads(capsys.readouterr().out) == {"error": "TypeError: no number"}


def test_the_program_tells_which_signal_ended_python(tmp_path):
    program = program_or_skip()
    python = tmp_path / "python"

    def tune(signal, *arguments):
        python.write_text(f'#!/bin/sh\n[ "$1" = -c ] && exit 0\nkill -{signal} $$\n')
        python.chmod(0o755)
        environment = {**os.environ, "WEIR_PYTHON": str(python)}
        made = subprocess.run([program, *arguments], env=environment, capture_output=True, text=True)
        return made.returncode, json.loads(made.stdout)["error"]

    for signal, status in ((9, 1), (11, 1), (15, 130)):
        for arguments in (("--json", "tune", "a.toml"), ("tune", "a.toml", "--json")):
            ended, told = tune(signal, *arguments)
            assert ended == status and f"by signal {signal}" in told, (signal, ended, told)
            assert status == 130 or "Remedy" in told


def of_file(content):
    """The scenarios as they are, trials and refusals of a `tuning.json`."""
    trial = lambda of: weir.tune.Trial(**of)  # noqa: E731
    return trial(content["base"]), [trial(of) for of in content["trials"]], content["refused"]


def test_examples_of_the_docstrings():
    failed, attempted = doctest.testmod(weir.tune)
    assert failed == 0 and attempted > 3
