#!/usr/bin/env python3
"""Measures small Python versions of the benchmark functions of the catalogue.

CPU time of a request, how much of it grows with the payload, peak memory, and the CPU
time to start: what a row of crates/sim-faas/src/catalogue.rs states. Only functions that
the standard library suffices for; the others are listed as not measured. The versions are
written for this purpose and resemble the suites' functions in kind and size of the work,
not line by line. The sizes of the payloads are chosen, so CPU times say what such a size
costs, not what size is usual. Left out: the server around a handler, which adds to start,
memory and the part of the work that is the same for each request. Times are CPU times, so
that a busy machine disturbs them little.
"""

import argparse
import json
import math
import pathlib
import platform
import random
import resource
import statistics
import subprocess
import sys
import time

SIGMA = 0.3
NOT_MEASURED = {
    "uploader": "fetches a file and stores it: its time is the network's",
    "image-inference": "needs PyTorch or TensorFlow for ResNet-50",
}


def base64_prepare(size, rng):
    return "".join(rng.choices("abcdefghijklmnopqrstuvwxyz ", k=1000)) * (size // 1000 + 1)


def base64_run(text):
    import base64

    for _ in range(8):
        coded = base64.b64encode(text.encode())
        text = base64.b64decode(coded).decode()
    return len(coded)


def primes_prepare(size, rng):
    return size


def primes_run(bound):
    sieve = bytearray([1]) * bound
    sieve[:2] = b"\0\0"
    for number in range(2, math.isqrt(bound - 1) + 1):
        if sieve[number]:
            sieve[number * number :: number] = bytes(len(range(number * number, bound, number)))
    return sum(sieve)


def words(rng, count):
    common = "the a of service state good bad great slow request time fast poor value error happy awful nice".split()
    return [rng.choice(common) if rng.random() < 0.5 else "w%d" % rng.randrange(5000) for _ in range(count)]


def markdown_prepare(size, rng):
    lines = []
    for number in range(size):
        text = words(rng, 12)
        text[3], text[7] = f"**{text[3]}**", f"[{text[7]}](https://example.org/{number})"
        kind = ("# ", "", "- ", "", "    ", "")[number % 6]
        lines.append(kind + " ".join(text))
    return "\n".join(lines)


def markdown_run(text):
    import html
    import re

    marks = [
        (re.compile(r"\*\*(.+?)\*\*"), r"<strong>\1</strong>"),
        (re.compile(r"\*(.+?)\*"), r"<em>\1</em>"),
        (re.compile(r"`(.+?)`"), r"<code>\1</code>"),
        (re.compile(r"\[(.+?)\]\((.+?)\)"), r'<a href="\2">\1</a>'),
    ]
    heading = re.compile(r"(#{1,6}) (.*)")
    out, is_list = [], False
    for line in text.split("\n"):
        if is_list and not line.startswith("- "):
            out.append("</ul>")
            is_list = False
        if line.startswith("    "):
            out.append(f"<pre>{html.escape(line[4:])}</pre>")
            continue
        line = html.escape(line, quote=False)
        for pattern, replacement in marks:
            line = pattern.sub(replacement, line)
        if match := heading.match(line):
            level = len(match[1])
            out.append(f"<h{level}>{match[2]}</h{level}>")
        elif line.startswith("- "):
            if not is_list:
                out.append("<ul>")
                is_list = True
            out.append(f"<li>{line[2:]}</li>")
        elif line:
            out.append(f"<p>{line}</p>")
    return len("\n".join(out))


def sentiment_prepare(size, rng):
    # Half of the words are scored, as in a list of some thousand words.
    scores = {f"w{number}": rng.uniform(-1, 1) for number in range(0, 5000, 2)}
    scores.update({"good": 0.7, "great": 0.8, "nice": 0.6, "happy": 0.8, "bad": -0.7, "awful": -1.0, "poor": -0.4})
    return scores, ". ".join(" ".join(words(rng, 15)) for _ in range(size))


def sentiment_run(data):
    import re

    scores, text = data
    word = re.compile(r"[a-z0-9']+")
    polarities = []
    for sentence in text.split(". "):
        score, weight, factor = 0.0, 0, 1.0
        for token in word.findall(sentence.lower()):
            if token in ("not", "no", "never"):
                factor = -0.5
            elif token in ("very", "so", "really"):
                factor *= 1.3
            elif token in scores:
                score, weight, factor = score + factor * scores[token], weight + 1, 1.0
        polarities.append(score / weight if weight else 0.0)
    return sum(polarities) / len(polarities)


def resize_prepare(size, rng):
    # A bitmap of `size` pixels, three bytes each, four wide to three high.
    width = max(8, math.isqrt(size * 4 // 3))
    height = max(6, size // width)
    return width, height, rng.randbytes(width * height * 3)


def resize_run(image):
    """Half the width and height, each pixel the mean of four."""
    width, height, pixels = image
    out = bytearray()
    for y in range(0, height - 1, 2):
        upper = pixels[y * width * 3 : (y + 1) * width * 3]
        lower = pixels[(y + 1) * width * 3 : (y + 2) * width * 3]
        row = bytearray((width // 2) * 3)
        for channel in range(3):
            end = width // 2 * 6
            lists = [line[start:end:6] for line in (upper, lower) for start in (channel, channel + 3)]
            row[channel::3] = bytes((a + b + c + d) >> 2 for a, b, c, d in zip(*lists))
        out += row
    return len(out)


def html_prepare(size, rng):
    return [{"name": name, "number": rng.randrange(10**6)} for name in words(rng, size)]


def html_run(rows):
    import html
    import string

    page = string.Template("<html><body><h1>$title</h1><table>$rows</table></body></html>")
    line = string.Template("<tr><td>$name</td><td>$number</td></tr>")
    body = "".join(line.substitute(name=html.escape(row["name"]), number=row["number"]) for row in rows)
    return len(page.substitute(title="Numbers", rows=body))


def compression_prepare(size, rng):
    return " ".join(words(rng, size // 5)).encode()[:size]


def compression_run(data):
    import zlib

    return len(zlib.compress(data, 6))


def graph_prepare(size, rng):
    # A preferential attachment graph with ten edges for each new node, as the suites' are.
    ends, edges = list(range(10)), []
    for node in range(10, max(20, size)):
        for other in {rng.choice(ends) for _ in range(10)}:
            edges.append((node, other, rng.random()))
            ends += (node, other)
    return max(20, size), edges


def neighbours(nodes, edges):
    lists = [[] for _ in range(nodes)]
    for a, b, _ in edges:
        lists[a].append(b)
        lists[b].append(a)
    return lists


def pagerank_run(graph):
    nodes, edges = graph
    linked = neighbours(nodes, edges)
    rank = [1 / nodes] * nodes
    for _ in range(20):
        share = [value / max(1, len(near)) for value, near in zip(rank, linked)]
        rank = [0.15 / nodes + 0.85 * sum(share[other] for other in near) for near in linked]
    return sum(rank)


def bft_run(graph):
    import collections

    nodes, edges = graph
    linked = neighbours(nodes, edges)
    depth, queue = [-1] * nodes, collections.deque([0])
    depth[0] = 0
    while queue:
        node = queue.popleft()
        for other in linked[node]:
            if depth[other] < 0:
                depth[other] = depth[node] + 1
                queue.append(other)
    return max(depth)


def mst_run(graph):
    nodes, edges = graph
    parent = list(range(nodes))
    total = 0.0
    for a, b, weight in sorted(edges, key=lambda edge: edge[2]):
        while parent[a] != a:
            parent[a] = a = parent[parent[a]]
        while parent[b] != b:
            parent[b] = b = parent[parent[b]]
        if a != b:
            parent[a] = b
            total += weight
    return total


# Name: how to make the payload, what to run, size of the mean payload, its unit.
FUNCTIONS = {
    "base64": (base64_prepare, base64_run, 4_000_000, "characters, 8 times each way"),
    "primes": (primes_prepare, primes_run, 10_000_000, "numbers sieved"),
    "markdown2html": (markdown_prepare, markdown_run, 10_000, "lines"),
    "sentiment-analysis": (sentiment_prepare, sentiment_run, 10_000, "sentences of 15 words"),
    "image-resize": (resize_prepare, resize_run, 3_000_000, "pixels, to a quarter"),
    "html-gen": (html_prepare, html_run, 40_000, "table rows"),
    "compression": (compression_prepare, compression_run, 4_000_000, "bytes, zlib level 6, no upload"),
    "page-rank": (graph_prepare, pagerank_run, 10_000, "nodes, 10 edges each, 20 rounds"),
    "graph-bft": (graph_prepare, bft_run, 30_000, "nodes, 10 edges each"),
    "graph-mst": (graph_prepare, mst_run, 20_000, "nodes, 10 edges each"),
}
IMPORTS = {
    "base64": "base64",
    "markdown2html": "html, re",
    "sentiment-analysis": "re",
    "html-gen": "html, string",
    "compression": "zlib",
    "graph-bft": "collections",
}


def cpu_ms(call, argument):
    start = time.process_time()
    call(argument)
    return (time.process_time() - start) * 1e3


def regress(sizes, times):
    """Intercept and slope of the least squares line."""
    x, y = statistics.fmean(sizes), statistics.fmean(times)
    square = sum((size - x) ** 2 for size in sizes)
    slope = sum((size - x) * (ms - y) for size, ms in zip(sizes, times)) / square
    return y - slope * x, slope


def measure_requests(name, repetitions):
    """CPU times of requests with the mean payload, then with payloads of varied size."""
    prepare, run, size, _ = FUNCTIONS[name]
    rng = random.Random(1)
    payload = prepare(size, rng)
    # The first call imports and fills caches, as the start of a container does.
    run(payload)
    same = [cpu_ms(run, payload) for _ in range(repetitions)]
    # One draw from each of equally likely parts, so that all functions see the same spread.
    draws = [statistics.NormalDist().inv_cdf((place + 0.5) / (2 * repetitions)) for place in range(2 * repetitions)]
    rng.shuffle(draws)
    factors = [math.exp(SIGMA * (draw - 0.5 * SIGMA)) for draw in draws]
    varied = [cpu_ms(run, prepare(max(1, int(size * factor)), rng)) for factor in factors]
    intercept, slope = regress(factors, varied)
    return {
        "cpu_ms": statistics.median(same),
        # Above one where larger payloads cost more for each byte, as when they leave a cache.
        "payload_share": slope / (intercept + slope),
        "log_spread": statistics.stdev(math.log(ms) for ms in varied),
        "log_spread_equal_payload": statistics.stdev(math.log(ms) for ms in same),
    }


def measure_memory(name):
    """Largest size of this process before and after a single request of the mean payload,
    which is part of it: a handler holds its input too."""
    # macOS counts bytes, Linux kibibytes.
    unit = 1024**2 if sys.platform == "darwin" else 1024
    peak_mib = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit
    prepare, run, size, _ = FUNCTIONS[name]
    idle_mib = peak_mib()
    run(prepare(size, random.Random(1)))
    return {"idle_mib": idle_mib, "peak_mib": peak_mib()}


def measure_start(name, repetitions):
    """CPU time of processes that start the interpreter, import what a function needs, and end."""
    code = f"import {IMPORTS[name]}" if name in IMPORTS else ""
    times = []
    for _ in range(repetitions):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-c", code], check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append((after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1e3)
    return {"start_cpu_ms": statistics.median(times)}


def in_fresh_process(name, part, repetitions):
    """What one part of the measurement says, in a process that has done nothing else."""
    command = [sys.executable, str(pathlib.Path(__file__).resolve()), "--repetitions", str(repetitions), "--part", part, "--only", name]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"measure: {name} failed with code {done.returncode}")
    return json.loads(done.stdout)


def repetitions_of(text):
    if not text.isdecimal() or int(text) < 9:
        raise argparse.ArgumentTypeError(f"{text} is not a whole number of 9 or above")
    return int(text)


def print_table(report):
    print(f"Python {report['python']}, median of {report['repetitions']} requests, payload sizes lognormal with sigma {SIGMA}\n")
    line = "{:<19} {:>7} {:>14} {:>11} {:>14} {:>9} {:>9} {:>13}  {}"
    titles = "CPU ms", "payload share", "log spread", "equal payload", "idle MiB", "peak MiB", "start CPU ms", "payload"
    print(line.format("function", *titles))
    for row in report["functions"]:
        print(
            line.format(
                row["name"],
                f"{row['cpu_ms']:.0f}",
                f"{row['payload_share']:.2f}",
                f"{row['log_spread']:.2f}",
                f"{row['log_spread_equal_payload']:.3f}",
                f"{row['idle_mib']:.0f}",
                f"{row['peak_mib']:.0f}",
                f"{row['start_cpu_ms']:.0f}",
                row["payload"],
            )
        )
    for name, reason in report["not_measured"].items():
        print(f"{name:<19} not measured: {reason}")


def main():
    parser = argparse.ArgumentParser(prog="measure.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=FUNCTIONS, help="one function instead of all", metavar="FUNCTION")
    parser.add_argument("--repetitions", type=repetitions_of, default=15, help="requests of equal payload, 9 or more; 15 by default")
    parser.add_argument("--output", choices=["table", "json"], default="table", help="form of the result")
    parser.add_argument("--part", choices=["requests", "memory"], help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.part:
        part = measure_memory(options.only) if options.part == "memory" else measure_requests(options.only, options.repetitions)
        return print(json.dumps(part))
    report = {"python": platform.python_version(), "machine": platform.machine(), "repetitions": options.repetitions, "functions": []}
    for name in [options.only] if options.only else FUNCTIONS:
        print(f"measuring {name}", file=sys.stderr)
        _, _, size, unit = FUNCTIONS[name]
        row = {"name": name, "payload": f"{size} {unit}"}
        for part in ("requests", "memory"):
            row.update(in_fresh_process(name, part, options.repetitions))
        row.update(measure_start(name, options.repetitions))
        report["functions"].append(row)
    report["not_measured"] = {} if options.only else NOT_MEASURED
    if options.output == "json":
        print(json.dumps(report, indent=2))
    else:
        print_table(report)


if __name__ == "__main__":
    main()
