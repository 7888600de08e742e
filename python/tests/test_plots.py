"""Figures of single runs: the panels and lines of the charts that the program writes."""

import doctest
import math
import pathlib
import re
import subprocess

import pytest
import weir
import weir.plots
from test_weir import SCENARIO, program_or_skip

pytest.importorskip("matplotlib", reason="matplotlib is not installed")


def of(panels):
    return {panel.title: panel for panel in panels}


def test_panels_have_what_was_measured():
    result = weir.run(SCENARIO, set={"path.rtt": "80ms"})
    made = of(weir.plots.panels(result, policy=SCENARIO["policy"]))
    assert list(made) == ["Throughput", "Delay", "Signals", "Flows"]
    throughput = made["Throughput"]
    assert throughput.unit == "Mbit/s" and throughput.limits == [("rate", 10.0), ("u_low 99 %", pytest.approx(9.9))]
    delivered = [v / 1e6 for v in result.link()["delivered_bps"].to_pylist()]
    assert throughput.series[1].name == "delivered" and throughput.series[1].v == pytest.approx(delivered)
    assert [s.name for s in made["Delay"].series] == ["max", "mean", "set point"] and made["Delay"].limits == [("target_max 30 ms", 30.0)]
    # Counts of a period are rates.
    drops = made["Signals"].series[0]
    assert sum(drops.v) * 0.1 == pytest.approx(sum(result.link()["drops"].to_pylist())) and sum(drops.v) > 0
    assert made["Flows"].series[0].v[-1] == 2
    # What is not there is not drawn.
    plain = {**{k: v for k, v in SCENARIO.items() if k != "policy"}, "aqm": {"name": "blue"}}
    assert [s.name for s in of(weir.plots.panels(weir.run(plain)))["Delay"].series] == ["max", "mean"]
    virtual = {**SCENARIO, "policy": {**SCENARIO["policy"], "utilization_low": "93%", "utilization_target": "95%"}}
    made = of(weir.plots.panels(weir.run(virtual)))
    assert "Backlog" in made and made["Throughput"].series[2].name == "virtual rate"
    with pytest.raises(ValueError, match="the links are bottleneck"):
        weir.plots.panels(result, "nosuch")
    with pytest.raises(ValueError, match="30ms"):
        weir.plots.panels(result, policy={"target_max": "soon"})


def test_a_flow_ends_with_its_last_sample():
    flows = [{"count": 1}, {"count": 3, "start": "1s", "stop": "3s"}]
    active = of(weir.plots.panels(weir.run({**SCENARIO, "flows": flows})))["Flows"].series[0]
    assert max(active.v) == 4 and active.v[0] == 1 and active.v[-1] == 1 and not any(map(math.isnan, active.v))


def test_a_figure_is_that_of_the_program(tmp_path):
    result = weir.run(SCENARIO, seed=1)
    for name in ("run.svg", "again.svg", "run.pdf"):
        figure = weir.plots.draw(result, tmp_path / name, policy=SCENARIO["policy"])
    assert (tmp_path / "run.svg").read_bytes() == (tmp_path / "again.svg").read_bytes()
    assert (tmp_path / "run.pdf").read_bytes().startswith(b"%PDF")
    program = program_or_skip()
    file = tmp_path / "two.toml"
    file.write_text(weir._toml_file(SCENARIO))
    subprocess.run([program, "sim", file, "--seed", "1", "--out", tmp_path / "out"], check=True, capture_output=True)
    chart = "\n".join(p.read_text() for p in pathlib.Path(tmp_path / "out").rglob("*.svg"))
    texts = set(re.findall(r">([^<>]+)</text>", chart))
    for axes in figure.axes:
        title = axes.get_title(loc="left").split(",")[0]
        assert any(title in text for text in texts), (title, texts)
        for line in axes.get_lines():
            label = line.get_label()
            assert label.startswith("_") or any(label in text for text in texts), (label, texts)
            # Its colour is one of the program's style sheet.
            assert label.startswith("_") or line.get_color() in chart


def test_examples_of_the_docstrings():
    failed, attempted = doctest.testmod(weir.plots)
    assert failed == 0 and attempted > 3
