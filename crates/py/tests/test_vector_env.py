"""Copies of one environment, under Gymnasium's contract of vector environments."""

import gymnasium
import numpy as np
import pytest
from conftest import SINGLE
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv

import homeostat
from homeostat import errors


def vector(name="homeostat/faas-function-v2", count=3, **keywords):
    return gymnasium.make_vec(name, num_envs=count, **keywords)


def test_it_is_a_vector_env_of_gymnasium():
    envs = vector()
    assert isinstance(envs, VectorEnv)
    assert isinstance(envs.unwrapped, homeostat.HomeostatVectorEnv)
    assert envs.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP
    assert envs.observation_space.shape == (3, 7) and envs.action_space.shape == (3,)


@pytest.mark.parametrize("mode", list(AutoresetMode)[:2])
@pytest.mark.parametrize("name", SINGLE)
def test_it_plays_what_gymnasium_plays_of_our_single_environments(name, mode):
    """Two hundred steps beside Gymnasium's own vector environment, ends of episodes included."""
    ours = vector(name, autoreset_mode=mode)
    theirs = SyncVectorEnv([lambda: gymnasium.make(name)] * 3, autoreset_mode=mode)
    assert ours.observation_space == theirs.observation_space
    assert ours.action_space == theirs.action_space
    theirs.action_space.seed(5)
    np.testing.assert_array_equal(ours.reset(seed=9)[0], theirs.reset(seed=9)[0])
    ends = 0
    for _ in range(200):
        actions = theirs.action_space.sample()
        own, other = ours.step(actions), theirs.step(actions)
        for mine, its in zip(own[:4], other[:4]):
            np.testing.assert_array_equal(mine, its)
            assert mine.dtype == its.dtype
        ended = own[2] | own[3]
        ends += ended.sum()
        infos, expected = own[4], other[4]
        for key in [key for key in expected if not key.startswith("_") and "final" not in key]:
            np.testing.assert_array_equal(infos[key], expected[key])
            np.testing.assert_array_equal(infos[f"_{key}"], expected[f"_{key}"])
        if mode is AutoresetMode.SAME_STEP and ended.any():
            np.testing.assert_array_equal(infos["_final_obs"], expected["_final_obs"])
            for place in np.flatnonzero(ended):
                np.testing.assert_array_equal(infos["final_obs"][place], expected["final_obs"][place])
            for key, values in expected["final_info"].items():
                np.testing.assert_array_equal(infos["final_info"][key], values)
    # Episodes of these last longer than this test.
    assert ends > 0 or any(long in name for long in ("acrobot", "gpu", "link", "mountain", "mesh"))


def test_returns_and_lengths_of_episodes_are_never_missing():
    envs = vector(steps=4)
    envs.reset(seed=1)
    total = np.zeros(3)
    for step in range(4):
        _, rewards, _, truncations, infos = envs.step(np.zeros(3, dtype=np.int64))
        total += rewards
        assert ("episode_return" in infos) == (step == 3)
    assert truncations.all()
    np.testing.assert_allclose(infos["episode_return"], total)
    np.testing.assert_array_equal(infos["episode_length"], [4, 4, 4])
    # The step that only resets is worth nothing, whatever is asked of it.
    _, rewards, _, truncations, infos = envs.step(np.full(3, 99))
    assert not rewards.any() and not truncations.any() and "episode_return" not in infos


def test_gymnasiums_own_statistics_agree():
    envs = gymnasium.wrappers.vector.RecordEpisodeStatistics(vector(steps=4))
    envs.reset(seed=1)
    for _ in range(4):
        infos = envs.step(np.zeros(3, dtype=np.int64))[4]
    np.testing.assert_allclose(infos["episode"]["r"], infos["episode_return"])


def test_a_copy_is_seeded_as_a_environment_of_its_own():
    envs = vector()
    first, _ = envs.reset(seed=20)
    for place in range(3):
        alone, _ = gymnasium.make("homeostat/faas-function-v2").reset(seed=20 + place)
        np.testing.assert_array_equal(first[place], alone)
    listed, _ = envs.reset(seed=[22, 21, 20])
    np.testing.assert_array_equal(listed, first[::-1])


def test_observations_are_yours_to_keep():
    envs = vector()
    kept, _ = envs.reset(seed=1)
    before = kept.copy()
    next_one = envs.step([1, 2, 3])[0]
    assert not np.shares_memory(kept, next_one)
    np.testing.assert_array_equal(kept, before)


def test_without_copy_every_call_returns_the_same_array():
    envs, plain = vector(copy=False), vector()
    first, _ = envs.reset(seed=1)
    np.testing.assert_array_equal(first, plain.reset(seed=1)[0])
    later = envs.step([1, 2, 3])[0]
    assert later is first
    np.testing.assert_array_equal(later, plain.step([1, 2, 3])[0])
    rewards = envs.step([0, 0, 0])[1]
    assert envs.step([0, 0, 0])[1] is not rewards


def test_without_copies_the_observations_may_be_the_actions():
    envs = vector("homeostat/toy-identity-box-v1", copy=False)
    observations, _ = envs.reset(seed=1)
    rewards = envs.step(observations)[1]
    assert np.all(rewards == 0.0), "what was seen was repeated"
    observations.flags.writeable = False
    with pytest.raises(ValueError, match="cannot write its observations"):
        envs.reset()


def test_without_autoreset_an_environment_that_ended_waits_for_its_reset():
    envs = vector(steps=2, autoreset_mode="Disabled")
    envs.reset(seed=1)
    envs.step([0, 0, 0])
    last, _, _, truncations, _ = envs.step([0, 0, 0])
    assert truncations.all()
    with pytest.raises(errors.ResetNeeded, match="stepped after its episode ended"):
        envs.step([0, 0, 0])
    mask = np.array([True, False, True])
    fresh, _ = envs.reset(options={"reset_mask": mask})
    np.testing.assert_array_equal(fresh[1], last[1])
    assert not np.array_equal(fresh[0], last[0])
    with pytest.raises(ValueError, match=r"reset_mask must be of bool and of shape \(3,\), got int64"):
        envs.reset(options={"reset_mask": np.array([1, 0, 1])})


@pytest.mark.parametrize(
    "actions, error, text",
    [
        ([0, 0], ValueError, "faas/function-v2 expects integers of shape (3,), got shape (2,)"),
        (np.zeros(3), TypeError, "expects integers of shape (3,), got float64 of shape (3,)"),
        (np.zeros((3, 1), int), ValueError, "expects integers of shape (3,), got shape (3, 1)"),
        ([0, 0, 7], ValueError, "action 7 is outside the action space Discrete(7)"),
        ([0, 0, -1], ValueError, "is outside the action space Discrete(7)"),
        (None, TypeError, "expects integers of shape (3,), got object"),
    ],
)
def test_wrong_actions_are_refused_and_no_copy_moves(actions, error, text):
    envs, plain = vector(), vector()
    envs.reset(seed=1)
    plain.reset(seed=1)
    with pytest.raises(error) as refused:
        envs.step(actions)
    assert text in str(refused.value)
    np.testing.assert_array_equal(envs.step([1, 2, 3])[0], plain.step([1, 2, 3])[0])


def test_misuse_is_named():
    envs = vector()
    with pytest.raises(errors.ResetNeeded, match="before reset"):
        envs.step([0, 0, 0])
    with pytest.raises(ValueError, match="3 copies need as many seeds, got 2"):
        envs.reset(seed=[1, 2])
    with pytest.raises(ValueError, match="num_envs must lie from 1 to 65536, got 0"):
        vector(count=0)
    with pytest.raises(ValueError, match="autoreset_mode must be NextStep, SameStep or Disabled"):
        vector(autoreset_mode="Sometimes")
    envs.close()
    with pytest.raises(gymnasium.error.ClosedEnvironmentError):
        envs.step([0, 0, 0])


def test_every_copy_has_its_picture():
    envs = vector(render_mode="rgb_array")
    envs.reset(seed=1)
    frames = envs.render()
    assert len(frames) == 3 and not np.array_equal(frames[0], frames[1])
    texts = vector(render_mode="ansi")
    texts.reset(seed=1)
    assert all("SLO" in text for text in texts.render())
