"""What happens to a team when functions come and go while it serves?

Trains six agents together on one platform, then lets functions leave and others take their places.
Newcomers borrow the policy of the agent whose number they would have had.
"""

import numpy as np

import homeostat

FUNCTIONS = 6

run = homeostat.train("simppo", steps=2_000, seed=3, faas={"functions": FUNCTIONS})
policies = [run.policy(agent) for agent in range(FUNCTIONS)]


def policy_of(agent):
    return policies[int(agent.rpartition("-")[2]) % FUNCTIONS]


for churn in (0.0, 0.2):
    env = homeostat.parallel_env("faas/fleet-v3", functions=FUNCTIONS, churn=churn, steps=50)
    observations, _ = env.reset(seed=11)
    rewards_of_all, newcomers = [], 0
    while env.agents:
        before = set(env.agents)
        actions = {agent: policy_of(agent).act(observations[agent]) for agent in env.agents}
        observations, rewards, terminations, truncations, infos = env.step(actions)
        newcomers += len(set(env.agents) - before)
        rewards_of_all += [rewards[agent] for agent in before]
    print(f"churn {churn:.1f}: mean reward {np.mean(rewards_of_all):.3f}, {newcomers} newcomers")
