"""The trainer, its runs and its policies."""

import json
import os
import signal
import struct
import subprocess
import sys
import time
import types

import gymnasium
import numpy as np
import pytest
from conftest import counted_meanwhile

import homeostat

QUICK = {"progress": False, "run_dir": "run"}


def cartpole(**keywords):
    given = {"steps": 8192, "seed": 3, **QUICK, **keywords}
    return homeostat.train("ppo", env="classic/cartpole-v1", **given)


def test_a_run_has_everything_that_the_command_line_writes():
    run = cartpole(agents=2)
    assert sorted(path.name for path in run.path.iterdir()) == [
        "checkpoints", "config.toml", "metrics.jsonl", "policies", "run.json", "run.lock",
        "summary.json", "timing.jsonl",
    ]
    assert run.summary["status"] == "finished" and run.summary["steps"] == 8192
    assert run.timing["steps_per_s"] > 0
    assert len(run.policies) == 2
    assert "clip" in run.config


def test_the_same_seed_learns_the_same_whatever_the_threads():
    one = cartpole(run_dir="one", agents=2, threads=1)
    two = cartpole(run_dir="two", agents=2, threads=2)
    assert (one.path / "metrics.jsonl").read_bytes() == (two.path / "metrics.jsonl").read_bytes()
    for first, second in zip(one.policies, two.policies):
        assert first.read_bytes() == second.read_bytes()


def test_metrics_are_columns_and_frames():
    pandas = pytest.importorskip("pandas")
    run = cartpole(agents=2)
    columns = run.metrics
    assert columns["step"].dtype == np.int64 and set(columns["agent"]) == {0, 1}
    steps, returns = run.curve()
    assert list(steps) == [2048, 4096, 6144, 8192] and returns[-1] > returns[0]
    own_steps, own = run.curve(agent=1)
    assert len(own) == 4 and not np.array_equal(own, returns)
    frame = run.frame()
    assert isinstance(frame, pandas.DataFrame) and list(frame.columns) == list(columns)


def test_policies_learn_and_act_on_one_observation_or_many():
    run = cartpole(steps=40_960)
    policy = homeostat.load_policy(run.path)
    assert (policy.env, policy.algorithm) == ("classic/cartpole-v1", "ppo")
    env = gymnasium.make("homeostat/classic-cartpole-v1")
    observations = np.array([env.reset(seed=seed)[0] for seed in range(5)])
    batch = policy.act(observations)
    assert batch.shape == (5,) and batch.dtype == np.int64
    for row, action in zip(observations, batch):
        assert policy.act(row) == action and env.action_space.contains(policy.act(row))
    total, observation = 0.0, env.reset(seed=1)[0]
    for _ in range(500):
        observation, reward, terminated, truncated, _ = env.step(policy.act(observation))
        total += reward
        if terminated or truncated:
            break
    assert total > 150, "a random policy balances for about 22 steps"
    played = run.evaluate(episodes=20)["agent-0"]
    assert played["returns"].shape == (20,) and played["returns"].mean() > 150


def test_drawn_actions_follow_the_seed():
    run = cartpole(steps=2048)
    observation = np.zeros((64, 4), np.float32)
    drawn = [homeostat.load_policy(run, seed=seed).act(observation, deterministic=False) for seed in (1, 1, 2)]
    np.testing.assert_array_equal(drawn[0], drawn[1])
    assert not np.array_equal(drawn[0], drawn[2])
    assert len(set(drawn[0])) == 2, "an untrained policy draws both actions"


@pytest.mark.parametrize(
    "algorithm, env, shape",
    [("ddpg", "classic/pendulum-v1", (1,)), ("ppo", "faas/course-v2", (2,)), ("q-learning", "toy/grid-world-v1", ())],
)
def test_actions_have_the_form_of_their_space(algorithm, env, shape):
    run = homeostat.train(algorithm, env=env, steps=600, **QUICK)
    policy, played = run.policy(), homeostat.HomeostatEnv(env)
    assert policy.action_space == played.action_space
    assert policy.observation_space == played.observation_space
    observation, _ = played.reset(seed=1)
    action = policy.act(observation)
    assert np.shape(action) == shape and played.action_space.contains(action)
    played.step(action)
    assert np.shape(policy.act(np.stack([observation, observation]))) == (2, *shape)


@pytest.mark.parametrize(
    "observation, text",
    [
        (np.zeros(3), r"expects Box.* of shape \(4,\), or several in rows, got shape \(3,\)"),
        (np.zeros((2, 3, 4)), r"got shape \(2, 3, 4\)"),
        (["a"] * 4, "a policy of classic/cartpole-v1 expects Box.*, got <U1 of shape"),
        (np.zeros(4, complex), "got complex128"),
        (np.full(4, "1.0"), "got <U3"),
        ([0.0, np.nan, 0.0, 0.0], "got \\[0.0, NaN, 0.0, 0.0\\]"),
    ],
)
def test_wrong_observations_are_refused(observation, text):
    policy = cartpole(steps=2048).policy()
    with pytest.raises((TypeError, ValueError), match=text):
        policy.act(observation)


def test_teams_train_and_every_agent_has_a_policy():
    run = homeostat.train("simppo", steps=200, faas={"functions": 3}, log_every=100, **QUICK)
    assert run.summary["algorithm"] == "simppo" and run.summary["env"] == "faas/fleet-v3"
    assert [path.stem for path in run.policies] == ["agent-0", "agent-1", "agent-2"]
    with pytest.raises(ValueError, match="several policies, agent-0, agent-1, agent-2: say agent=0"):
        homeostat.load_policy(run)
    with pytest.raises(ValueError, match="no policy of agent 7: there are agent-0, agent-1, agent-2"):
        homeostat.load_policy(run, agent=7)
    policies = {f"agent-{number}": run.policy(number) for number in range(3)}
    pytest.importorskip("pettingzoo")
    played = homeostat.parallel_env("faas/fleet-v3", config=str(run.path / "config.toml"))
    observations, _ = played.reset(seed=1)
    played.step({agent: policies[agent].act(seen) for agent, seen in observations.items()})
    assert set(run.evaluate(episodes=2)) == set(policies)


@pytest.mark.parametrize(
    "keywords, text",
    [
        ({"algorithm": "pppo"}, 'run.algorithm = "pppo" (from keyword algorithm) is out of range'),
        ({"env": "classic/cartpol-v1"}, "did you mean `classic/cartpole-v1`?"),
        ({"steps": 0}, "run.steps = 0 (from keyword steps) is out of range: it must be at least 1"),
        ({"ppo": {"clip": -1}}, "ppo.clip = -1 (from keyword ppo) is out of range"),
        ({"ppo": {"clipp": 1}}, "unknown setting `ppo.clipp` from keyword ppo, did you mean `ppo.clip`?"),
        ({"stepps": 3}, "unknown setting `run.stepps` from keyword stepps, did you mean `run.steps`?"),
        ({"preset": "simpo"}, "did you mean `simppo`?"),
        ({"config": "absent.toml"}, "cannot use file absent.toml"),
        ({"resume": "absent"}, "absent is not a run directory: it does not exist"),
    ],
)
def test_mistakes_are_named_in_the_words_of_the_command_line(keywords, text):
    with pytest.raises(homeostat.UsageError) as refused:
        homeostat.train(progress=False, **keywords)
    assert text in str(refused.value)


def test_a_section_is_a_dictionary():
    with pytest.raises(TypeError, match=r"the section \[ppo\] is a dictionary of its settings, got float"):
        homeostat.train(ppo=0.1)


def test_a_directory_is_not_taken_twice():
    cartpole(steps=2048)
    with pytest.raises(ValueError, match="run exists already: use another --run-dir, or resume it with --resume"):
        cartpole(steps=2048)


def test_without_a_directory_runs_are_numbered():
    first = cartpole(run_dir=None, steps=2048)
    second = cartpole(run_dir=None, steps=2048)
    assert str(first.path) == "runs/ppo-cartpole-v1-seed3"
    assert str(second.path) == "runs/ppo-cartpole-v1-seed3-2"


def test_environment_variables_count_and_keywords_win(monkeypatch):
    monkeypatch.setenv("HOMEOSTAT_RUN_STEPS", "4096")
    monkeypatch.setenv("HOMEOSTAT_PPO_CLIP", "0.15")
    run = cartpole(steps=2048)
    assert run.summary["steps"] == 2048 and "clip = 0.15" in run.config


def test_a_larger_budget_goes_on_bit_for_bit():
    # Without the preset, whose learning rate falls over the whole of a budget.
    whole = cartpole(run_dir="whole", steps=16_384, preset="off")
    part = cartpole(run_dir="part", steps=8192, preset="off")
    more = homeostat.train(resume=part, steps=16_384, progress=False)
    assert more.path == part.path
    assert (part.path / "metrics.jsonl").read_bytes() == (whole.path / "metrics.jsonl").read_bytes()
    assert part.policies[0].read_bytes() == whole.policies[0].read_bytes()
    with pytest.raises(ValueError, match="leave out env, seed or start a new one"):
        homeostat.train(resume=part, env="x", seed=3)


def test_ctrl_c_saves_the_run_and_it_goes_on_bit_for_bit():
    # Tests that run in the background ignore Ctrl-C, and so do their children.
    code = """
import signal
import homeostat
signal.signal(signal.SIGINT, signal.default_int_handler)
try:
    homeostat.train("ppo", env="classic/cartpole-v1", seed=3, steps=10_000_000, run_dir="run", preset="off",
                    progress=lambda told: print(told["step"], flush=True))
except KeyboardInterrupt as interruption:
    print("interrupted:", interruption)
"""
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    process.stdout.readline()
    process.send_signal(signal.SIGINT)
    sent = time.monotonic()
    # A round takes a few milliseconds; a machine that is busy otherwise takes its time.
    rest, _ = process.communicate(timeout=120)
    assert time.monotonic() - sent < 60
    assert 'interrupted: the run is saved; go on with homeostat.train(resume="run")' in rest
    run = homeostat.Run("run")
    assert run.summary["status"] == "interrupted"
    reached = run.summary["steps"]
    homeostat.train(resume="run", steps=reached + 4096, progress=False)
    whole = cartpole(run_dir="whole", steps=reached + 4096, preset="off")
    assert (run.path / "metrics.jsonl").read_bytes() == (whole.path / "metrics.jsonl").read_bytes()


@pytest.mark.parametrize("algorithm, env", [("ppo", "classic/cartpole-v1"), ("simppo", "faas/fleet-v3")])
def test_ctrl_c_ends_an_evaluation(algorithm, env):
    homeostat.train(algorithm, env=env, steps=256, log_every=256, ppo={"steps_per_update": 32}, **QUICK)
    code = """
import signal, threading, time
import homeostat
signal.signal(signal.SIGINT, signal.default_int_handler)
threading.Timer(0.5, lambda: print("playing", flush=True)).start()
try:
    homeostat.evaluate("run", episodes=10**12)
except KeyboardInterrupt:
    print("interrupted", threading.active_count(), flush=True)
"""
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == "playing\n"
        process.send_signal(signal.SIGINT)
        rest, _ = process.communicate(timeout=60)
    finally:
        process.kill()
    assert (rest, process.returncode) == ("interrupted 1\n", 0)


def test_what_a_progress_function_raises_ends_the_run_in_order():
    def stop(told):
        raise RuntimeError(f"seen enough at {told['step']}")

    with pytest.raises(RuntimeError, match="seen enough at"):
        cartpole(steps=10_000_000, progress=stop)
    assert homeostat.Run("run").summary["status"] == "interrupted"


def test_progress_is_a_bar_on_a_terminal_and_lines_elsewhere(capfd):
    cartpole(progress=True)
    assert "step 8192/8192  return " in capfd.readouterr().err
    cartpole(run_dir="quiet", progress=None)
    assert capfd.readouterr().err == ""
    from homeostat.progress import TerminalBar

    bar = TerminalBar()
    bar(50, 100, 12.5, 1234.0)
    bar.close()
    assert "████████████░░░░░░░░░░░░  50%  return 12.50  1,234 steps/s" in capfd.readouterr().err


def in_a_notebook(monkeypatch):
    shell = type("ZMQInteractiveShell", (), {})()
    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=lambda: shell))


def test_a_notebook_without_widgets_has_a_bar_of_letters(capfd, monkeypatch):
    in_a_notebook(monkeypatch)
    monkeypatch.setitem(sys.modules, "ipywidgets", None)
    monkeypatch.delitem(sys.modules, "tqdm.notebook", raising=False)
    cartpole(progress=None)
    assert "100%  return " in capfd.readouterr().err


def test_a_notebook_with_widgets_has_the_bar_of_tqdm(monkeypatch):
    tqdm = pytest.importorskip("tqdm")
    in_a_notebook(monkeypatch)
    made = []

    def bar(**keywords):
        made.append(tqdm.tqdm(disable=True, **keywords))
        return made[0]

    notebook = types.SimpleNamespace(tqdm=bar, IProgress=object)
    monkeypatch.setitem(sys.modules, "tqdm.notebook", notebook)
    cartpole(progress=None)
    assert len(made) == 1 and made[0].total == 8192


@pytest.mark.parametrize("has_tqdm", [True, False])
def test_a_terminal_has_a_bar(has_tqdm):
    fcntl, pty, termios = (pytest.importorskip(name) for name in ("fcntl", "pty", "termios"))
    if has_tqdm:
        pytest.importorskip("tqdm")
    hide = "" if has_tqdm else "import sys; sys.modules['tqdm'] = None"
    code = f"""
{hide}
import homeostat
homeostat.train("ppo", env="classic/cartpole-v1", steps=8192, run_dir="run")
"""
    terminal, end = pty.openpty()
    # A terminal of no width has no room for a bar.
    fcntl.ioctl(end, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))
    process = subprocess.Popen([sys.executable, "-c", code], stderr=end)
    os.close(end)
    shown = b""
    try:
        while True:
            shown += os.read(terminal, 4096)
    except OSError:
        # The other end is closed.
        pass
    finally:
        os.close(terminal)
    assert process.wait() == 0, shown
    text = shown.decode()
    assert "100%" in text and "return " in text and "\r" in text
    assert ("█░" in text) != has_tqdm, "our bar, or that of tqdm"


def test_other_threads_run_while_it_trains():
    meanwhile, took = counted_meanwhile(lambda: cartpole(steps=40_960))
    assert meanwhile > 20 * took, f"counted {meanwhile} times in {took} s"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is nothing to fork here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_trains_and_plays_too():
    """Threads do not survive a fork: nothing must wait for those of the parent."""
    cartpole(run_dir="parent", steps=2048, agents=2).evaluate(episodes=2)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            cartpole(run_dir="child", steps=2048, agents=2).evaluate(episodes=2)
            code = 0
        finally:
            os._exit(code)
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            break
        time.sleep(0.05)
    else:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        pytest.fail("the child waits for threads that it does not have")
    assert status == 0 and homeostat.Run("child").summary["status"] == "finished"


def test_runs_are_held_against_each_other():
    short = cartpole(run_dir="short", agents=4, steps=4096)
    long = cartpole(run_dir="long", agents=4, steps=40_960)
    compared = homeostat.compare(short, long)
    assert len(compared) == 2 and compared[1]["return_mean_shows"] == "better"
    assert compared.columns["return_mean"].dtype == np.float64
    assert compared.columns["agents"].tolist() == [4, 4]
    assert "better" in str(compared)
    assert homeostat.compare(short, long, baseline="long")[0]["return_mean_shows"] == "worse"
    pytest.importorskip("pandas")
    assert list(compared.frame()["run"]) == ["short", "long"]


def test_runs_that_cannot_be_compared_say_why():
    one = cartpole(run_dir="one", steps=2048)
    other = homeostat.train("q-learning", env="toy/grid-world-v1", steps=2048, progress=False, run_dir="two")
    with pytest.raises(ValueError, match="cannot compare: the runs have different settings: env is"):
        homeostat.compare(one, other)
    anyway = homeostat.compare(one, other, anyway=True)
    assert len(anyway.setting_differences) == 1
    with pytest.raises(ValueError, match="cannot compare: there is only one run"):
        homeostat.compare(one)
    with pytest.raises(ValueError, match="nowhere is not a run directory: it does not exist"):
        homeostat.compare(one, "nowhere")


def test_learning_curves_are_drawn(tmp_path):
    picture = homeostat.plot(cartpole(), path=tmp_path / "curves.svg", goals=[475])
    assert picture.read_text().startswith("<svg")


def test_a_directory_that_is_no_run_is_refused(tmp_path):
    with pytest.raises(ValueError, match="is not a run directory: it has no config.toml"):
        homeostat.Run(tmp_path)
    damaged = tmp_path / "bad.policy"
    damaged.write_bytes(b"nothing")
    with pytest.raises(homeostat.Error, match="failed to load policy .*bad.policy"):
        homeostat.load_policy(damaged)


def test_the_command_line_reads_what_python_wrote():
    """One format: the record of a run names the version of the program, not of a language."""
    facts = json.loads((cartpole().path / "run.json").read_text())
    assert facts["homeostat"] == homeostat.__version__ and facts["seed"] == 3
