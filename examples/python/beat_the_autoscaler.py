"""Does an agent that learnt keep a function inside its objective more cheaply than doing nothing?

Trains PPO on one serverless function for a few seconds, then plays it against a policy that holds
still and one that acts at random, all on the same requests.
"""

import gymnasium
import numpy as np

import homeostat

EPISODES = 20
settings = {"function": "image-resize", "reward": "cost"}

run = homeostat.train("ppo", env="faas/function-v2", steps=60_000, seed=1, preset="s-rl", faas=settings)
learnt = run.policy()
draw = np.random.default_rng(1)
policies = {
    "learnt": learnt.act,
    "hold": lambda observation: 0,
    "random": lambda observation: draw.integers(7),
}

env = gymnasium.make("homeostat/faas-function-v2", **settings)
print(f"{'policy':<8} {'return':>8} {'late %':>8} {'containers':>11}")
for name, act in policies.items():
    returns, late, settled, containers = [], 0.0, 0.0, []
    for episode in range(EPISODES):
        observation, _ = env.reset(seed=1000 + episode)
        total, is_over = 0.0, False
        while not is_over:
            observation, reward, terminated, truncated, info = env.step(act(observation))
            total += reward
            late += info["slo_violations"]
            settled += info["settled"]
            containers.append(info["containers"])
            is_over = terminated or truncated
        returns.append(total)
    print(f"{name:<8} {np.mean(returns):8.2f} {100 * late / settled:8.2f} {np.mean(containers):11.2f}")
