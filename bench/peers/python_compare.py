"""Steps per second from Python, and our trainer beside Stable-Baselines3; see bench/peers/python."""

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from typing import NamedTuple

import gymnasium
import numpy as np

import homeostat

COPIES = 64
REPETITIONS = 5
# Environments to step, and how many steps of all copies take about a second.
STEPPED = {"faas/function-v2": 800, "faas/course-v2": 800, "classic/cartpole-v1": 60_000}
TRAINED = ["classic/cartpole-v1", "faas/function-v2"]
EVALUATION_EPISODES = 100
# Both learners take these; whatever is not named here is the default of both alike.
PPO = {
    "num_envs": 8,
    "steps_per_update": 256,
    "epochs": 10,
    "minibatch": 64,
    "learning_rate": 3e-4,
    "gamma": 0.99,
    "gae_lambda": 0.95,
    "clip": 0.2,
    "entropy_coefficient": 0.0,
    "value_coefficient": 0.5,
    "max_grad_norm": 0.5,
}


def main():
    parser = argparse.ArgumentParser(prog="python", description=__doc__)
    parser.add_argument("--only", choices=["stepping", "training"])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--output", choices=["table", "json"], default="table")
    arguments = parser.parse_args()
    report = {"python": sys.version.split()[0], "numpy": np.__version__, "gymnasium": gymnasium.__version__}
    report["cores"] = os.cpu_count()
    report["load_average"] = os.getloadavg()[0]
    if arguments.only != "training":
        report["stepping"] = [stepping(env_id, steps) for env_id, steps in STEPPED.items()]
        report["cartpole"] = cartpole_of_gymnasium()
    if arguments.only != "stepping":
        try:
            import stable_baselines3
            import torch
        except ImportError:
            say("training is left out: PyTorch and Stable-Baselines3 are not installed; give --with-torch")
        else:
            report["torch"], report["stable_baselines3"] = torch.__version__, stable_baselines3.__version__
            report["training"] = [training(env_id, arguments.seeds, arguments.steps) for env_id in TRAINED]
    if arguments.output == "json":
        print(json.dumps(report, indent=2))
    else:
        print_tables(report)


def say(text):
    print(text, file=sys.stderr, flush=True)


def stepping(env_id, steps):
    """The same actions in the same copies: called from Python, and without coming back to it."""
    say(f"stepping {COPIES} copies of {env_id}")
    envs = homeostat.HomeostatVectorEnv(env_id, num_envs=COPIES)
    envs.reset(seed=1)
    envs.action_space.seed(1)
    rows = [envs.action_space.sample() for _ in range(64)]
    native, python = [], []
    # By turns, so that whatever else the machine does meets both alike.
    for _ in range(REPETITIONS):
        envs.reset(seed=1)
        native.append(seconds_of(lambda: envs._native.time_natively(rows, steps)))
        envs.reset(seed=1)
        python.append(seconds_of(lambda: play(envs, rows, steps)))
    ratios = [mine.cpu / other.cpu for mine, other in zip(python, native)]
    return {
        "env": env_id,
        "copies": COPIES,
        "native_steps_per_s": steps * COPIES / statistics.median(found.cpu for found in native),
        "python_steps_per_s": steps * COPIES / statistics.median(found.cpu for found in python),
        "times_as_long": statistics.median(ratios),
        "spread": [min(ratios), max(ratios)],
        "times_as_long_by_wall": statistics.median(mine.wall / other.wall for mine, other in zip(python, native)),
    }


class Seconds(NamedTuple):
    """By the clock on the wall, and of CPU time: other work on the machine is in the first only."""

    wall: float
    cpu: float


def seconds_of(work):
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return Seconds(time.perf_counter() - wall, time.process_time() - cpu)


def play(envs, rows, steps):
    step, count = envs.step, len(rows)
    for number in range(steps):
        step(rows[number % count])


def cartpole_of_gymnasium():
    """Gymnasium's own CartPole for many copies at once, written with NumPy, beside ours."""
    say(f"stepping {COPIES} copies of Gymnasium's CartPole")
    theirs = gymnasium.make_vec("CartPole-v1", num_envs=COPIES, vectorization_mode="vector_entry_point")
    ours = gymnasium.make_vec("homeostat/classic-cartpole-v1", num_envs=COPIES)
    theirs.action_space.seed(1)
    rows = [theirs.action_space.sample() for _ in range(64)]
    seconds = {"ours": [], "theirs": []}
    for _ in range(REPETITIONS):
        for name, envs, steps in (("theirs", theirs, 3_000), ("ours", ours, 60_000)):
            envs.reset(seed=1)
            seconds[name].append(seconds_of(lambda: play(envs, rows, steps)).cpu / steps)
    speeds = {name: COPIES / statistics.median(found) for name, found in seconds.items()}
    return {
        "copies": COPIES,
        "homeostat_steps_per_s": speeds["ours"],
        "gymnasium_steps_per_s": speeds["theirs"],
        "times_as_fast": speeds["ours"] / speeds["theirs"],
    }


def training(env_id, seeds, steps):
    """PPO of both with equal settings and budget; then what each learnt plays episodes that it was not trained on."""
    ours, theirs = [], []
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(1, seeds + 1):
            say(f"training on {env_id}, seed {seed} of {seeds}: homeostat")
            ours.append(train_ours(env_id, seed, steps, os.path.join(folder, f"{seed}")))
            say(f"training on {env_id}, seed {seed} of {seeds}: Stable-Baselines3")
            theirs.append(train_theirs(env_id, seed, steps))
    return {
        "env": env_id,
        "steps": steps,
        "seeds": seeds,
        "homeostat_s": statistics.median(seconds.cpu for seconds, _ in ours),
        "stable_baselines3_s": statistics.median(seconds.cpu for seconds, _ in theirs),
        "times_as_fast": statistics.median(other.cpu / own.cpu for (own, _), (other, _) in zip(ours, theirs)),
        "times_as_fast_by_wall": statistics.median(other.wall / own.wall for (own, _), (other, _) in zip(ours, theirs)),
        "homeostat_returns": [reached for _, reached in ours],
        "stable_baselines3_returns": [reached for _, reached in theirs],
        "return_difference": with_interval([own - other for (_, own), (_, other) in zip(ours, theirs)]),
    }


def train_ours(env_id, seed, steps, folder):
    settings = {name: value for name, value in PPO.items() if name != "learning_rate"}
    settings["actor_learning_rate"] = settings["critic_learning_rate"] = PPO["learning_rate"]
    seconds = seconds_of(lambda: homeostat.train(
        "ppo", env=env_id, seed=seed, steps=steps, preset="off", progress=False, run_dir=folder, ppo=settings
    ))
    return seconds, returns_of(env_id, homeostat.load_policy(folder).act)


def train_theirs(env_id, seed, steps):
    import torch
    from stable_baselines3 import PPO as TheirPPO
    from stable_baselines3.common.vec_env import DummyVecEnv

    name = f"homeostat/{env_id.replace('/', '-', 1)}"
    # The faster of one and all threads for networks this small.
    torch.set_num_threads(1)
    model = TheirPPO(
        "MlpPolicy",
        DummyVecEnv([lambda: gymnasium.make(name) for _ in range(PPO["num_envs"])]),
        n_steps=PPO["steps_per_update"],
        n_epochs=PPO["epochs"],
        batch_size=PPO["minibatch"],
        learning_rate=PPO["learning_rate"],
        gamma=PPO["gamma"],
        gae_lambda=PPO["gae_lambda"],
        clip_range=PPO["clip"],
        ent_coef=PPO["entropy_coefficient"],
        vf_coef=PPO["value_coefficient"],
        max_grad_norm=PPO["max_grad_norm"],
        seed=seed,
        device="cpu",
    )
    seconds = seconds_of(lambda: model.learn(steps))
    return seconds, returns_of(env_id, lambda obs: model.predict(obs, deterministic=True)[0])


def returns_of(env_id, act):
    """Mean return of the greedy policy over episodes whose seeds no training has."""
    env = homeostat.HomeostatEnv(env_id)
    returns = []
    for episode in range(EVALUATION_EPISODES):
        observation, _ = env.reset(seed=1_000_000 + episode)
        total, is_over = 0.0, False
        while not is_over:
            observation, reward, terminated, truncated, _ = env.step(act(observation))
            total += reward
            is_over = terminated or truncated
        returns.append(total)
    return statistics.mean(returns)


def with_interval(values):
    """Mean and half the width of its 95 % interval, by Student's t."""
    quantiles = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262]
    mean = statistics.mean(values)
    if len(values) < 2:
        return [mean, None]
    quantile = quantiles[len(values) - 2] if len(values) - 2 < len(quantiles) else 2.0
    return [mean, quantile * statistics.stdev(values) / len(values) ** 0.5]


def print_tables(report):
    print(
        f"Python {report['python']}, NumPy {report['numpy']}, Gymnasium {report['gymnasium']}, "
        f"{report['cores']} cores, load average {report['load_average']:.1f} before the start\n"
    )
    if "stepping" in report:
        rows = [["64 copies of", "native, steps/s", "from Python", "times as long", "least to most", "by the wall"]]
        for found in report["stepping"]:
            least, most = found["spread"]
            rows.append([
                found["env"],
                f"{found['native_steps_per_s']:,.0f}",
                f"{found['python_steps_per_s']:,.0f}",
                f"{found['times_as_long']:.2f}",
                f"{least:.2f} to {most:.2f}",
                f"{found['times_as_long_by_wall']:.2f}",
            ])
        print_table(rows)
        cartpole = report["cartpole"]
        rows = [["64 copies of CartPole from Python", "steps/s"]]
        rows.append(["Gymnasium's vector environment", f"{cartpole['gymnasium_steps_per_s']:,.0f}"])
        rows.append(["homeostat/classic-cartpole-v1", f"{cartpole['homeostat_steps_per_s']:,.0f}"])
        rows.append(["times as fast", f"{cartpole['times_as_fast']:.1f}"])
        print_table(rows)
    if "training" in report:
        print(f"PPO, equal settings, PyTorch {report['torch']}, Stable-Baselines3 {report['stable_baselines3']}\n")
        rows = [[
            "environment", "steps", "homeostat", "SB3", "times as fast", "by the wall", "return", "return of SB3", "difference",
        ]]
        for found in report["training"]:
            mean, interval = found["return_difference"]
            rows.append([
                found["env"],
                f"{found['steps']:,}",
                f"{found['homeostat_s']:.2f} s",
                f"{found['stable_baselines3_s']:.1f} s",
                f"{found['times_as_fast']:.1f}",
                f"{found['times_as_fast_by_wall']:.1f}",
                in_words(with_interval(found["homeostat_returns"])),
                in_words(with_interval(found["stable_baselines3_returns"])),
                in_words([mean, interval]),
            ])
        print_table(rows)
        print(f"Returns: greedy, {EVALUATION_EPISODES} episodes of each seed; 95 % intervals over seeds.")
    print("Speeds and ratios are of CPU time, medians of runs by turns, unless they say by the wall.")


def in_words(found):
    mean, interval = found
    return f"{mean:.2f}" if interval is None else f"{mean:.2f} +- {interval:.2f}"


def print_table(rows):
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())
    print()


if __name__ == "__main__":
    main()
