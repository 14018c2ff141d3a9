"""Runs `homeostat bench on-demand` and SimFaaS by turns on equal work, and puts them
side by side; refuses to compare simulations of different things."""

import argparse
import importlib.metadata
import json
import math
import resource
import statistics
import subprocess
import sys
import time

import numpy as np
from simfaas.ServerlessSimulator import ServerlessSimulator
from simfaas.SimProcess import ConstSimProcess

SERVICE_S, COLD_S, KEEP_ALIVE_S, MOST = 0.1, 0.3, 10.0, 1000

# How far the two may lie apart, beside three standard errors. They differ in two rules:
# a request that waits takes the first container that is free here and its own there,
# and of several idle containers the one used last serves here, the youngest there.
# Of many runs, that moves cold starts by up to 5 % and the number of containers by 1 %.
TOLERANCE = {"cold_start_probability": 0.08, "mean_containers": 0.03, "mean_busy": 0.02}


def rates(text):
    try:
        values = [float(part) for part in text.split(",")]
    except ValueError:
        values = []
    if not values or not all(0 < value <= 1e6 for value in values):
        raise argparse.ArgumentTypeError(f"{text} is no list of rates such as 1,10,100")
    return values


def at_least(least):
    def count(text):
        if not text.isdecimal() or int(text) < least:
            raise argparse.ArgumentTypeError(f"{text} is not a whole number of {least} or above")
        return int(text)

    return count


def run_homeostat(program, rate, requests, seed):
    command = [program, "bench", "on-demand", "--output", "json"]
    for name, value in {
        "rate": rate,
        "service-ms": SERVICE_S * 1e3,
        "cold-ms": COLD_S * 1e3,
        "keep-alive-s": KEEP_ALIVE_S,
        "requests": requests,
        "seed": seed,
    }.items():
        command += [f"--{name}", str(value)]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != 0:
        sys.exit(f"sim: {' '.join(command)} failed with code {done.returncode}")
    report = json.loads(done.stdout)
    # CPU time of the whole process, its start included.
    report["cpu_s"] = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return report


def run_simfaas(rate, requests, seed):
    np.random.seed(seed)
    simulator = ServerlessSimulator(
        arrival_rate=rate,
        warm_service_process=ConstSimProcess(1 / SERVICE_S),
        cold_service_process=ConstSimProcess(1 / COLD_S),
        expiration_threshold=KEEP_ALIVE_S,
        maximum_concurrency=MOST,
        max_time=requests / rate,
    )
    wall, cpu = time.perf_counter(), time.process_time()
    simulator.generate_trace()
    seconds, cpu_s = time.perf_counter() - wall, time.process_time() - cpu
    arrived = simulator.total_req_count
    return {
        "requests_per_s": arrived / seconds,
        "seconds": seconds,
        "cpu_s": cpu_s,
        "simulated_s": simulator.get_trace_end(),
        "requests": arrived,
        "cold_start_probability": simulator.total_cold_count / arrived,
        "mean_containers": float(simulator.get_average_server_count()),
        "mean_busy": float(simulator.get_average_server_running_count()),
        "held_up": simulator.total_reject_count,
        "most_containers": simulator.maximum_concurrency,
    }


def summary(runs):
    """Median speeds, and the means of what was simulated with their standard errors."""
    result = {
        "requests_per_s": statistics.median(run["requests_per_s"] for run in runs),
        "requests_per_cpu_s": statistics.median(run["requests"] / run["cpu_s"] for run in runs),
    }
    for key in ("simulated_s", "requests", "held_up"):
        result[key] = sum(run[key] for run in runs)
    for key in TOLERANCE:
        values = [run[key] for run in runs]
        result[key] = statistics.fmean(values)
        result[f"{key}_error"] = statistics.stdev(values) / math.sqrt(len(values))
    result["most_containers"] = runs[0]["most_containers"]
    return result


def compare(ours, theirs):
    """Both values, the difference and what is allowed, for each figure that both have."""
    checks = {}
    for key, tolerance in TOLERANCE.items():
        error = math.hypot(*(side[f"{key}_error"] / side[key] if side[key] else 0.0 for side in (ours, theirs)))
        checks[key] = {
            "homeostat": ours[key],
            "simfaas": theirs[key],
            "difference": abs(ours[key] / theirs[key] - 1) if theirs[key] else math.inf,
            "allowed": tolerance + 3 * error,
        }
    return checks


def refuse_unequal(rate, ours, theirs, checks):
    refuse = lambda reason: sys.exit(f"sim: not compared at {rate:g} requests per second: {reason}")
    if ours["most_containers"] != MOST:
        refuse(f"homeostat allows {ours['most_containers']} containers, SimFaaS {MOST}")
    for name, side in (("homeostat", ours), ("SimFaaS", theirs)):
        if side["held_up"]:
            refuse(f"{name} reached its limit of {MOST} containers for {side['held_up']} requests: take a lower rate")
        expected = rate * side["simulated_s"]
        if abs(side["requests"] - expected) > 5 * math.sqrt(expected):
            refuse(f"{name} had {side['requests']} arrivals in {side['simulated_s']:.0f} s, not {expected:.0f}")
    if abs(ours["simulated_s"] / theirs["simulated_s"] - 1) > 0.01:
        refuse(f"homeostat simulated {ours['simulated_s']:.0f} s, SimFaaS {theirs['simulated_s']:.0f} s")
    for key, check in checks.items():
        if check["difference"] > check["allowed"]:
            refuse(
                f"{key.replace('_', ' ')} is {check['homeostat']:.5g} in homeostat and {check['simfaas']:.5g} in SimFaaS, "
                f"{check['difference']:.1%} apart where {check['allowed']:.1%} is allowed"
            )


def print_table(result):
    print(
        f"Poisson arrivals, service {SERVICE_S * 1e3:g} ms, cold {COLD_S * 1e3:g} ms, idle containers kept {KEEP_ALIVE_S:g} s, "
        f"no limit reached\nmedian of {result['repetitions']} runs of {result['requests']} requests, SimFaaS {result['simfaas_version']}, one core each\n"
    )
    line = "{:>6} {:>16} {:>16} {:>16} {:>16}"
    print(line.format("rate", "homeostat", "SimFaaS", "times as fast", "by CPU time"))
    print(line.format("1/s", "requests/s", "requests/s", "", ""))
    for row in result["rates"]:
        ours, theirs = row["homeostat"]["requests_per_s"], row["simfaas"]["requests_per_s"]
        print(
            line.format(
                f"{row['rate']:g}", f"{ours:.0f}", f"{theirs:.0f}", f"{row['times_as_fast']:.1f}x", f"{row['times_as_fast_by_cpu']:.1f}x"
            )
        )
    print("\nBoth simulated the same:")
    line = "{:>6} {:>23} {:>12} {:>12} {:>12} {:>9}"
    print(line.format("rate", "", "homeostat", "SimFaaS", "difference", "allowed"))
    for row in result["rates"]:
        for key, check in row["checks"].items():
            cells = f"{check['homeostat']:.5g}", f"{check['simfaas']:.5g}", f"{check['difference']:.2%}", f"{check['allowed']:.1%}"
            print(line.format(f"{row['rate']:g}", key.replace("_", " "), *cells))


def main():
    parser = argparse.ArgumentParser(prog="bench/peers/sim")
    parser.add_argument("program")
    parser.add_argument("--rates", type=rates, default=[1.0, 10.0, 100.0])
    parser.add_argument("--requests", type=at_least(1000), default=200_000)
    parser.add_argument("--repetitions", type=at_least(3), default=5)
    parser.add_argument("--output", choices=["table", "json"], default="table")
    options = parser.parse_args()
    result = {
        "simfaas_version": importlib.metadata.version("simfaas"),
        "service_s": SERVICE_S,
        "cold_s": COLD_S,
        "keep_alive_s": KEEP_ALIVE_S,
        "requests": options.requests,
        "repetitions": options.repetitions,
        "rates": [],
    }
    for rate in options.rates:
        print(f"timing {rate:g} requests per second", file=sys.stderr)
        ours, theirs = [], []
        # By turns, so that what else the machine does falls on both.
        for seed in range(1, options.repetitions + 1):
            ours.append(run_homeostat(options.program, rate, options.requests, seed))
            theirs.append(run_simfaas(rate, options.requests, seed))
        ours, theirs = summary(ours), summary(theirs)
        checks = compare(ours, theirs)
        refuse_unequal(rate, ours, theirs, checks)
        result["rates"].append(
            {
                "rate": rate,
                "homeostat": ours,
                "simfaas": theirs,
                "times_as_fast": ours["requests_per_s"] / theirs["requests_per_s"],
                "times_as_fast_by_cpu": ours["requests_per_cpu_s"] / theirs["requests_per_cpu_s"],
                "checks": checks,
            }
        )
    if options.output == "json":
        print(json.dumps(result, indent=2))
    else:
        print_table(result)


if __name__ == "__main__":
    main()
