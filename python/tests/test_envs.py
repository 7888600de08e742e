"""Environments: gymnasium's own checker, determinism, and what actions do."""

import doctest
import warnings

import numpy as np
import pytest
import weir

gymnasium = pytest.importorskip("gymnasium", reason="gymnasium is not installed")
import weir.envs  # noqa: E402
from gymnasium.utils.env_checker import check_env  # noqa: E402

SHORT = {"run.duration": "3s", "run.warmup": "1s"}
NAMES = ["weir/SetPoint-v0", "weir/Rate-v0", "weir/Probability-v0"]


def episode(env, seed, action):
    """Rows of observations and rewards of one episode."""
    seen, _ = env.reset(seed=seed)
    rows, rewards, over = [seen], [], False
    while not over:
        seen, reward, terminated, over, _ = env.step(np.array([action], np.float32))
        assert not terminated
        rows.append(seen)
        rewards.append(reward)
    return np.stack([np.concatenate([row[f] for f in weir.envs.FIELDS]) for row in rows]), np.array(rewards)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("named", [True, False])
def test_gymnasiums_own_checker_has_no_complaint(name, named):
    env = gymnasium.make(name, set=SHORT, named=named).unwrapped
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # What has no bound has none: a count of packets, a delay.
        warnings.filterwarnings("ignore", message=".*maximum value is infinity.*")
        # Of actions it only says that learners like them between -1 and 1: there is a wrapper for that.
        warnings.filterwarnings("ignore", message=".*symmetric and normalized.*")
        warnings.filterwarnings("ignore", message=".*render.*")
        check_env(env)


def test_the_same_seed_and_actions_are_the_same_episode():
    env = gymnasium.make("weir/SetPoint-v0", set=SHORT)
    first, rewards = episode(env, 7, 5.0)
    again, _ = episode(env, 7, 5.0)
    assert len(rewards) == 20 and np.array_equal(first, again)
    assert not np.array_equal(first, episode(env, 8, 5.0)[0])
    # The next episode has a seed of its own, which follows from the first.
    followed = []
    for _ in range(2):
        env.reset(seed=7)
        followed.append(env.reset()[1]["seed"])
    assert followed[0] == followed[1] != 7
    fields = list(weir.envs.FIELDS)
    expected = first[1:, fields.index("utilization")] - np.float32(0.005) * first[1:, fields.index("delay_mean_ms")]
    assert np.allclose(rewards, expected)


def test_environments_side_by_side_are_what_each_is_alone():
    alone = [episode(gymnasium.make("weir/Rate-v0", set=SHORT), seed, 6.0)[0] for seed in (3, 4, 5)]
    for threads in (1, 2):
        env = gymnasium.make_vec("weir/Rate-v0", num_envs=3, set=SHORT, named=False, threads=threads)
        rows = [env.reset(seed=3)[0]]
        for _ in range(20):
            seen, rewards, terminated, truncated, _ = env.step(np.full((3, 1), 6.0, np.float32))
            rows.append(seen)
        assert truncated.all() and not terminated.any() and rewards.shape == (3,)
        assert np.array_equal(np.stack(rows, axis=1), np.stack(alone))
        # The next step begins new episodes.
        seen, rewards, _, truncated, info = env.step(np.full((3, 1), 6.0, np.float32))
        assert not truncated.any() and not rewards.any() and len(set(info["seed"].tolist())) == 3
        assert env.observation_space.contains(seen)
    named = gymnasium.make_vec("weir/Rate-v0", num_envs=2, set=SHORT)
    assert named.observation_space.contains(named.reset(seed=1)[0])


def test_an_environment_that_nobody_touches_is_the_simulator():
    scenario = {**weir.envs.DEFAULT, "run": {"duration": "3s", "warmup": "1s", "sample": "100ms"}}
    samples = weir.run(scenario, seed=9).link()
    # The set point of the scenario stays: it is what GSP begins with.
    env = weir.envs.LinkEnv("setpoint", scenario, named=False)
    default = samples["setpoint_ms"][0].as_py()
    env.reset(seed=9)
    rows = np.stack([env.step(np.array([default]))[0] for _ in range(20)])
    delays = np.array(samples["delay_mean_ms"].to_pylist()[10:], np.float32)
    assert np.array_equal(rows[:, list(weir.envs.FIELDS).index("delay_mean_ms")], delays)


def test_actions_do_what_they_say():
    fields = list(weir.envs.FIELDS)

    def mean(name, action, field, **more):
        env = gymnasium.make(name, set={"run.duration": "6s", "run.warmup": "1s"}, **more)
        return episode(env, 1, action)[0][10:, fields.index(field)].mean()

    # A higher set point lets more packets wait; a lower rate delivers less; more signals leave the link idle.
    assert mean("weir/SetPoint-v0", 2.0, "delay_mean_ms") < 0.5 * mean("weir/SetPoint-v0", 40.0, "delay_mean_ms")
    assert 0.3 < mean("weir/Rate-v0", 6.0, "utilization") < 0.51 < mean("weir/Rate-v0", 12.0, "utilization")
    assert mean("weir/Probability-v0", 0.2, "utilization") < 0.8 * mean("weir/Probability-v0", 0.001, "utilization")
    assert mean("weir/Probability-v0", 0.05, "drops") > 0 == mean("weir/Probability-v0", 0.0, "drops")
    # What lies outside is clipped, and seen.
    assert mean("weir/SetPoint-v0", 4000.0, "action") == 100.0
    assert mean("weir/SetPoint-v0", 50.0, "action", bounds=(1.0, 8.0)) == 8.0


def test_what_cannot_be_learned_is_refused():
    make = weir.envs.LinkEnv
    with pytest.raises(ValueError, match="choose one of setpoint"):
        make("setpiont")
    with pytest.raises(ValueError, match="no set point"):
        make("setpoint", set={"aqm.name": "blue"})
    with pytest.raises(ValueError, match="remove `policy`"):
        make("setpoint", set={"policy.utilization_low": "99%"})
    with pytest.raises(ValueError, match="more than one FIFO"):
        make("probability", set={"queue.discipline": "flow"})
    with pytest.raises(ValueError, match="the links are"):
        make("rate", link="nosuch")
    with pytest.raises(ValueError, match="within"):
        make("probability", bounds=(0.0, 2.0))
    with pytest.raises(ValueError, match="no step"):
        make("rate", set={"run.duration": "2s", "run.warmup": "1950ms"})
    with pytest.raises(weir.ScenarioError, match="sample"):
        make("rate", step="1us")
    env = make("rate", set=SHORT)
    with pytest.raises(RuntimeError, match="reset"):
        env.step([1.0])
    env.reset(seed=1)
    with pytest.raises(ValueError, match="each a number"):
        env.step([float("nan")])
    with pytest.raises(ValueError, match="num_envs"):
        weir.envs.LinkVectorEnv(0)
    # More than the address space of a process has room for, whatever the system promises.
    with pytest.raises(MemoryError, match="environments: give fewer"):
        weir.envs.LinkVectorEnv(2**42)


def test_examples_of_the_docstrings():
    failed, attempted = doctest.testmod(weir.envs)
    assert failed == 0 and attempted > 5
