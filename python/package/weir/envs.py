"""Environments for learning: a link whose set point, rate or probability of a signal a learner sets, step by
step.

>>> import gymnasium
>>> import weir.envs
>>> env = gymnasium.make("weir/SetPoint-v0")
>>> observation, info = env.reset(seed=1)
>>> list(observation)[:3]
['utilization', 'load', 'delay_mean_ms']
>>> observation, reward, terminated, truncated, info = env.step(env.action_space.sample())

``gymnasium.make_vec`` with the same names gives environments that go on side by side in one call: see
:class:`LinkVectorEnv`. The simulator's scenario says what the link and its traffic are; the same seed and the
same actions give the same observations on every machine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv

from . import Scenario, _read, _weir

__all__ = ["ACTIONS", "DEFAULT", "FIELDS", "LinkEnv", "LinkVectorEnv"]

FIELDS: dict[str, str] = dict(_weir.Environments.fields())
"""What is observed of each step: names, and what they mean. Packets are counts of the step."""

ACTIONS: dict[str, str] = {
    "setpoint": "the delay set point of the link's algorithm, in ms",
    "rate": "the rate of the link, in Mbit/s",
    "probability": "the probability with which an arriving packet is marked, or discarded where it is not ECN-capable",
}
"""What an action can set, and in which unit."""

DEFAULT: dict[str, Any] = {
    "title": "learning",
    "link": {"rate": "12Mbit/s", "buffer": "200ms"},
    "path": {"rtt": "40ms"},
    "aqm": {"name": "gsp"},
    "flows": [{"count": 2}],
    "run": {"duration": "60s", "warmup": "2s"},
}
"""The scenario of the registered environments: 12 Mbit/s and two downloads."""

Reward = Callable[[Mapping[str, np.ndarray]], np.ndarray]


def _seed_of(base: int, episode: int) -> int:
    """The seed of an episode: that of ``reset`` first, and then numbers that look random (SplitMix64)."""
    if episode == 0:
        return base
    z = (base + episode * 0x9E3779B97F4A7C15) & 0xFFFFFFFFFFFFFFFF
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & 0xFFFFFFFFFFFFFFFF
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & 0xFFFFFFFFFFFFFFFF
    return z ^ (z >> 31)


class _Links:
    """What both kinds of environments have in common."""

    def __init__(
        self,
        count: int,
        sets: str,
        scenario: Scenario | None,
        set: Mapping[str, Any] | None,
        step: str,
        link: str | None,
        bounds: tuple[float, float] | None,
        named: bool,
        delay_price: float,
        reward: Reward | None,
        threads: int,
    ) -> None:
        checked = _read(DEFAULT if scenario is None else scenario, {**(set or {}), "run.sample": step})
        self.inner = _weir.Environments(checked, sets, link, count, threads)
        rate, declared, self.warmup, self.length = self.inner.limits()
        if self.length < 1:
            raise ValueError(f"an episode has no step of {step} after the warm-up; make `run.duration` longer")
        usual = {"setpoint": (0.1, 100.0), "rate": (rate / 100, rate), "probability": (0.0, 1.0)}[sets]
        low, high = bounds if bounds is not None else usual
        least, most = {"setpoint": declared, "rate": (1e-3, 1e6), "probability": (0.0, 1.0)}[sets]
        if bounds is None:
            low, high = max(low, least), min(high, most)
        if not least <= low < high <= most:
            raise ValueError(f"bounds = {(low, high)}: give a lower and an upper one within {least:g} .. {most:g}")
        self.action_space = gymnasium.spaces.Box(low, high, (1,), np.float32)
        self.low, self.high = float(self.action_space.low[0]), float(self.action_space.high[0])
        if named:
            box = gymnasium.spaces.Box(0.0, np.inf, (1,), np.float32)
            self.observation_space: gymnasium.Space = gymnasium.spaces.Dict({name: box for name in FIELDS})
        else:
            self.observation_space = gymnasium.spaces.Box(0.0, np.inf, (len(FIELDS),), np.float32)
        self.named = named
        price = np.float32(delay_price)
        self.reward = reward or (lambda seen: seen["utilization"] - price * seen["delay_mean_ms"])

    def reset(self, place: int, seed: int) -> np.ndarray:
        return np.frombuffer(self.inner.reset(place, seed), np.float32)

    def step(self, actions: np.ndarray) -> np.ndarray:
        clipped = np.clip(actions.astype(np.float64, copy=False), self.low, self.high)
        return np.frombuffer(self.inner.step(clipped.tobytes()), np.float32).reshape(-1, len(FIELDS))


def _by_name(rows: np.ndarray) -> dict[str, np.ndarray]:
    """Columns by name."""
    return dict(zip(FIELDS, rows.T))


class LinkEnv(gymnasium.Env):
    """One simulated link.

    ``sets`` says what an action sets (:data:`ACTIONS`), on the link named ``link`` or on the first one.
    ``scenario`` is what :func:`weir.run` takes, ``set`` changes keys over it. A step lasts ``step``. An
    episode begins when ``run.warmup`` is over, under the scenario's own set point, rate, or without signals,
    and is truncated at the end of ``run.duration``; it never terminates.

    An action is a number of shape (1,) within ``bounds``, by default 0.1 .. 100 ms, 1 % .. 100 % of the
    link's rate, or 0 .. 1; what lies outside is clipped to it. For actions of -1 .. 1 there is
    ``gymnasium.wrappers.RescaleAction``. Observations are a dictionary of the :data:`FIELDS`, each of shape
    (1,), or with ``named=False`` one array in their order.

    The reward of a step is utilization less ``delay_price`` for each ms of mean delay, or what ``reward``
    makes of the fields.
    """

    metadata: dict[str, Any] = {"render_modes": []}

    def __init__(
        self,
        sets: str = "setpoint",
        scenario: Scenario | None = None,
        *,
        set: Mapping[str, Any] | None = None,
        step: str = "100ms",
        link: str | None = None,
        bounds: tuple[float, float] | None = None,
        named: bool = True,
        delay_price: float = 0.005,
        reward: Reward | None = None,
        render_mode: str | None = None,
    ) -> None:
        self._links = _Links(1, sets, scenario, set, step, link, bounds, named, delay_price, reward, 1)
        self.action_space = self._links.action_space
        self.observation_space = self._links.observation_space
        self.render_mode = render_mode
        self._base, self._episode, self._left = 0, -1, 0

    def _shown(self, row: np.ndarray) -> Any:
        return {name: row[i : i + 1] for i, name in enumerate(FIELDS)} if self._links.named else row

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begins an episode. ``seed`` is the seed of its run; later episodes draw theirs from it."""
        super().reset(seed=seed)
        if seed is not None:
            self._base, self._episode = seed, 0
        elif self._episode < 0:
            self._base, self._episode = int(self.np_random.integers(1 << 63)), 0
        else:
            self._episode += 1
        run = _seed_of(self._base, self._episode)
        self._left = self._links.length
        return self._shown(self._links.reset(0, run)), {"seed": run}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Sets what the action says and lets one step pass."""
        if self._left == 0:
            raise RuntimeError("the episode is over, or none has begun: call reset")
        row = self._links.step(np.asarray(action).reshape(1))[0]
        self._left -= 1
        reward = float(self._links.reward(_by_name(row[None]))[0])
        return self._shown(row), reward, False, self._left == 0, {}

    @property
    def trace_hash(self) -> int | None:
        """Fingerprint of every decision about every packet of the episode so far."""
        return self._links.inner.trace_hash(0)


class LinkVectorEnv(VectorEnv):
    """``num_envs`` simulated links that go on together, each as :class:`LinkEnv` with a seed of its own.

    ``reset(seed=s)`` gives the environments the seeds s, s + 1 and so on, so that each is what a single one
    with that seed is. All episodes are as long; after the step that truncates them, the next one resets them
    (``AutoresetMode.NEXT_STEP``). ``threads`` share the work of a step, and change nothing else.
    """

    metadata: dict[str, Any] = {"render_modes": [], "autoreset_mode": AutoresetMode.NEXT_STEP}

    def __init__(
        self,
        num_envs: int = 1,
        sets: str = "setpoint",
        scenario: Scenario | None = None,
        *,
        set: Mapping[str, Any] | None = None,
        step: str = "100ms",
        link: str | None = None,
        bounds: tuple[float, float] | None = None,
        named: bool = True,
        delay_price: float = 0.005,
        reward: Reward | None = None,
        threads: int = 1,
        render_mode: str | None = None,
    ) -> None:
        if num_envs < 1:
            raise ValueError(f"num_envs = {num_envs} is no number of environments: give 1 or more")
        self._links = _Links(num_envs, sets, scenario, set, step, link, bounds, named, delay_price, reward, threads)
        self.num_envs = num_envs
        self.single_action_space = self._links.action_space
        self.single_observation_space = self._links.observation_space
        self.action_space = gymnasium.vector.utils.batch_space(self.single_action_space, num_envs)
        self.observation_space = gymnasium.vector.utils.batch_space(self.single_observation_space, num_envs)
        self.render_mode = render_mode
        self._base = [0] * num_envs
        self._episode = [-1] * num_envs
        self._left = 0

    def _shown(self, rows: np.ndarray) -> Any:
        if not self._links.named:
            return rows
        return {name: rows[:, i : i + 1] for i, name in enumerate(FIELDS)}

    def reset(
        self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begins an episode everywhere. ``seed`` is one number or one for each environment."""
        super().reset(seed=seed if isinstance(seed, int) else None)
        seeds = [seed + i for i in range(self.num_envs)] if isinstance(seed, int) else seed or [None] * self.num_envs
        if len(seeds) != self.num_envs:
            raise ValueError(f"{len(seeds)} seeds do not fit {self.num_envs} environments")
        for place, own in enumerate(seeds):
            if own is not None:
                self._base[place], self._episode[place] = own, 0
            elif self._episode[place] < 0:
                self._base[place], self._episode[place] = int(self.np_random.integers(1 << 63)), 0
            else:
                self._episode[place] += 1
        runs = [_seed_of(*of) for of in zip(self._base, self._episode)]
        rows = np.stack([self._links.reset(place, run) for place, run in enumerate(runs)])
        self._left = self._links.length
        return self._shown(rows), {"seed": np.array(runs, np.uint64), "_seed": np.ones(self.num_envs, bool)}

    def step(self, actions: Any) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """One step everywhere; the one after the end of the episodes begins new ones, whatever the
        actions."""
        never = np.zeros(self.num_envs, bool)
        if self._left == 0:
            if self._episode[0] < 0:
                raise RuntimeError("no episode has begun: call reset")
            shown, info = self.reset()
            return shown, np.zeros(self.num_envs), never, never.copy(), info
        rows = self._links.step(np.asarray(actions).reshape(self.num_envs))
        self._left -= 1
        reward = np.asarray(self._links.reward(_by_name(rows)), np.float64)
        return self._shown(rows), reward, never, np.full(self.num_envs, self._left == 0), {}


for _name, _sets in (("SetPoint", "setpoint"), ("Rate", "rate"), ("Probability", "probability")):
    gymnasium.register(
        f"weir/{_name}-v0",
        entry_point="weir.envs:LinkEnv",
        vector_entry_point="weir.envs:LinkVectorEnv",
        kwargs={"sets": _sets},
    )
