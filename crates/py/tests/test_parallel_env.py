"""Agents that share an environment, under PettingZoo's contract."""

import gymnasium
import numpy as np
import pytest

import homeostat
from homeostat import errors

pettingzoo = pytest.importorskip("pettingzoo")


def sampled(env):
    return {agent: env.action_space(agent).sample() for agent in env.agents}


def test_it_is_a_parallel_env_of_pettingzoo():
    env = homeostat.parallel_env("faas/fleet-v3")
    assert isinstance(env, pettingzoo.ParallelEnv)
    assert env.possible_agents == [f"agent-{number}" for number in range(12)]
    assert env.action_space("agent-0") is env.action_space("agent-0")
    assert str(env) == "faas_fleet_v3"


def test_agents_join_and_leave():
    env = homeostat.parallel_env("faas/fleet-v3", functions=4, churn=0.5, steps=40)
    assert not hasattr(env, "possible_agents")
    env.reset(seed=3)
    before, joined, left = set(env.agents), [], []
    while env.agents:
        observations, rewards, terminations, truncations, infos = env.step(sampled(env))
        reported = set(observations)
        assert reported == set(rewards) == set(terminations) == set(truncations) == set(infos)
        newcomers = set(env.agents) - before
        leavers = {agent for agent in reported if terminations[agent]}
        assert before | newcomers == reported
        assert all(rewards[agent] == 0.0 for agent in newcomers)
        assert not leavers & set(env.agents)
        assert not newcomers & set(left), "a name is never used twice"
        joined += newcomers
        left += leavers
        before = set(env.agents)
        assert len(before) in (0, 4)
    assert len(joined) > 5 and len(left) > 5
    assert all(truncations.values()) or any(terminations.values())


def test_everybody_sees_what_its_window_held():
    env = homeostat.parallel_env("faas/fleet-set-points-v1", steps=2)
    env.reset(seed=1)
    infos = env.step(sampled(env))[4]
    assert all(info["settled"] > 0 for info in infos.values())
    last = env.step(sampled(env))[4]
    assert not env.agents and all(info["settled"] > 0 for info in last.values())


def test_the_state_is_what_everybody_sees():
    env = homeostat.parallel_env("faas/chain-v2")
    observations, _ = env.reset(seed=1)
    np.testing.assert_array_equal(env.state(), np.concatenate(list(observations.values())))


def test_the_zoo_has_every_environment_of_many_agents():
    from homeostat import zoo

    shared = [facts.id for facts in homeostat.environments() if facts.is_shared]
    assert sorted(getattr(zoo, name).env_id for name in zoo.__all__) == sorted(shared)


def test_agents_may_act_one_after_the_other():
    from homeostat.zoo import faas_fleet_v3

    env = faas_fleet_v3.env(functions=2, max_cycles=3)
    env.reset(seed=1)
    turns = 0
    for agent in env.agent_iter():
        _, _, terminated, truncated, _ = env.last()
        env.step(None if terminated or truncated else env.action_space(agent).sample())
        turns += 1
    assert turns == 2 * (3 + 1)


def test_wrong_actions_are_refused_with_the_names():
    env = homeostat.parallel_env("faas/fleet-v3", functions=2)
    with pytest.raises(gymnasium.error.ResetNeeded, match="before reset"):
        env.step({})
    env.reset(seed=1)
    with pytest.raises(ValueError, match="each of its 2 living agents, got none for agent-1$"):
        env.step({"agent-0": 0})
    with pytest.raises(ValueError, match="got one for agent-7"):
        env.step({"agent-0": 0, "agent-1": 0, "agent-7": 0})
    with pytest.raises(TypeError, match="expects a dictionary of actions by agent, got list"):
        env.step([0, 0])
    with pytest.raises(ValueError, match="action 9 is outside the action space"):
        env.step({"agent-0": 0, "agent-1": 9})
    env.step({"agent-1": 0, "agent-0": 1})
    env.close()
    with pytest.raises(errors.Closed):
        env.reset()


def test_settings_are_those_of_the_command_line():
    with pytest.raises(ValueError, match="did you mean `faas.churn`"):
        homeostat.parallel_env("faas/fleet-v3", chrun=1.0)
    with pytest.raises(ValueError, match="max_cycles and steps are the same setting"):
        homeostat.parallel_env("faas/fleet-v3", max_cycles=3, steps=3)
    with pytest.raises(ValueError, match="a single agent.*gymnasium.make"):
        homeostat.parallel_env("faas/function-v2")
    with pytest.raises(ValueError, match="did you mean `faas/fleet-v3`"):
        homeostat.parallel_env("faas/flet-v1")
    with pytest.raises(ValueError, match="faas.chains"):
        homeostat.parallel_env("faas/chain-v2", chains=["uploader > nobody"])
    stages = homeostat.parallel_env("faas/chain-v2", chains=["uploader > compression"])
    assert len(stages.possible_agents) == 2


def test_the_picture_shows_everybody():
    env = homeostat.parallel_env("faas/fleet-v3", render_mode="rgb_array")
    env.reset(seed=1)
    first = env.render()
    env.step(sampled(env))
    assert env.render().shape == first.shape
    text = homeostat.parallel_env("faas/fleet-v3", render_mode="ansi")
    text.reset(seed=1)
    assert text.render().count("SLO") == 12
