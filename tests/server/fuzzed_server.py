"""A process that serves keys and arguments of every type: ``python -m tests.server.fuzzed_server FOLDER [SECONDS]``.

It prints two addresses, one of a server without a token and one of a server with two. Then it feeds a word from time to
time until its standard input ends. A request may end the process: so a fuzzer starts it as a child.
"""

import json
import logging
import select
import sys
from pathlib import Path
from typing import Any

from tests.base.value_fuzzer import SCALARS
from trident import Count, MapGet, TridentTopology
from trident.server.access_rules import Rights
from trident.server.limits import Limits
from trident.spouts import FeederBatchSpout
from trident.state import MemoryMapState

TOKEN, FEW = "0123456789abcdef", "a-token-with-few-rights"

KEYS = {f"of_{at}": kind for at, kind in enumerate(SCALARS)} | {"pairs": "string, b long", "one": ""}
"""The states by name, each with the type of its key; a key may have two fields or none."""

ARGUMENTS = {f"with_{at}": kind for at, kind in enumerate([*SCALARS, "array<int>", "map<string,double>"])}
"""The functions by name, each with the type of its argument."""

NESTED = {"with_struct": "struct<x:int,y:array<date>>", "with_maps": "map<date,map<int,decimal(5,2)>>"}


def topology() -> tuple[TridentTopology, FeederBatchSpout]:
    """Return a topology with a state for each type of key, and a function for each type of argument."""
    made, feeder = TridentTopology(), FeederBatchSpout("word string")
    words = made.newStream("words", feeder)
    counts = words.groupBy("word").persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")
    for name, kind in KEYS.items():
        fields = [f"{'ab'[at]} {each.split()[-1]}" for at, each in enumerate(split(kind))]
        store = MemoryMapState.opaque()
        if not fields:
            words.persistentAggregate(store, Count(), "n", name=name)
            continue
        typed = words.each("word", no_key if len(fields) == 1 else no_keys, ", ".join(fields))
        by = [field.split()[0] for field in fields]
        typed.groupBy(by).persistentAggregate(store, Count(), "n", name=name)
    for name, kind in (ARGUMENTS | NESTED).items():
        made.newDRPCStream(name, f"v {kind}").filter("v", lambda v: v is not None)
    made.newDRPCStream("count", "word string").stateQuery(counts, "word", MapGet(), "count")
    return made, feeder


def no_key(word: str) -> Any:
    """Return the null that is the key of each word."""


def no_keys(word: str) -> Any:
    return None, None


def split(kind: str) -> list[str]:
    """Return the types of the fields of a key."""
    return [] if not kind else kind.split(", ") if kind.startswith("string, ") else [kind]


def main(folder: str, seconds: float = 0.2) -> None:
    logging.basicConfig(level=logging.ERROR)  # to standard error: the fuzzer reads it at the end
    made, feeder = topology()
    limits = Limits(timeoutSecs=0.5, headSecs=2, bodySecs=1)
    limited = {FEW: Rights(functions=["count", "with_1"], states=["counts", "pairs"])}
    with (
        made.start(engine="embedded", name="fuzzed", checkpointLocation=Path(folder)) as running,
        running.serve(limits=limits) as first,
        running.serve(token=TOKEN, tokens=limited, limits=limits) as second,
    ):
        feeder.feed([("dog",), ("cat",), ("",), (".",)])
        running.processAllAvailable(60)
        print(json.dumps([first.url, second.url]), flush=True)
        number = 0
        while not select.select([sys.stdin], [], [], seconds)[0]:
            number += 1
            feeder.feed([("dog",), (f"word {number % 1000}",)])
            running.processAllAvailable(600)  # a machine at its limits is no fault of the server


if __name__ == "__main__":
    main(sys.argv[1], *map(float, sys.argv[2:]))
