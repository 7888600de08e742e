"""How many steps a second an environment makes: 12 Mbit/s, steps of 100 ms, 64 links in one call, one
core."""

import time

import gymnasium
import numpy as np
import weir.envs  # noqa: F401

COUNT, TURNS, ROUNDS = 64, 100, 5


def speed() -> float:
    env = gymnasium.make_vec("weir/SetPoint-v0", num_envs=COUNT, named=False)
    env.reset(seed=1)
    actions = np.full((COUNT, 1), 5.0, np.float32)
    for _ in range(20):
        env.step(actions)
    begun = time.perf_counter()
    for _ in range(TURNS):
        env.step(actions)
    return COUNT * TURNS / (time.perf_counter() - begun)


if __name__ == "__main__":
    speeds = sorted(speed() for _ in range(ROUNDS))
    print(f"{speeds[ROUNDS // 2]:.0f} steps/s on one core, the middle of {ROUNDS} rounds ({speeds[0]:.0f} to {speeds[-1]:.0f})")
