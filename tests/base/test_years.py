"""Times outside the years 1 to 9999 in UTC: refused where they enter, and a typed error where one is stored already."""

import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from trident import Count, DeadLetter, Last, TridentTopology, dropState
from trident.base import accepted_values
from trident.base.years import FIRST, LAST, row_outside_years
from trident.commits import committer
from trident.compiler.columns.pandas_columns import from_series
from trident.errors import MalformedInputError, SpoutContractError, StateValueError, TridentError
from trident.spouts import Csv, FileSpout, FixedBatchSpout, Json
from trident.state import MemoryMapState
from trident_spouts.rows import read_schema, table_of

AT = pa.timestamp("us", "UTC")
FIELDS = "id long, at timestamp"
EARLY = datetime.datetime(1, 1, 1, tzinfo=ZoneInfo("Europe/Berlin"))
LATE = datetime.datetime(9999, 12, 31, 23, 59, 59, tzinfo=ZoneInfo("America/New_York"))
GOOD = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
WHY = "in UTC it is outside the years 1 to 9999"


@pytest.mark.parametrize(
    ("column", "row"),
    [
        (pa.array([FIRST, None, LAST], AT), None),
        (pa.array([0, None, LAST + 1], AT), 2),
        (pa.array([0, FIRST - 1], pa.timestamp("us")), 1),
        (pa.array([[0], None, [0, LAST + 1]], pa.list_(AT)), 2),
        (pa.array([[(1, 0)], [(2, LAST + 1)]], pa.map_(pa.int64(), AT)), 1),
        (pa.array([{"a": 0}, {"a": FIRST - 1}], pa.struct([("a", AT)])), 1),
        (pa.chunked_array([pa.array([0, 1], AT), pa.array([LAST + 1], AT)]), 2),
        (pa.array([-719_162, 2_932_896], pa.date32()), None),
        (pa.array([0, 2_932_897], pa.date32()), 1),
        (pa.array([], AT), None),
    ],
)
def test_the_first_row_outside_the_years_is_found(column: pa.Array, row: int | None) -> None:
    assert row_outside_years(column) == row


@pytest.mark.parametrize(
    "given",
    [
        [(1, GOOD), (2, EARLY)],
        [(1, GOOD), (2, LATE)],
        pa.table({"id": [1, 2], "at": pa.array([0, LAST + 1], AT)}),
        pa.table({"id": [1, 2], "at": pa.array([0, LAST // 1_000_000 + 1], pa.timestamp("s", "UTC"))}),
        pd.DataFrame({"id": [1, 2], "at": pd.Series([0, LAST + 1]).astype("datetime64[us]").dt.tz_localize("UTC")}),
    ],
)
def test_a_spouts_rows_are_refused_with_row_field_and_range(given: Any) -> None:
    with pytest.raises(SpoutContractError, match=rf"^S, batch 3.*row 1.*{WHY}") as caught:
        table_of(given, read_schema(FIELDS), "S, batch 3")
    assert "'at': expected timestamp" in str(caught.value)


@pytest.mark.parametrize(
    ("zone", "text"),
    [
        ("Europe/Berlin", "0001-01-01 00:00:00"),
        ("UTC", "0001-01-01 00:00:00+14:00"),
        ("America/New_York", "9999-12-31 23:59:59"),
    ],
)
@pytest.mark.parametrize("form", [Csv, Json])
def test_in_a_file_it_is_malformed(tmp_path: Path, form: Any, zone: str, text: str) -> None:
    bad = f"2,{text}" if form is Csv else f'{{"id": 2, "at": "{text}"}}'
    good = "id,at\n1,2020-01-01 00:00:00" if form is Csv else '{"id": 1, "at": "2020-01-01 00:00:00"}'
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "f").write_text(f"{good}\n{bad}\n")

    def run(malformed: Any) -> dict[Any, Any]:
        topology = TridentTopology()
        spout = FileSpout(tmp_path / "in", form(timeZone=zone, malformed=malformed), FIELDS)
        fields = {"at": Last("at")} | (
            {"c": Last("_corrupt"), "why": Last("_corrupt_reason")} if malformed == "keep" else {}
        )
        topology.newStream("s", spout).groupBy("id").persistentAggregate(MemoryMapState.opaque(), fields, name="p")
        with topology.start(engine="embedded", checkpointLocation=tmp_path / malformed, maxAttempts=1) as running:
            running.processAllAvailable(timeout=30)
            return dict(running.state("p").items())

    kept = run("keep")[None]
    assert kept.c == bad
    assert kept.why.startswith("field 'at': expected timestamp, got ") and WHY in kept.why
    with pytest.raises(TridentError) as caught:
        run("fail")
    error = caught.value if isinstance(caught.value, MalformedInputError) else caught.value.__cause__
    assert isinstance(error, MalformedInputError)
    line = 3 if form is Csv else 2
    assert f"in/f:{line}: field 'at': expected timestamp, got " in str(error) and WHY in str(error)


def test_in_a_parquet_file_it_is_an_error_with_file_and_row(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": [1, 2], "at": pa.array([0, LAST + 1], AT)}), tmp_path / "f.parquet")
    topology = TridentTopology()
    topology.newStream("s", FileSpout(tmp_path / "*.parquet", "parquet")).toTable("id", name="p")
    with (
        pytest.raises(TridentError, match=rf"f\.parquet, field 'at': .*row 1 has the time 10000-01-01.*{WHY}"),
        topology.start(engine="embedded", maxAttempts=1) as running,
    ):
        running.processAllAvailable(timeout=30)


def test_a_series_of_a_function_is_refused() -> None:
    series = pd.Series([0, LAST + 1]).astype("datetime64[us]").dt.tz_localize("UTC")
    with pytest.raises(accepted_values.NotAccepted) as caught:
        from_series(series, AT)
    assert (caught.value.row, WHY in caught.value.why) == (1, True)


def of_function(engine: dict[str, Any], onError: Any) -> Any:
    topology = TridentTopology()
    stream = topology.newStream("s", FixedBatchSpout("id long", [[(1,), (2,)]]))
    times = stream.each("id", lambda n: GOOD if n == 1 else EARLY, "at timestamp", onError=onError)
    times.groupBy("id").persistentAggregate(MemoryMapState.opaque(), {"at": Last("at")}, name="p")
    if isinstance(onError, DeadLetter):
        topology.deadLetterState(MemoryMapState.opaque(), name="dead")
    with topology.start(**engine, maxAttempts=1) as running:
        running.processAllAvailable(timeout=60)
        return list(running.state("p"))


@pytest.mark.parametrize("onError", ["skip", DeadLetter(attempts=0)])
def test_policies_catch_a_function_that_gives_one(onError: Any) -> None:
    assert of_function({"engine": "embedded"}, onError) == [1]


def test_a_function_that_gives_one_is_named_with_its_line() -> None:
    with pytest.raises(TridentError, match=rf"test_years\.py:\d+.*{WHY}"):
        of_function({"engine": "embedded"}, "fail")


@pytest.mark.spark
def test_policies_catch_it_on_spark(spark: Any) -> None:
    assert of_function({"spark": spark}, "skip") == [1]


# --- a second line: what was frozen or stored in spite of the checks ----------------------------------------------


def start(folder: Path, table: bool, second: datetime.datetime = EARLY) -> Any:
    topology = TridentTopology()
    stream = topology.newStream("s", FixedBatchSpout(FIELDS, [[(1, GOOD), (2, second)]]))
    if table:
        stream.toTable("id", name="p")
    else:
        stream.groupBy("id").persistentAggregate(MemoryMapState.opaque(), {"at": Last("at")}, name="p")
    return topology.start(name="t", engine="embedded", checkpointLocation=folder, maxAttempts=1, commitRetrySecs=0)


def as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let such times in."""
    monkeypatch.setattr(accepted_values, "_is_in_years", lambda value: True)
    monkeypatch.setattr(committer, "check_years", lambda *_: None)


def run(folder: Path, second: datetime.datetime = EARLY) -> dict[Any, Any]:
    with start(folder, table=False, second=second) as running:
        running.processAllAvailable(timeout=30)
        return dict(running.state("p"))


def test_nothing_with_such_a_time_is_frozen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accepted_values, "_is_in_years", lambda value: True)
    with pytest.raises(TridentError, match=r"'p', batch 1, id=2.*: the time 0000-12-31 23:06:32.000000: in UTC"):
        run(tmp_path)
    monkeypatch.undo()
    with pytest.raises(TridentError, match=r"FixedBatchSpout, batch 0, row 1"):  # emitted anew: it is not frozen
        run(tmp_path)


@pytest.mark.filterwarnings("ignore:state 'p' is new:RuntimeWarning")
def test_a_batch_with_one_is_committed_and_dropstate_is_a_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A value that is combined in columns becomes no datetime, so only a read of it fails."""
    as_before(monkeypatch)
    with pytest.raises(StateValueError, match=r"state 'p', id=2: it contains the time 0000-12-31.*dropState"):
        run(tmp_path)
    monkeypatch.undo()
    for _ in range(2):
        with pytest.raises(StateValueError, match=r"state 'p', id=2: it contains the time 0000-12-31.*dropState"):
            run(tmp_path, GOOD)
    dropState("t", "p", tmp_path)
    assert run(tmp_path, GOOD) == {}


def test_a_stored_one_names_state_and_key_and_arrow_shows_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    as_before(monkeypatch)
    with start(tmp_path, table=True) as running:
        running.processAllAvailable(timeout=30)
        view = running.state("p")
        for read in (lambda: view[2], lambda: dict(view), lambda: list(view.items()), lambda: view.top(2, by="at")):
            with pytest.raises(StateValueError, match=r"state 'p', id=2: it contains the time 0000-12-31.*dropState"):
                read()
        assert view.toArrow().num_rows == 2


# --- durations ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("joinType", ["inner", "full"])
def test_the_longest_interval_pairs_all_times(joinType: str) -> None:
    first = datetime.datetime(1, 1, 1, tzinfo=datetime.UTC)
    last = datetime.datetime(9999, 12, 31, 23, 59, 59, tzinfo=datetime.UTC)
    topology = TridentTopology()
    left = topology.newStream("l", FixedBatchSpout("k long, at timestamp, v long", [[(1, last, 1)], [(1, last, 2)]]))
    right = topology.newStream("r", FixedBatchSpout("k long, at timestamp, c long", [[(1, last, 3)], [(1, first, 4)]]))
    between = ("-3652425 days", "3652425 days")
    pairs = left.intervalJoin(
        right,
        "k",
        between,
        timestampField="at",
        joinType=joinType,
        lateness="3652425 days",
        outputFields="k, a, v, b, c",
    )
    pairs.groupBy("v, c").persistentAggregate(MemoryMapState.opaque(), Count(), "n", name="n")
    with topology.start(engine="embedded", maxAttempts=1) as running:
        running.processAllAvailable(timeout=30)
        assert dict(running.state("n")) == {(1, 3): 1, (1, 4): 1, (2, 3): 1, (2, 4): 1}
