"""Plays Gymnasium's own environments for gymnasium.rs.

Reads one request as JSON from stdin and writes one answer as JSON to stdout:
what the spec says, the range of states that resets draw, and what each episode's
given actions lead to from its given initial state. Bounds are written as text,
because JSON has no infinity.
"""

import json
import sys

import gymnasium
import numpy as np


def describe(space):
    if isinstance(space, gymnasium.spaces.Discrete):
        return {"n": int(space.n)}
    return {
        "low": [str(end) for end in space.low.tolist()],
        "high": [str(end) for end in space.high.tolist()],
    }


def range_of_resets(env, count):
    states = []
    for seed in range(count):
        env.reset(seed=seed)
        states.append(np.array(env.unwrapped.state, dtype=np.float64))
    return {"low": np.min(states, axis=0).tolist(), "high": np.max(states, axis=0).tolist()}


def play(env, state, actions):
    env.reset(seed=0)
    env.unwrapped.state = np.array(state, dtype=np.float64)
    steps = []
    for action in actions:
        if isinstance(action, list):
            action = np.array(action, dtype=np.float32)
        # The unwrapped environment: the time limit is compared as a number.
        obs, reward, terminated, _, _ = env.unwrapped.step(action)
        steps.append(
            {
                "obs": obs.tolist(),
                "state": [float(value) for value in env.unwrapped.state],
                "reward": float(reward),
                "terminated": bool(terminated),
            }
        )
        if terminated:
            break
    return steps


def main():
    request = json.load(sys.stdin)
    env = gymnasium.make(request["id"])
    answer = {
        "max_episode_steps": gymnasium.spec(request["id"]).max_episode_steps,
        "observation": describe(env.observation_space),
        "action": describe(env.action_space),
        "resets": range_of_resets(env, request["resets"]),
        "episodes": [play(env, e["state"], e["actions"]) for e in request["episodes"]],
    }
    json.dump(answer, sys.stdout)


main()
