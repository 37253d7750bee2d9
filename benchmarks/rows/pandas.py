"""Functions over pandas objects: ours, against the same functions by hand in ``mapInPandas`` and ``pandas_udf``."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.functions import pandas_udf

from benchmarks.bench import Bench
from benchmarks.check import Counts, check_counts, counts_of
from benchmarks.row import Row
from benchmarks.timing import Timed, median
from benchmarks.workload import SEED, Workload
from trident import Count, Stream, Sum, TridentTopology
from trident.spouts import FileSpout
from trident.state import MemoryMapState

LEAST = 0.9
"""A pandas function of ours is at least this many times as fast as the same one by hand."""

_SHOPS = 500
_SALES = "shop string, amount double, rate double"


def cents(amount: pd.Series, rate: pd.Series) -> pd.Series:
    return (amount * (1 + rate) * 100).round().astype("int64")


def worth_it(cents: pd.Series) -> pd.Series:
    return cents > 1_000


def exploded(df: pd.DataFrame) -> pd.DataFrame:
    return pd.DataFrame({"word": df["line"].str.split(" ").explode()})


def spread(amount: pd.Series) -> int:
    return int(amount.max() - amount.min())


@dataclass(frozen=True)
class Case:
    """One kind of pandas function, as a topology of ours and as a DataFrame by hand, over a file a batch."""

    what: str
    files: tuple[Path, ...]
    schema: str
    ours: Callable[[Stream], object]
    by_hand: Callable[[DataFrame], DataFrame]
    """A DataFrame of the fields ``word, count``, each word once."""
    expected: Counts


def pandas(bench: Bench, load: Workload) -> Iterator[Row]:
    """Measure each kind in turn, round after round, and compare every count."""
    for kind, case in _cases(bench, load).items():
        seconds: dict[str, list[float]] = {"ours": [], "by hand": []}
        for number in bench.scale.turns:
            for name, run in {"ours": _ours, "by hand": _by_hand}.items():
                took, counts = run(bench, case)
                check_counts(f"pandas.{kind}, {name}", counts, case.expected)
                print(f"    round {number or 'to warm up'}: {kind}, {name} {took:.2f} s", flush=True)
                if number:
                    seconds[name].append(took)
        rows = sum(pq.read_metadata(file).num_rows for file in case.files)
        ours, other = (rows / median(seconds[name]) for name in ("ours", "by hand"))
        yield Row(f"pandas.{kind}", case.what, ours, other, "rows/s", LEAST)


def _cases(bench: Bench, load: Workload) -> dict[str, Case]:
    files, sums, spreads = _make_sales(bench.folder / "sales", bench.scale.files, bench.scale.lines * 5)
    series = "a function and a filter of Series, a sum into memory; against one mapInPandas by hand, no state"
    frame = "flatMap of a DataFrame, a count into memory; against mapInPandas by hand, no state"
    groups = f"an aggregate of the Series of {_SHOPS} groups, into memory; against a pandas_udf by hand, no state"
    return {
        "series": Case(series, files, _SALES, _series, _series_by_hand, sums),
        "frame": Case(frame, load.files, "line string", _frame, _frame_by_hand, load.expected),
        "groups": Case(groups, files, _SALES, _groups, _groups_by_hand, spreads),
    }


def _make_sales(folder: Path, files: int, rows: int) -> tuple[tuple[Path, ...], Counts, Counts]:
    """Write the files. Return also the sums of cents, and of the batches' spreads, by shop."""
    folder.mkdir()
    random = np.random.default_rng(SEED)
    paths, parts, spreads = [], [], []
    for number in range(files):
        shops = pd.Series(random.integers(0, _SHOPS, rows)).map("shop{}".format)
        amounts, rates = (pd.Series(random.random(rows) * most) for most in (100, 0.3))
        paths.append(folder / f"batch-{number:03d}.parquet")
        pq.write_table(pa.table({"shop": shops, "amount": amounts, "rate": rates}), paths[-1])
        total = cents(amounts, rates)
        parts.append(total[worth_it(total)].groupby(shops).sum())
        by_shop = amounts.groupby(shops)
        spreads.append((by_shop.max() - by_shop.min()).astype("int64"))
    sums, most = (pd.concat(each).groupby(level=0).sum() for each in (parts, spreads))
    return tuple(paths), {str(k): int(v) for k, v in sums.items()}, {str(k): int(v) for k, v in most.items()}


# --- ours ----------------------------------------------------------------------------------------------------------


def _ours(bench: Bench, case: Case) -> tuple[float, Counts]:
    folder, topology = bench.fresh(), TridentTopology()
    files = str(case.files[0].parent / "*.parquet")
    case.ours(topology.newStream("rows", FileSpout(files, format="parquet", schema=case.schema, maxFilesPerBatch=1)))
    with Timed() as timed:
        running = topology.start(bench.spark, name="pandas", checkpointLocation=str(folder))
        running.processAllAvailable()
    with running:
        counts = dict(running.state("counts").items())
    bench.drop(folder)
    return timed.seconds, counts


def _series(sales: Stream) -> object:
    kept = sales.each("amount, rate", cents, "cents long").filter("cents", worth_it)
    return kept.groupBy("shop").persistentAggregate(MemoryMapState.opaque(), "cents", Sum(), "total", name="counts")


def _frame(lines: Stream) -> object:
    words = lines.flatMap("line", exploded, "word string")
    return words.groupBy("word").persistentAggregate(MemoryMapState.opaque(), Count(), "n", name="counts")


def _groups(sales: Stream) -> object:
    spreads = sales.groupBy("shop").aggregate("amount", spread, "spread").groupBy("shop")
    return spreads.persistentAggregate(MemoryMapState.opaque(), "spread", Sum(), "total", name="counts")


# --- by hand -------------------------------------------------------------------------------------------------------


def _by_hand(bench: Bench, case: Case) -> tuple[float, Counts]:
    with Timed() as timed:
        reader = bench.spark.read.schema(case.schema)
        tables = [case.by_hand(reader.parquet(str(file))).toArrow() for file in case.files]
    return timed.seconds, counts_of(tables)


def _series_by_hand(sales: DataFrame) -> DataFrame:
    return sales.mapInPandas(_kept, "word string, n long").groupBy("word").agg(F.sum("n").alias("count"))


def _kept(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    for frame in frames:
        total = cents(frame["amount"], frame["rate"])
        kept = worth_it(total)
        yield pd.DataFrame({"word": frame["shop"][kept], "n": total[kept]})


def _frame_by_hand(lines: DataFrame) -> DataFrame:
    return lines.mapInPandas(lambda frames: map(exploded, frames), "word string").groupBy("word").count()


def _groups_by_hand(sales: DataFrame) -> DataFrame:
    over = cast("Any", pandas_udf)(spread, "long")
    return sales.groupBy(F.col("shop").alias("word")).agg(over("amount").alias("count"))
