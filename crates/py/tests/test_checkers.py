"""The official checkers; run on every CPython that ./test finds."""

import warnings

import gymnasium
import pytest
from conftest import SHARED, SINGLE
from gymnasium.utils.env_checker import check_env

import homeostat

CHURN = {"faas/fleet-v3": [{}, {"churn": 0.5}], "faas/fleet-set-points-v1": [{}, {"churn": 0.5}],
         "faas/fleet-set-points-team-v1": [{}, {"churn": 0.5}]}
SHARED_WITH_SETTINGS = [(env_id, given) for env_id in SHARED for given in CHURN.get(env_id, [{}])]


@pytest.mark.parametrize("env_id", SINGLE)
def test_gymnasium_finds_nothing_wrong(env_id):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # Spaces of the classics are Gymnasium's own; their ends are not ours to change.
        warnings.filterwarnings("ignore", message=".*Box (observation|action) space (min|max)imum value is.*")
        warnings.filterwarnings("ignore", message=".*recommend using a symmetric and normalized space.*")
        check_env(gymnasium.make(env_id, disable_env_checker=True).unwrapped, skip_render_check=True)


@pytest.mark.parametrize("render_mode", ["ansi", "rgb_array"])
@pytest.mark.parametrize("env_id", SINGLE)
def test_gymnasium_renders_every_environment(env_id, render_mode):
    env = gymnasium.make(env_id, render_mode=render_mode)
    env.reset(seed=1)
    before = env.render()
    env.step(env.action_space.sample())
    after = env.render()
    if render_mode == "ansi":
        assert isinstance(after, str) and after.strip()
    else:
        assert after.dtype == "uint8" and after.ndim == 3 and after.shape[2] == 3
        assert after.shape == before.shape, "a film needs pictures of one size"
        assert len(set(map(tuple, after.reshape(-1, 3)))) > 1, "something is drawn"


@pytest.fixture
def pettingzoo():
    return pytest.importorskip("pettingzoo.test")


@pytest.mark.parametrize("env_id, settings", SHARED_WITH_SETTINGS)
def test_pettingzoo_finds_nothing_wrong(pettingzoo, env_id, settings):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # Where agents come and go they are not known beforehand; the checker allows that and says so.
        warnings.filterwarnings("ignore", message="(?s).*does not have possible_agents defined.*")
        warnings.filterwarnings("ignore", message="No agents present")
        pettingzoo.parallel_api_test(homeostat.parallel_env(env_id, **settings), num_cycles=120)


@pytest.mark.parametrize("env_id, settings", SHARED_WITH_SETTINGS)
def test_pettingzoo_sees_the_same_environment_from_the_same_seed(pettingzoo, env_id, settings):
    pettingzoo.parallel_seed_test(lambda: homeostat.parallel_env(env_id, **settings), num_cycles=60)


@pytest.mark.parametrize("name", ["faas_chain_v2", "faas_fleet_v3", "faas_fleet_set_points_v1"])
def test_pettingzoo_counts_the_cycles(pettingzoo, name):
    from homeostat import zoo

    pettingzoo.max_cycles_test(getattr(zoo, name))
