"""Nothing is left behind by resets, steps, pictures and environments that come and go."""

import gc
import os

import gymnasium
import numpy as np
import pytest

import homeostat


def resident_mebibytes():
    with open("/proc/self/statm") as file:
        pages = int(file.read().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def growth(work, times):
    # Once before: whatever is made but once is there then.
    work(times // 5)
    gc.collect()
    before = resident_mebibytes()
    work(times)
    gc.collect()
    return resident_mebibytes() - before


def reset_cartpole(times):
    env = gymnasium.make("homeostat/classic-cartpole-v1")
    for seed in range(times):
        env.reset(seed=seed)


def reset_unseeded(times):
    env = homeostat.HomeostatEnv("classic/cartpole-v1")
    for _ in range(times):
        env.reset()


def reset_function(times):
    env = homeostat.HomeostatEnv("faas/function-v2", window_s=1.0, telemetry_delay_s=0.0)
    for _ in range(times):
        env.reset()
        env.step(1)


def step_vector(times):
    envs = gymnasium.make_vec("homeostat/classic-cartpole-v1", num_envs=16, autoreset_mode="SameStep")
    envs.reset(seed=1)
    actions = np.zeros(16, dtype=np.int64)
    for _ in range(times):
        envs.step(actions)


def reset_fleet(times):
    env = homeostat.parallel_env("faas/fleet-v3", functions=2, churn=1.0, window_s=1.0, telemetry_delay_s=0.0)
    for _ in range(times):
        env.reset()
        env.step({agent: env.action_space(agent).sample() for agent in env.agents})


def draw(times):
    env = homeostat.HomeostatEnv("faas/function-v2", render_mode="rgb_array")
    env.reset(seed=1)
    for _ in range(times):
        env.render()


def make(times):
    for number in range(times):
        homeostat.HomeostatEnv("faas/function-v2", steps=1 + number % 20).reset()


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="only Linux tells")
@pytest.mark.parametrize(
    "work, times",
    # A leak of one array in each would be ten mebibytes and more.
    [(reset_cartpole, 100_000), (reset_unseeded, 1_000_000), (reset_function, 10_000), (step_vector, 50_000), (reset_fleet, 3_000), (draw, 300), (make, 60)],
)
def test_nothing_leaks(work, times):
    if work is reset_fleet:
        pytest.importorskip("pettingzoo")
    assert growth(work, times) < 4.0
