"""python -m tests.simulator [--schedules 100000] [--seed N] [--minutes M] [--changing 4] [--flow NAME] [--trace]

Runs that many schedules over all cores, or one with its trace; ends non-zero where one of them came out wrong.
"""

import argparse
import sys
import time
import traceback

from tests.simulator.families import (
    DELTA,
    DELTA_CHANGING,
    EVERY,
    EVOLVING,
    EXECUTORS,
    LOOSE,
    SAVEPOINTS,
    check,
    world_of,
)
from tests.simulator.fleet import everything, thrift
from tests.simulator.patches import machine


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulator", description="Random fault schedules.")
    parser.add_argument("--schedules", type=int, default=100_000, help="how many (100000)")
    parser.add_argument("--seed", type=int, default=0, help="the first one's seed; each later one's is one more (0)")
    parser.add_argument("--minutes", type=float, default=None, help="stop then, however many were run")
    parser.add_argument("--trace", action="store_true", help="run the one schedule of --seed and print what happens")
    parser.add_argument("--changing", type=int, default=EVERY, help="every so manyth is of a program that changes (4)")
    parser.add_argument(
        "--flow",
        default="",
        help=f"only unchanging programs whose names begin so: interval,table; or {LOOSE!r}, {EVOLVING!r}, "
        f"{DELTA_CHANGING!r}; or {EXECUTORS!r}, where they write and ask states, {SAVEPOINTS!r}, where one is taken "
        f"and forked, {DELTA!r}, where states are Delta tables, with names behind it: {EXECUTORS},{DELTA},query",
    )
    asked = parser.parse_args()
    try:
        check(asked.flow)
    except ValueError as error:
        parser.error(f"--flow: {error}")
    every = 0 if asked.flow else asked.changing
    if asked.trace:
        return traced(asked.seed, every, asked.flow)
    return many(asked.seed, asked.schedules, asked.minutes, every, asked.flow)


def many(seed: int, schedules: int, minutes: float | None, every: int = EVERY, flow: str = "") -> int:
    began = time.monotonic()
    tally = everything(seed, schedules, minutes, every=every, flow=flow)
    for line in tally.lines():
        print(line)
    print(f"minutes    {(time.monotonic() - began) / 60:.2f}")
    which = f" --flow '{flow}'" if flow else "" if every == EVERY else f" --changing {every}"
    for at, text in sorted(tally.wrong.items()):
        print(f"\nWRONG with seed {at}: {text}\n  replay it: python -m tests.simulator --seed {at}{which} --trace")
    if tally.wrong:
        return 1
    print("nothing lost, nothing doubled, no dirty read, no run that did not come to its end")
    return 0


def traced(seed: int, every: int = EVERY, flow: str = "") -> int:
    with thrift(), machine():
        try:
            print(world_of(seed, every, print, flow).run())
        except BaseException:
            traceback.print_exc(file=sys.stdout)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
