"""How long may a queue be? Five queues on one link, in 60 lines: python tutorial.py"""

import pyarrow.compute as pc
import weir

# A link of 20 Mbit/s and two downloads: keys and values as in a scenario file.
scenario = {
    "title": "tutorial",
    "link": {"rate": "20Mbit/s", "buffer": "200ms"},
    "path": {"rtt": "40ms"},
    "aqm": {"name": "tail_drop", "limit": "10s"},
    "flows": [{"count": 2, "congestion": "cubic"}],
    "run": {"duration": "20s", "warmup": "5s", "sample": "50ms"},
}


def show(name, result):
    link = result.summary["links"][0]
    print(f"{name:14} {link['utilization']:6.1%}  {link['delay_ms']['p95']:6.1f} ms")


# One run. What the queue does over time is a table: take a column, compute with it.
result = weir.run(scenario, seed=1)
show("tail drop", result)
samples = result.link()
settled = samples.filter(pc.greater(samples["t_s"], 5.0))
print(f"               longest delay {pc.max(settled['delay_max_ms']).as_py():.0f} ms in {settled.num_rows} samples")

# Others, with a key changed.
for aqm in ({"name": "codel"}, {"name": "pie"}, {"name": "gsp"}):
    show(aqm["name"], weir.run(scenario | {"aqm": aqm}))

# A policy steers the set point; each move is a row with its rule.
steered = weir.run(scenario | {"aqm": {"name": "gsp"}, "policy": {"utilization_low": "99%", "target_max": "30ms"}})
show("gsp, steered", steered)
for move in steered.events.slice(0, 3).to_pylist():
    print(f"               at {move['t_s']:.1f} s {move['rule']}: {move['from']:.2f} -> {move['to']:.2f} {move['unit']}")

# A sweep: every combination and every seed, on all cores.
points = scenario | {"sweep": {"aqm.name": ["codel", "gsp"], "flows.0.count": [2, 8]}, "aqm": {"name": "codel"}}
for result in weir.sweep(points, seeds=2):
    show(f"{result.settings['aqm.name']} x {result.settings['flows.0.count']}", result)

# What is wrong is told at once, with the key and the remedy.
try:
    weir.check(scenario | {"aqm": {"name": "codell"}})
except weir.ScenarioError as error:
    print(error)

# An algorithm alone: here the packets of a queue that drains more slowly than they come.
codel = weir.Algorithm("codel", target="5ms", interval="50ms")
drops = 0
for n in range(2000):
    now, waited = n * 1_000_000, n * 50_000
    drops += codel.step(call="dequeue", now_ns=now, arrived_ns=max(0, now - waited), len=1500, seq=n, backlog=90_000,
                        packets=60, rate_bps=12_000_000).startswith("drop")
print(f"CoDel alone: {drops} of 2000 packets dropped")
