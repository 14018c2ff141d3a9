"""Whatever is given: exceptions of ours that name it, and never the end of the interpreter."""

import copy
import enum
import os
import pickle

import gymnasium
import numpy as np
import pytest

import homeostat
from homeostat import errors


class Interrupting:
    """Ctrl-C while NumPy looks at it."""

    def __array__(self, *_, **__):
        raise KeyboardInterrupt


class NoArray:
    def __array__(self, *_, **__):
        raise RuntimeError("no")


def endless():
    found = []
    found.append(found)
    return found


def playing(name, count=None):
    env = homeostat.HomeostatEnv(name) if count is None else homeostat.HomeostatVectorEnv(name, count)
    env.reset(seed=1)
    return env


def refused(call, text, kind=homeostat.Error):
    with pytest.raises(kind) as raised:
        call()
    assert isinstance(raised.value, homeostat.Error)
    assert text in str(raised.value)


@pytest.mark.parametrize(
    "settings, text",
    [
        ({"strain_cpu": endless()}, "cannot use keyword strain_cpu: a setting is nested at most 16 deep, got list"),
        ({"load": "\udcff"}, "cannot use keyword load: it is no Unicode text, got '\\udcff'"),
        ({"steps": 10**30}, "cannot use keyword steps: a whole number has at most 64 bits, got 1000000"),
        ({"load": {1: 2}}, "cannot use keyword load: names of settings are texts"),
        ({"steps": 2**63 - 1}, "cannot use faas.steps (from keyword steps)"),
        ({"config": 3}, "config must be a path, got int"),
        ({"config": "a\0b"}, "cannot use file a\0b"),
        ({"env": 3}, "env must be a text, got int"),
        ({"env": "\udcff"}, "env must be Unicode text, got '\\udcff'"),
    ],
)
def test_settings(settings, text):
    refused(lambda: homeostat.HomeostatEnv(**{"env": "faas/function-v2", **settings}), text)


def test_numbers_that_write_themselves_otherwise_are_numbers():
    number = enum.IntEnum("Number", {"TWO": 2}).TWO
    env = homeostat.HomeostatEnv("faas/function-v2", steps=number, demand_cores=np.float64(0.5))
    env.reset(seed=1)
    assert [env.step(0)[3] for _ in range(2)] == [False, True]


def test_paths_need_not_be_unicode():
    name = os.fsdecode(b"not \xff unicode")
    with open(f"{name}.toml", "w") as file:
        file.write("[faas]\nsteps = 2\n")
    env = homeostat.HomeostatEnv("faas/function-v2", config=f"{name}.toml")
    env.reset(seed=1)
    assert [env.step(0)[3] for _ in range(2)] == [False, True]
    run = homeostat.train("ppo", env="classic/cartpole-v1", steps=2048, progress=False, run_dir=os.fsencode(name))
    assert run.policy().act(np.zeros(4)) in (0, 1)
    assert len(run.evaluate(episodes=2)["agent-0"]["returns"]) == 2


def test_actions_below_zero_and_beyond_64_bits_are_named_as_they_were_given():
    env, envs = playing("faas/course-v2"), playing("faas/function-v2", 3)
    refused(lambda: env.step([-1, 0]), "action [-1, 0] is outside the action space MultiDiscrete([3, 3])", ValueError)
    huge = np.array([0, 2**63 + 1, 0], dtype=np.uint64)
    refused(lambda: envs.step(huge), "action 9223372036854775809 is outside the action space", ValueError)
    refused(lambda: envs.step([0, 0, -5]), "action -5 is outside the action space Discrete(7)", ValueError)


def test_arrays_are_read_however_they_lie_in_memory():
    plain = playing("classic/pendulum-v1", 2).step(np.array([[1.0], [0.5]], np.float32))[1]
    shifted = np.frombuffer(b"\0" + np.array([1.0, 0.5], np.float32).tobytes(), np.float32, offset=1)
    assert not shifted.flags.aligned
    strided = np.array([1.0, 9.0, 0.5, 9.0], np.float32)[::2]
    for given in (shifted, strided, np.array([1.0, 0.5], ">f4"), np.array([1.0, 0.5], "f2")):
        np.testing.assert_array_equal(playing("classic/pendulum-v1", 2).step(given.reshape(2, 1))[1], plain)


def test_ctrl_c_while_an_action_is_read_is_ctrl_c():
    run = homeostat.train("ppo", env="classic/cartpole-v1", steps=2048, progress=False, run_dir="run")
    for call in (playing("faas/function-v2").step, run.policy().act):
        with pytest.raises(KeyboardInterrupt):
            call(Interrupting())
        refused(lambda: call(NoArray()), "got NoArray", TypeError)


@pytest.mark.parametrize("seed", [np.int64(5), np.array(5), np.uint8(5)])
def test_every_kind_of_integer_is_a_seed(seed):
    first = playing("faas/function-v2").reset(seed=5)[0]
    np.testing.assert_array_equal(playing("faas/function-v2").reset(seed=seed)[0], first)
    np.testing.assert_array_equal(playing("faas/function-v2", 1).reset(seed=seed)[0][0], first)


@pytest.mark.parametrize(
    "seed, text",
    [
        (-1, "a seed lies from 0 to 2**64 - 1, got -1"),
        (2**64, "a seed lies from 0 to 2**64 - 1, got 18446744073709551616"),
        ("7", "a seed is an integer or None, got str"),
        (1.5, "a seed is an integer or None, got float"),
    ],
)
def test_seeds(seed, text):
    refused(lambda: playing("faas/function-v2").reset(seed=seed), text)
    refused(lambda: playing("faas/function-v2", 2).reset(seed=seed), text)
    refused(lambda: playing("faas/function-v2", 2).reset(seed=[0, seed]), text)


@pytest.mark.parametrize(
    "keywords, text",
    [
        ({"num_envs": 2**64}, "num_envs must lie from 1 to 65536, got 18446744073709551616"),
        ({"num_envs": 1.5}, "num_envs must be an integer, got 1.5"),
        ({"num_envs": True}, "num_envs must be an integer, got True"),
        ({"copy": "no"}, "copy must be True or False, got 'no'"),
    ],
)
def test_vector_environments(keywords, text):
    refused(lambda: homeostat.HomeostatVectorEnv("faas/function-v2", **keywords), text)
    envs = playing("faas/function-v2", np.int64(2))
    refused(lambda: envs.reset(seed=np.zeros((2, 2), int)), "a seed is an integer or None, got ndarray")
    refused(lambda: envs.reset(options="all"), "options must be a dictionary, got str")


@pytest.mark.parametrize("duplicate", [pickle.dumps, copy.copy, copy.deepcopy])
def test_environments_are_not_copied_in_the_middle(duplicate):
    for env in (playing("faas/function-v2"), playing("faas/function-v2", 2), gymnasium.make("homeostat/faas-function-v2")):
        refused(lambda: duplicate(env.unwrapped), "faas/function-v2 can be neither pickled nor copied: make another")


def test_policies_and_runs_are_sent_to_other_processes():
    run = homeostat.train("ppo", env="classic/cartpole-v1", steps=2048, progress=False, run_dir="run")
    policy = run.policy(seed=4)
    sent, rows = pickle.loads(pickle.dumps(policy)), np.zeros((32, 4))
    np.testing.assert_array_equal(sent.act(rows, deterministic=False), policy.act(rows, deterministic=False))
    assert pickle.loads(pickle.dumps(run)).path == run.path


def test_calls_of_the_workbench():
    run = homeostat.train("ppo", env="classic/cartpole-v1", steps=2048, progress=False, run_dir="run")
    most = 2**63 - 1
    for call, text in [
        (lambda: run.evaluate(episodes=-1), f"episodes must lie from 0 to {most}, got -1"),
        (lambda: run.evaluate(episodes=0), "episodes = 0 (from flag --episodes) is out of range: it must be at least 1"),
        (lambda: run.evaluate(episodes=1.5), "episodes must be an integer, got 1.5"),
        (lambda: run.evaluate(seed=-1), "a seed lies from 0 to 2**64 - 1, got -1"),
        (lambda: run.evaluate(seed=None), "a seed is an integer here, got None"),
        (lambda: run.evaluate(stochastic="very"), "stochastic must be True or False, got 'very'"),
        (lambda: run.policy(agent="first"), "agent must be an integer, got 'first'"),
        (lambda: run.policy(seed=-1), "a seed lies from 0 to 2**64 - 1, got -1"),
        (lambda: run.policy().act(np.zeros(4), deterministic=None), "deterministic must be True or False, got None"),
        (lambda: run.curve(agent=9), "run has no agent 9"),
        (lambda: homeostat.load_policy(3), "a run must be a path, got int"),
        (lambda: homeostat.Run(3), "path must be a path, got int"),
        (lambda: homeostat.compare(3, run), "a run must be a path, got int"),
        (lambda: homeostat.plot(path="x.svg"), "plot needs at least one run"),
        (lambda: homeostat.plot(run, path="x.svg", goals="abc"), "goals must be a sequence of numbers, got 'abc'"),
        (lambda: homeostat.plot(run, path="x.svg", goals=[np.nan]), "goals must be finite, got [nan]"),
        (lambda: homeostat.plot(run, path="x.svg", title="\udcff"), "title must be Unicode text, got '\\udcff'"),
        (lambda: homeostat.plot(run, path="nowhere/x.svg"), "cannot write nowhere/x.svg"),
        (lambda: homeostat.train(env=3), "env must be a text, got int"),
        (lambda: homeostat.train(run_dir=3), "run_dir must be a path, got int"),
        (lambda: homeostat.train(csv="yes"), "csv must be True or False, got 'yes'"),
        (lambda: homeostat.train(progress=3), "progress must be None, True, False or a function, got 3"),
        (lambda: homeostat.train(resume=run, steps=-1), f"steps must lie from 1 to {most}, got -1"),
        (lambda: homeostat.train(steps=2**70), "cannot use keyword steps: a whole number has at most 64 bits"),
        (lambda: homeostat.card(3), "env must be a text, got int"),
    ]:
        refused(call, text)


def test_a_run_that_was_killed_in_the_middle_of_a_line_is_read():
    run = homeostat.train("ppo", env="classic/cartpole-v1", steps=4096, progress=False, run_dir="run")
    file = run.path / "metrics.jsonl"
    whole = file.read_text()
    file.write_text(whole + whole[:20])
    assert list(run.metrics["step"]) == [2048, 4096]
    file.write_text(whole[:20])
    steps, returns = run.curve()
    assert len(steps) == len(returns) == 0


@pytest.mark.parametrize("value", [np.array([128, 0]), "128", None, 64, float("nan")])
def test_actions_of_the_course(value):
    env = homeostat.ServerlessEnv(seed=1)
    env.reset()
    refused(lambda: env.step({"vertical": value}), "vertical must be one of (-128, 0, 128), got ")
    assert env.step({"vertical": np.int64(128), "horizontal": 1.0})[1] > -1


def test_agents_that_cannot_be_have_no_space():
    pytest.importorskip("pettingzoo")
    env = homeostat.parallel_env("faas/fleet-v3", functions=2)
    refused(lambda: env.action_space("nobody"), "faas/fleet-v3 has no agent 'nobody': there are agent-0 to agent-1")
    refused(lambda: homeostat.parallel_env(3), "env must be a text, got int", errors.WrongType)
    refused(lambda: pickle.dumps(env), "faas/fleet-v3 can be neither pickled nor copied")
