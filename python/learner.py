"""A small learner beside a static set point and the steering law: python learner.py

It sets the set point of GSP each 100 ms by a linear rule on what it saw, and finds the numbers of the rule by
the cross-entropy method: 48 rules are tried side by side, and the next ones are drawn around the best eight.
The reward is that of the environment: utilization less 0.005 for each ms of mean delay. Judged by seeds that
it did not learn on; of the static set points the best is chosen on the very seeds that judge it. The steering
law knows nothing of this reward: it holds 99 % of utilization with as little delay as that takes.
"""

import argparse
import time

import gymnasium
import numpy as np
import weir
import weir.envs

SCENARIO = {
    **weir.envs.DEFAULT,
    "path": {"rtt": "80ms"},
    # One download, then twelve: the set point that suits one does not suit the other.
    "flows": [{"count": 1, "stop": "30s"}, {"count": 12, "start": "30s"}],
    "run": {"duration": "60s", "warmup": "2s"},
}
SEEN = ["utilization", "delay_mean_ms", "backlog_ms", "drops"]
RULES, BEST, ROUNDS, JUDGED = 48, 8, 24, 8
STATIC = (2.5, 5, 7.5, 10, 15, 20, 40)
LOW, HIGH = 0.5, 60.0


def play(env, rules, seed):
    """Mean reward of each rule over one episode; all play the same seed."""
    seen, _ = env.reset(seed=[seed] * len(rules))
    average, total, over = np.zeros((len(rules), len(SEEN))), np.zeros(len(rules)), False
    steps = 0
    while not over:
        now = np.concatenate([seen[name] for name in SEEN], axis=1) / [1.0, 20.0, 20.0, 5.0]
        average += 0.1 * (now - average)
        log = rules[:, 0] + (rules[:, 1:] * average).sum(axis=1)
        actions = np.exp(np.clip(log, np.log(LOW), np.log(HIGH)))
        seen, reward, _, truncated, _ = env.step(actions[:, None].astype(np.float32))
        total += reward
        steps += 1
        over = truncated[0]
    return total / steps


def mean_reward(scenario):
    """Of the simulator's own queue, by its samples, with the seeds that rules are judged by."""
    rewards = []
    for seed in range(101, 101 + JUDGED):
        samples = weir.run(scenario, seed, set={"run.sample": "100ms"}).link().slice(20)
        used = np.array(samples["delivered_bps"]) / 12e6
        rewards.append(np.mean(used - 0.005 * np.array(samples["delay_mean_ms"])))
    return float(np.mean(rewards))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    rounds = parser.parse_args().rounds
    begun = time.perf_counter()
    dice = np.random.default_rng(1)
    env = gymnasium.make_vec("weir/SetPoint-v0", num_envs=RULES, scenario=SCENARIO, bounds=(LOW, HIGH))
    center, spread = np.array([np.log(5.0), 0.0, 0.0, 0.0, 0.0]), np.full(5, 1.0)
    for turn in range(rounds):
        rules = center + spread * dice.standard_normal((RULES, 5))
        rules[0] = center
        rewards = play(env, rules, 1 + turn)
        best = rules[np.argsort(-rewards)[:BEST]]
        center, spread = best.mean(axis=0), best.std(axis=0) + 0.02
    took = time.perf_counter() - begun
    judge = gymnasium.make_vec("weir/SetPoint-v0", num_envs=1, scenario=SCENARIO, bounds=(LOW, HIGH))
    learned = np.mean([play(judge, center[None], seed)[0] for seed in range(101, 101 + JUDGED)])
    static = {ms: mean_reward({**SCENARIO, "aqm": {"name": "gsp", "target": f"{ms}ms"}}) for ms in STATIC}
    policy = {"utilization_low": "99%", "target_max": "60ms"}
    print(f"learned rule      {learned:.4f}   {np.round(center, 2).tolist()}, learned in {took:.0f} s")
    for ms, reward in static.items():
        print(f"static {ms:4} ms    {reward:.4f}")
    print(f"steering law      {mean_reward({**SCENARIO, 'policy': policy}):.4f}")


if __name__ == "__main__":
    main()
