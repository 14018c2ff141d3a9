"""The contract of the course."""

import numpy as np
import pytest

import homeostat


def test_states_are_six_numbers_and_steps_give_state_and_reward():
    env = homeostat.ServerlessEnv(seed=1)
    state = env.reset()
    assert state.shape == (6,) and len(env.STATE) == 6
    state, reward = env.step({"vertical": 128, "horizontal": 1})
    assert state.shape == (6,) and isinstance(reward, float)
    assert np.all((state >= 0) & (state <= 1))


def test_an_action_does_what_it_says():
    env = homeostat.ServerlessEnv(seed=1, random_start=False)
    before = env.reset()
    after, _ = env.step({"vertical": 0, "horizontal": 1})
    assert after[4] - before[4] == pytest.approx(1 / 20, abs=1e-6)
    shares = after[2] * 20480 / (after[4] * 20)
    wider, _ = env.step({"vertical": 128})
    assert wider[2] * 20480 / (wider[4] * 20) - shares == pytest.approx(128, abs=2)


def test_reversing_the_direction_costs_one():
    env = homeostat.ServerlessEnv(seed=1)
    env.reset()
    env.step({"horizontal": 1})
    _, reward = env.step({"horizontal": -1})
    assert reward < 0.01


def test_episodes_follow_the_seed_and_end_when_the_caller_wants():
    def play(env):
        env.reset()
        return [env.step({"vertical": 0, "horizontal": 0})[1] for _ in range(60)]

    one, two = homeostat.ServerlessEnv(seed=4), homeostat.ServerlessEnv(seed=4)
    first = play(one)
    assert first == play(two)
    assert first != play(one), "the next episode is another"
    assert len(one.actions) == 9


@pytest.mark.parametrize(
    "action, text",
    [
        ({"vertical": 64}, "vertical must be one of (-128, 0, 128), got 64"),
        ({"horizontal": 2}, "horizontal must be one of (-1, 0, 1), got 2"),
        ({"diagonal": 1}, "an action has the parts 'vertical' and 'horizontal', got 'diagonal'"),
        ((128, 1), "an action is a dictionary such as {'vertical': 128, 'horizontal': 1}, got tuple"),
    ],
)
def test_wrong_actions_are_refused(action, text):
    env = homeostat.ServerlessEnv(seed=1)
    env.reset()
    with pytest.raises((TypeError, ValueError)) as refused:
        env.step(action)
    assert text in str(refused.value)


def test_a_step_before_reset_is_refused():
    with pytest.raises(homeostat.Error, match="before reset"):
        homeostat.ServerlessEnv(seed=1).step({})
