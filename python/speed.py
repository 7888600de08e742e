"""How fast the package is: python python/speed.py

Steps of an environment in a second of one core's time: 12 Mbit/s, steps of 100 ms, 8 and 64 links in one
call. Where WEIR_PROGRAM names a release of the program weir, also runs at 1 Gbit/s beside it, in pairs.
"""

import os
import pathlib
import statistics
import subprocess
import tempfile
import time

import gymnasium
import numpy as np
import weir
import weir.envs  # noqa: F401

STEPS, ROUNDS = 6400, 9

# 20 downloads; a second or two of computing, so that starting the program does not matter.
GIGABIT = """title = "1 Gbit/s"
link = { rate = "1Gbit/s", buffer = "50ms" }
path = { rtt = "50ms" }
aqm = { name = "codel" }
flows = [{ count = 20 }]
run = { duration = "30s", warmup = "5s" }
"""


def steps(links: int) -> float:
    env = gymnasium.make_vec("weir/SetPoint-v0", num_envs=links, named=False)
    env.reset(seed=1)
    actions = np.full((links, 1), 5.0, np.float32)
    for _ in range(20):
        env.step(actions)
    begun = time.process_time()
    for _ in range(STEPS // links):
        env.step(actions)
    return STEPS // links * links / (time.process_time() - begun)


def pair(program: str, file: pathlib.Path, package_first: bool) -> tuple[float, float]:
    """Seconds of a run by the package and by the program."""
    took = {}
    for package in (package_first, not package_first):
        begun = time.perf_counter()
        if package:
            weir.run(file, seed=1)
        else:
            subprocess.run([program, "sim", file, "--seed", "1"], check=True, capture_output=True)
        took[package] = time.perf_counter() - begun
    return took[True], took[False]


def main() -> None:
    for links in (8, 64):
        speeds = sorted(steps(links) for _ in range(ROUNDS))
        told = f"{speeds[ROUNDS // 2]:.0f} steps in a second of one core's time, {links} links in a call"
        print(f"{told}, the middle of {ROUNDS} rounds ({speeds[0]:.0f} to {speeds[-1]:.0f})")
    program = os.environ.get("WEIR_PROGRAM")
    if not program:
        print("1 Gbit/s beside the program: skipped, as WEIR_PROGRAM does not name a release of it")
        return
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "gigabit.toml"
        file.write_text(GIGABIT)
        pairs = [pair(program, file, turn % 2 == 0) for turn in range(ROUNDS + 1)][1:]
    ratios = sorted(theirs / ours for ours, theirs in pairs)
    ours, theirs = (statistics.median(of) for of in zip(*pairs))
    print(
        f"1 Gbit/s, 30 s, 20 flows: {ours:.2f} s by the package, {theirs:.2f} s by the program; "
        f"speed {statistics.median(ratios):.2f} of the program's, the middle of {ROUNDS} pairs ({ratios[0]:.2f} to {ratios[-1]:.2f})"
    )


if __name__ == "__main__":
    main()
