"""No figure without a right answer: every engine's counts against the known ones."""

from collections.abc import Iterable, Mapping

import pyarrow as pa

Counts = Mapping[str, int]


class WrongAnswerError(AssertionError):
    """An engine counted something else than what is in the files; its time means nothing."""


def check_counts(engine: str, got: Counts, expected: Counts) -> None:
    """Every word once, with its count. Raises WrongAnswerError with the first differences."""
    if got == expected:
        return
    different = [word for word in {*got, *expected} if got.get(word) != expected.get(word)]
    shown = ", ".join(f"{word}: {got.get(word)} for {expected.get(word)}" for word in sorted(different)[:5])
    raise WrongAnswerError(f"{engine}: {len(different)} of {len(expected)} counts differ ({shown})")


def counts_of(tables: Iterable[pa.Table]) -> dict[str, int]:
    """Add up the counts of several batches (fields ``word``, ``count``)."""
    merged = pa.concat_tables(tables).group_by("word").aggregate([("count", "sum")])
    return dict(zip(merged["word"].to_pylist(), merged["count_sum"].to_pylist(), strict=True))
