"""Puts the timings of all stacks side by side; refuses to compare unequal work."""

import json
import pathlib
import sys


def main():
    folder, form = pathlib.Path(sys.argv[1]), sys.argv[2]
    stacks = {path.stem: json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))}
    ours = stacks["homeostat"]
    for name, stack in stacks.items():
        for minibatch, sums in ours["checksum"].items():
            for key, value in sums.items():
                # Sums of eleven thousand weights or two million gradients, in other orders
                # of rounding.
                tolerance = 1e-4 * value if minibatch == "recurrent" else 1e-3
                if abs(stack["checksum"][minibatch][key] - value) > tolerance:
                    sys.exit(f"{name} did other work: {minibatch} {key} is {stack['checksum'][minibatch][key]}, not {value}")
    ratios = {}
    for name, stack in stacks.items():
        if name != "homeostat":
            ratios[name] = {
                "infer": stack["infer_us"] / ours["infer_us"],
                "recurrent": stack["recurrent_ms"] / ours["recurrent_ms"],
                "recurrent_fastest": stack["recurrent_fastest_ms"] / ours["recurrent_fastest_ms"],
                "update": {
                    minibatch: {size: stack["update_ms"][minibatch][size] / ms for size, ms in sizes.items()}
                    for minibatch, sizes in ours["update_ms"].items()
                },
            }
    if form == "json":
        print(json.dumps({"stacks": stacks, "times_as_fast_as": ratios}, indent=2))
        return
    peers = list(ratios)
    print(f"kernel {ours['kernel']}, {ours['threads']} threads, {ours['bytes_per_agent']} bytes per agent, equal checksums")
    print("".join(f"{title:>14}" for title in ["work", "homeostat", *(c for p in peers for c in (p, "times as fast"))]))
    rows = [("infer, us", ours["infer_us"], [(stacks[p]["infer_us"], ratios[p]["infer"]) for p in peers])]
    for minibatch, sizes in ours["update_ms"].items():
        for size, ms in sizes.items():
            cells = [(stacks[p]["update_ms"][minibatch][size], ratios[p]["update"][minibatch][size]) for p in peers]
            rows.append((f"{minibatch} {size}, ms", ms, cells))
    for title, key in (("recurrent, ms", "recurrent"), ("fastest, ms", "recurrent_fastest")):
        cells = [(stacks[p][f"{key}_ms"], ratios[p][key]) for p in peers]
        rows.append((title, ours[f"{key}_ms"], cells))
    for title, ms, cells in rows:
        print(f"{title:>14}{ms:>14.3f}" + "".join(f"{theirs:>14.3f}{ratio:>13.1f}x" for theirs, ratio in cells))


main()
