#!/usr/bin/env python3
"""Where the warps of a decode step stand, instruction by instruction, as time a layer.

    ncu --clock-control none --cache-control none --replay-mode application --launch-skip 20 --launch-count 1 \\
        -k regex:megakernel --section SourceCounters --section WarpStateStats --warp-sampling-interval 1 -o step \\
        build/boreas bench decode --device cuda --model-shape north --context 8192 --batch 1 --steps 16 --runs 1
    ncu --import step.ncu-rep --page source --csv > step.csv
    python3 tools/profile/instructions.py step.csv --step-us 1780

Set BOREAS_DEADLINE_SCALE=30: ncu stops the kernel for longer than a wait may take. A sample is one warp at one moment;
all warps get as many, so a role's samples over its warps are time. The kernel has a role's code in one piece more or
less: --first, --last and --warps (8 consumers, 4 messengers, 2 producers, 1 router, 1 arrivals) make times of counts.
How often an instruction is executed a layer tells what it belongs to.
"""
import argparse
import csv
import itertools
import sys

WARPS_OF_A_WORKER = 16
COLUMNS = {"Source", "# Samples", "Instructions Executed"}


def whole(text):
    return int(float(text.replace(",", ""))) if text else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("csv", help="ncu --page source --csv")
    parser.add_argument("--step-us", type=float, required=True, help="a step as bench decode has it")
    parser.add_argument("--layers", type=int, default=49)
    parser.add_argument("--workers", type=int, default=128)
    parser.add_argument("--warps", type=int, default=8, help="of the role whose code it is")
    parser.add_argument("--first", type=int, default=0, help="instruction")
    parser.add_argument("--last", type=int, default=1 << 30, help="instruction")
    parser.add_argument("--least-ns", type=float, default=50, help="leave out instructions with less a layer")
    flags = parser.parse_args()
    if min(flags.layers, flags.workers, flags.warps) < 1 or flags.step_us <= 0:
        parser.error("a step takes time; layers, workers and warps are at least 1")
    try:
        with open(flags.csv, newline="", encoding="utf-8") as file:
            lines = list(csv.reader(file))
    except (OSError, UnicodeDecodeError) as error:
        sys.exit(f"{flags.csv}: {error}")
    header = next((i for i, line in enumerate(lines) if COLUMNS <= set(line)), None)
    if header is None:
        sys.exit(f"{flags.csv}: no columns {', '.join(sorted(COLUMNS))}; it should come from ncu --page source --csv")
    place = {name: i for i, name in enumerate(lines[header])}
    stalls = [name for name in lines[header] if name.startswith("stall_") and "(" not in name]
    width = len(lines[header])  # of one kernel: another one's table has a line of its own before it
    code = list(itertools.takewhile(lambda line: len(line) == width and line != lines[header], lines[header + 1:]))
    samples = sum(whole(line[place["# Samples"]]) for line in code)
    if samples == 0:
        sys.exit(f"{flags.csv}: no samples")
    ns = flags.step_us * 1000 / flags.layers * WARPS_OF_A_WORKER / flags.warps / samples
    up_to = 0.0
    for i in range(flags.first, min(flags.last + 1, len(code))):
        own = whole(code[i][place["# Samples"]]) * ns
        up_to += own
        if own < flags.least_ns:
            continue
        why = sorted(((whole(code[i][place[name]]), name) for name in stalls), reverse=True)[:2]
        times = whole(code[i][place["Instructions Executed"]]) / (flags.workers * flags.layers * flags.warps)
        reasons = ", ".join(f"{name[len('stall_'):]} {count * ns:.0f}" for count, name in why if count > 0)
        text = code[i][place["Source"]].strip()
        print(f"{i:6} {own:7.0f} ns, {up_to:8.0f} so far, {times:7.2f} times  {text:64.64}  {reasons}")


if __name__ == "__main__":
    main()
