"""Order of arrival against predicted length, through the gateway, in front of a real server on a GPU.

    python serving.py --gateway target/release/homeostat-gateway --data DIR [--seeds 1..5] [--output json]

DIR has the folder alpaca_eval_lengths: real prompts and the lengths of real answers. Each seed splits the
prompts: the gateway learns from one part, served first, and the other part arrives at random times
(Poisson, prompts repeat) at a load of the server that a first run measures. Every order gets the same arrivals. The
requests carry no limit of tokens: the gateway knows no length that it has not learnt. Needs the packages
openai, transformers[serving] and torch, and a CUDA device; nothing of the device is changed.
"""

import argparse
import asyncio
import csv
import json
import math
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

import openai

SLOTS = 16
TEACHING = 300
ORDERS = ["fcfs", "aged", "shortest-first"]
# Two-sided 97.5 % points of Student's t by degrees of freedom.
STUDENT = [math.nan, 12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262]
HERE = pathlib.Path(__file__).parent


def answers(data, model, shorten):
    """Prompts with the tokens of the answer that a real model gave, divided by `shorten`."""
    folder = pathlib.Path(data) / "alpaca_eval_lengths"
    with open(folder / "lengths.csv", newline="") as file:
        row = next((row for row in csv.DictReader(file) if row["model"] == model), None)
    if row is None:
        sys.exit(f"serving: {folder}/lengths.csv has no model {model}")
    prompts = [json.loads(line) for line in (folder / "prompts.jsonl").read_text().splitlines()]
    known = {prompt["prompt"]: row.get(f"p{prompt['prompt_id']}") for prompt in prompts}
    return {prompt: max(1, round(float(tokens) / shorten)) for prompt, tokens in known.items() if tokens}


class Process:
    """A program that runs until the block ends. If the block fails, its last words are printed."""

    def __init__(self, log, *command):
        self.log = log
        self.child = subprocess.Popen(command, stdout=open(log, "w"), stderr=subprocess.STDOUT)

    def __enter__(self):
        return self.child

    def __exit__(self, failure, *_):
        self.child.terminate()
        try:
            self.child.wait(5)
        except subprocess.TimeoutExpired:
            self.child.kill()
        if failure is not None:
            print(f"--- {self.log.name} ends with:\n{self.log.read_text()[-3000:]}", file=sys.stderr)


async def ask(client, prompt, begun):
    await client.chat.completions.create(model="random", messages=[{"role": "user", "content": prompt}])
    return time.monotonic() - begun


async def teach(client, prompts):
    """Serves prompts with every slot busy; returns requests per second."""
    begun = time.monotonic()
    slots = asyncio.Semaphore(SLOTS)

    async def one(prompt):
        async with slots:
            await ask(client, prompt, 0.0)

    await asyncio.gather(*(one(prompt) for prompt in prompts))
    return len(prompts) / (time.monotonic() - begun)


async def play(client, prompts, times):
    """Completion times of requests, each counted from when it was due."""
    begun = time.monotonic()

    async def one(prompt, at):
        await asyncio.sleep(max(0.0, begun + at - time.monotonic()))
        return await ask(client, prompt, begun + at)

    return await asyncio.gather(*(one(prompt, at) for prompt, at in zip(prompts, times)))


def settings(directory, order, port, upstream, model):
    text = f"""[listen]
address = "127.0.0.1:{port}"
admin = "127.0.0.1:{port + 1}"
[queue]
order = "{order}"
[timeouts]
queue_s = 600.0
drain_s = 1.0
[health]
# A server that compiles its kernels answers nothing else meanwhile.
timeout_s = 60.0
[prediction]
train_every = {TEACHING - SLOTS}
[[upstreams]]
name = "gpu"
url = "http://127.0.0.1:{upstream}/v1"
max_parallel = {SLOTS}
models = ["{model}"]
[[models]]
name = "random"
serve = ["{model}"]
"""
    path = directory / f"{order}.toml"
    path.write_text(text)
    return path


async def answers_at(url, within_s):
    """Waits until a program answers."""
    until = time.monotonic() + within_s
    while time.monotonic() < until:
        try:
            urllib.request.urlopen(url, timeout=1).close()
            return
        except OSError:
            await asyncio.sleep(0.1)
    sys.exit(f"serving: nothing answered at {url} within {within_s} s")


async def run_order(options, directory, order, port, teaching, prompts, times):
    path = settings(directory, order, port, options.port, str(directory / "model"))
    with Process(directory / f"gateway-{order}.log", options.gateway, "run", "--settings", str(path)):
        client = openai.AsyncOpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="none", max_retries=0, timeout=900)
        await answers_at(f"http://127.0.0.1:{port + 1}/readyz", 30)
        # In order of arrival nothing is learnt from it, but every order finds the server in the same state.
        rate = await teach(client, teaching)
        if times is None:
            return rate
        return await play(client, prompts, times)


def quantile(values, share):
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def interval(values):
    if len(values) < 2:
        return None
    return STUDENT[len(values) - 1] * statistics.stdev(values) / math.sqrt(len(values))


async def measure(options, directory):
    known = answers(options.data, options.model, options.shorten)
    lengths = directory / "lengths.json"
    lengths.write_text(json.dumps(known))
    server = [sys.executable, HERE / "random_model_server.py", directory / "model", lengths, str(options.port)]
    rows, port = [], options.port + 1
    with Process(directory / "server.log", *server):
        await answers_at(f"http://127.0.0.1:{options.port}/health", 120)
        print("serving; measuring its capacity", file=sys.stderr)
        everything = sorted(known)
        warm = everything[: 4 * SLOTS]
        await run_order(options, directory, "fcfs", port, warm, [], None)
        capacity = await run_order(options, directory, "fcfs", port + 2, everything[:TEACHING], [], None)
        print(f"{capacity:.2f} requests per second with {SLOTS} slots", file=sys.stderr)
        port += 4
        for seed in options.seeds:
            dice = random.Random(seed)
            prompts = dice.sample(everything, len(everything))
            # Many more requests than prompts: a short run says little about a queue.
            teaching, prompts = prompts[:TEACHING], dice.choices(prompts[TEACHING:], k=options.requests)
            at, times = 0.0, []
            for _ in prompts:
                at += dice.expovariate(options.load * capacity)
                times.append(at)
            for order in options.orders:
                took = await run_order(options, directory, order, port, teaching, prompts, times)
                port += 2
                row = {"seed": seed, "order": order, "mean_s": statistics.mean(took), "p99_s": quantile(took, 0.99)}
                rows.append(row)
                print(f"seed {seed} {order}: mean {row['mean_s']:.2f} s, p99 {row['p99_s']:.2f} s", file=sys.stderr)
    return capacity, rows


def summary(rows, seeds, orders):
    """Gain in mean completion time and p99 over that of FCFS, paired by seed."""
    by = {(row["seed"], row["order"]): row for row in rows}
    result = {}
    for order in orders[1:]:
        pairs = [(by[seed, order], by[seed, "fcfs"]) for seed in seeds]
        gains = [100.0 * (1.0 - ours["mean_s"] / fcfs["mean_s"]) for ours, fcfs in pairs]
        tails = [ours["p99_s"] / fcfs["p99_s"] for ours, fcfs in pairs]
        result[order] = {
            "jct_gain_pct": {"mean": statistics.mean(gains), "interval": interval(gains)},
            "p99_vs_fcfs": {"mean": statistics.mean(tails), "interval": interval(tails)},
        }
    return result


def seeds(text):
    first, _, last = text.partition("..")
    try:
        found = list(range(int(first), int(last or first) + 1))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text} is not a range of seeds such as 1..5") from None
    if not 1 <= len(found) < len(STUDENT):
        raise argparse.ArgumentTypeError(f"{text}: from 1 to {len(STUDENT) - 1} seeds")
    return found


def orders(text):
    found = text.split(",")
    if found[0] != "fcfs" or len(found) < 2 or not set(found) <= set(ORDERS):
        raise argparse.ArgumentTypeError(f"{text}: fcfs first, then others of {', '.join(ORDERS[1:])}")
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gateway", required=True, help="the program homeostat-gateway")
    parser.add_argument("--data", required=True, help="directory of published data")
    parser.add_argument("--model", default="gpt4_1106_preview", help="row of lengths.csv whose lengths are served")
    parser.add_argument("--shorten", type=float, default=1.0, help="divides all lengths, to save time on the device")
    parser.add_argument("--seeds", type=seeds, default=seeds("1..5"))
    parser.add_argument("--orders", type=orders, default=ORDERS, help="fcfs and what is compared with it, by default all")
    parser.add_argument("--load", type=float, default=0.9, help="arrivals over what the server can take")
    parser.add_argument("--requests", type=int, default=600, help="requests of a seed that are measured; prompts repeat")
    parser.add_argument("--port", type=int, default=18080, help="first of the loopback ports that are used")
    parser.add_argument("--output", choices=["table", "json"], default="table")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        capacity, rows = asyncio.run(measure(options, pathlib.Path(directory)))
    gains = summary(rows, options.seeds, options.orders)
    if options.output == "json":
        figures = {"load": options.load, "slots": SLOTS, "shorten": options.shorten, "capacity_per_s": capacity, "gains": gains, "runs": rows}
        print(json.dumps(figures, indent=2))
        return
    for order, figures in gains.items():
        for name, figure in figures.items():
            spread = "" if figure["interval"] is None else f" +- {figure['interval']:.2f}"
            print(f"{order}.{name}: {figure['mean']:.2f}{spread}")


main()
