"""One agent in one environment, under Gymnasium's contract."""

import threading
import time

import gymnasium
import numpy as np
import pytest
from conftest import SINGLE, counted_meanwhile

import homeostat
from homeostat import errors


def made(name="faas/function-v2", **settings):
    return homeostat.HomeostatEnv(name, **settings)


def test_it_is_an_env_of_gymnasium():
    env = gymnasium.make("homeostat/faas-function-v2")
    assert isinstance(env, gymnasium.Env)
    assert isinstance(env.unwrapped, homeostat.HomeostatEnv)
    assert env.observation_space.shape == (7,) and env.action_space.n == 7
    assert "cpu.shares" in env.unwrapped.card


def test_every_environment_of_the_program_is_registered():
    assert len(SINGLE) >= 11
    for facts in homeostat.environments():
        assert facts.gymnasium_id in gymnasium.registry
        assert facts.summary


@pytest.mark.parametrize("name", SINGLE)
def test_the_same_seed_is_the_same_episode_and_no_seed_another(name):
    def episode(env, seed):
        env.action_space.seed(3)
        first, _ = env.reset(seed=seed)
        steps = [env.step(env.action_space.sample()) for _ in range(5)]
        return [first] + [step[0] for step in steps], [step[1] for step in steps]

    env = gymnasium.make(name)
    one, again = episode(env, 7), episode(env, 7)
    np.testing.assert_equal(one[0], again[0])
    assert one[1] == again[1]
    if "grid-world" not in name and "mountain" not in name:
        other = episode(env, None)
        assert not np.array_equal(one[0], other[0])


def test_unseeded_environments_differ():
    drawn = {tuple(made().reset()[0]) for _ in range(5)}
    assert len(drawn) > 1


def test_an_observation_stays_as_it_was():
    env = made()
    kept, _ = env.reset(seed=1)
    before = kept.copy()
    env.step(1)
    env.reset(seed=2)
    np.testing.assert_array_equal(kept, before)
    kept[:] = -1.0
    again, _ = env.reset(seed=1)
    np.testing.assert_array_equal(again, before)


def test_episodes_are_truncated_by_the_setting_and_not_terminated():
    env = made(steps=4)
    env.reset(seed=1)
    ends = [env.step(0)[2:4] for _ in range(4)]
    assert ends == [(False, False)] * 3 + [(False, True)]
    with pytest.raises(errors.ResetNeeded, match="stepped after its episode ended: call reset"):
        env.step(0)


def test_figures_stand_beside_a_step():
    env = made()
    env.reset(seed=1)
    info = env.step(0)[4]
    assert info["settled"] > 0 and info["containers"] >= 1 and 0 < info["p99_ms"] < 60_000


def test_settings_reach_the_environment():
    calm, busy = made(demand_cores=0.1), made(demand_cores=3.0)
    figures = []
    for env in (calm, busy):
        env.reset(seed=1)
        figures.append(env.step(0)[4]["settled"])
    assert figures[1] > 5 * figures[0]


def test_a_configuration_file_is_read_and_keywords_win(tmp_path):
    file = tmp_path / "my.toml"
    file.write_text("[faas]\nsteps = 3\nload = 'poisson'\n")

    def length(**settings):
        env = made(config=str(file), **settings)
        env.reset(seed=1)
        return next(count for count in range(1, 99) if env.step(0)[3])

    assert length() == 3
    assert length(steps=2) == 2


@pytest.mark.parametrize(
    "settings, text",
    [
        ({"lod": "bursty"}, "unknown setting `faas.lod` from keyword lod, did you mean `faas.load`?"),
        ({"functions": 0}, "faas.functions = 0 (from keyword functions) is out of range: it must lie from 1"),
        ({"functions": "24"}, "cannot use faas.functions (from keyword functions): invalid type"),
        ({"load": "burst"}, "unknown variant `burst`, expected one of `fluctuating`"),
        ({"telemetry_noise": float("nan")}, "faas.telemetry_noise = nan (from keyword telemetry_noise)"),
        ({"config": "absent.toml"}, "cannot use file absent.toml"),
    ],
)
def test_wrong_settings_are_refused_in_the_words_of_the_command_line(settings, text):
    with pytest.raises(ValueError) as refused:
        made(**settings)
    assert text in str(refused.value)


def test_a_setting_that_is_no_value_is_named():
    with pytest.raises(TypeError, match="cannot use keyword load: a setting is a number.*got object"):
        made(load=object())


def test_numbers_of_numpy_are_numbers():
    env = made(steps=np.int64(2), demand_cores=np.float32(0.5), strain_cpu=np.zeros(2))
    env.reset(seed=1)
    assert [env.step(0)[3] for _ in range(2)] == [False, True]


def test_environments_without_settings_say_so():
    with pytest.raises(ValueError, match="classic/cartpole-v1 has no settings, got functions"):
        gymnasium.make("homeostat/classic-cartpole-v1", functions=3)


@pytest.mark.parametrize("name", ["faas/functon-v1", "homeostat/faas-functon-v1"])
def test_an_unknown_environment_is_answered_with_the_nearest(name):
    with pytest.raises(ValueError, match="did you mean `faas/function-v2`"):
        made(name)


def test_gymnasium_answers_for_ids_it_does_not_know():
    with pytest.raises(gymnasium.error.NameNotFound, match="faas-function"):
        gymnasium.make("homeostat/faas-functon-v1")


@pytest.mark.filterwarnings("ignore:.*is out of date.*:DeprecationWarning")
def test_a_environment_of_many_agents_says_how_to_make_it():
    with pytest.raises(ValueError, match=r"homeostat.parallel_env\(\"faas/fleet-v3\"\)"):
        gymnasium.make("homeostat/faas-fleet-v3")


@pytest.mark.parametrize(
    "action, error, text",
    [
        (7, ValueError, "action 7 is outside the action space Discrete(7) of faas/function-v2"),
        (-1, ValueError, "action -1 is outside the action space Discrete(7)"),
        (10**30, ValueError, "is outside the action space Discrete(7)"),
        (1.5, TypeError, "expects an integer, got float64 of shape ()"),
        ("up", TypeError, "expects an integer, got <U2"),
        (None, TypeError, "expects an integer, got object"),
        ([1, 2], ValueError, "expects an integer, got shape (2,)"),
    ],
)
def test_wrong_actions_are_refused_and_the_environment_goes_on(action, error, text):
    env = made()
    env.reset(seed=1)
    with pytest.raises(error) as refused:
        env.step(action)
    assert text in str(refused.value)
    assert isinstance(refused.value, homeostat.Error)
    env.step(0)


@pytest.mark.parametrize(
    "name, action, text",
    [
        ("faas/course-v2", [1], "expects integers of shape (2,), got shape (1,)"),
        ("faas/course-v2", [1.0, 2.0], "expects integers of shape (2,), got float64"),
        ("faas/course-v2", [1, 3], "is outside the action space MultiDiscrete([3, 3])"),
        ("faas/course-v2", [[1, 2], [3]], "expects integers of shape (2,), got list"),
        ("classic/pendulum-v1", [[0.0]], "expects numbers of shape (1,), got shape (1, 1)"),
        ("classic/pendulum-v1", [np.nan], "is outside the action space"),
        ("classic/pendulum-v1", ["a"], "expects numbers of shape (1,), got <U1"),
    ],
)
def test_wrong_arrays_are_refused_with_what_was_expected_and_what_came(name, action, text):
    env = made(name)
    env.reset(seed=1)
    with pytest.raises((TypeError, ValueError)) as refused:
        env.step(action)
    assert text in str(refused.value)


@pytest.mark.parametrize("action", [1, np.int64(1), np.int32(1), np.uint8(1), np.array(1)])
def test_every_kind_of_integer_is_an_action(action):
    env, plain = made(), made()
    env.reset(seed=1)
    plain.reset(seed=1)
    np.testing.assert_array_equal(env.step(action)[0], plain.step(1)[0])


def test_arrays_that_are_not_contiguous_are_read_right():
    env, plain = made("faas/course-v2"), made("faas/course-v2")
    env.reset(seed=1)
    plain.reset(seed=1)
    strided = np.array([2, 9, 0, 9], dtype=np.int64)[::2]
    assert env.step(strided)[1] == plain.step([2, 0])[1]


def test_a_step_before_reset_and_a_closed_environment_are_refused():
    env = made()
    with pytest.raises(gymnasium.error.ResetNeeded, match="stepped before reset: call reset first"):
        env.step(0)
    env.close()
    env.close()
    for call in (lambda: env.step(0), env.reset, lambda: made().close() or env.reset()):
        with pytest.raises(gymnasium.error.ClosedEnvironmentError, match="is closed: make a new one"):
            call()


@pytest.mark.parametrize("seed, error", [(-1, Exception), (2**64, ValueError), ("7", Exception), (1.5, Exception)])
def test_wrong_seeds_are_refused(seed, error):
    with pytest.raises(error):
        made().reset(seed=seed)


def test_an_unknown_render_mode_is_refused():
    with pytest.raises(ValueError, match="render_mode must be None, 'ansi' or 'rgb_array', got 'human'"):
        made(render_mode="human")


def test_the_picture_shows_the_platform():
    env = made("faas/shared-v2", render_mode="rgb_array")
    env.reset(seed=1)
    picture = env.render()
    colours = set(map(tuple, picture.reshape(-1, 3)))
    met, violated = (45, 164, 78), (207, 34, 46)
    assert met in colours or violated in colours
    assert picture.shape[1] == 860 and picture.shape[0] > 400


def test_other_threads_run_while_a_environment_does():
    """The interpreter's lock is free during a step: a thread that counts goes on counting."""
    env = made("faas/shared-v2", functions=200, window_s=600.0)
    env.reset(seed=1)
    meanwhile, took = counted_meanwhile(lambda: env.step(0))
    # With the lock held it would have counted once or twice.
    assert took > 0.05, f"the step was too short to tell: {took}"
    assert meanwhile > 5, f"counted {meanwhile} times in {took} s"


def test_a_environment_in_use_says_so_to_another_thread():
    env = made("faas/shared-v2", functions=200, window_s=600.0)
    env.reset(seed=1)
    raised = []

    def intrude():
        time.sleep(0.02)
        try:
            env.step(0)
        except homeostat.Error as error:
            raised.append(str(error))

    thread = threading.Thread(target=intrude)
    thread.start()
    env.step(0)
    thread.join()
    assert raised == ["faas/shared-v2 is in use by another thread: give each its own"]
