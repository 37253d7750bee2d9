"""``trident state``: what it prints, and how it ends."""

import inspect
import json
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from click.testing import CliRunner, Result

from tests.access.small_topologies import Fed, counted, counting, fixed
from tests.support.server import RedisServer
from trident import Sum, TridentTopology
from trident.cli.main import main
from trident.state import MemoryMapState, RedisMapState

Run = Callable[..., Result]


@pytest.fixture
def trident_(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a command line; ``--checkpoint`` comes from the environment."""
    monkeypatch.setenv("TRIDENT_CHECKPOINT", str(tmp_path))
    monkeypatch.delenv("TRIDENT_REDIS_URL", raising=False)
    apart = {"mix_stderr": False} if "mix_stderr" in inspect.signature(CliRunner).parameters else {}  # click before 8.2
    runner = CliRunner(**apart)  # type: ignore[arg-type]
    return lambda *words, **more: runner.invoke(main, ["state", *map(str, words)], **more)


def lines(result: Result) -> list[Any]:
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def refused(result: Result, code: int = 1) -> str:
    """The one line of an error."""
    assert result.exit_code == code and result.stdout == "", result.output
    assert "Traceback" not in result.stderr
    if code == 1:
        assert len(result.stderr.splitlines()) == 1
    return result.stderr


def test_list_get_scan_and_export(trident_: Run, tmp_path: Path) -> None:
    counted(counting(fixed(["dog", "cat"], ["dog"])), checkpointLocation=tmp_path)
    (found,) = lines(trident_("list"))
    assert (found["topology"], found["name"], found["shape"]) == ("wc", "counts", "(word string) -> int64 by Count")
    assert lines(trident_("get", "wc", "counts", "dog", "cat")) == [
        {"key": "dog", "value": 2},
        {"key": "cat", "value": 1},
    ]
    assert sorted(map(str, lines(trident_("scan", "wc", "counts")))) == [
        "{'word': 'cat', 'value': 1}",
        "{'word': 'dog', 'value': 2}",
    ]
    assert len(lines(trident_("scan", "wc", "counts", "--limit", 1))) == 1
    shown = trident_("get", "wc", "counts", "dog", "--format", "table")
    assert shown.stdout == "key  value\ndog  2\n"
    assert "wc        counts  memory" in trident_("list", "wc", "--format", "table").stdout
    file = tmp_path / "counts.parquet"
    told = trident_("export", "wc", "counts", file)
    assert (told.stdout, told.stderr) == ("", f"2 entries of wc/counts, as of txid 2, in {file}\n")
    assert dict(pd.read_parquet(file).to_numpy().tolist()) == {"dog": 2, "cat": 1}
    assert "exists; use --overwrite" in refused(trident_("export", "wc", "counts", file))
    assert trident_("export", "wc", "counts", file, "--overwrite").exit_code == 0


def test_entries_with_a_value_are_printed(trident_: Run, tmp_path: Path) -> None:
    topology = TridentTopology()
    rows = [[(1, "Ann", "Rome"), (2, "Bob", "Oslo")], [(2, "Bob", "Rome")]]
    users = topology.newStream("users", fixed(*rows, fields="id long, name string, city string"))
    users.toTable("id", name="users", index=["city", ("name", "city")])
    counted(topology, checkpointLocation=tmp_path)
    ann, bob = ({"id": at, "value": {"name": name, "city": "Rome"}} for at, name in ((1, "Ann"), (2, "Bob")))
    assert lines(trident_("by", "wc", "users", "city", "Rome")) == [ann, bob]
    assert lines(trident_("by", "wc", "users", "city", "Rome", "--limit", 1)) in ([ann], [bob])
    assert lines(trident_("by", "wc", "users", "city", "Rome", "--previous")) == [ann]
    assert lines(trident_("by", "wc", "users", "name,city", '["Bob", "Rome"]')) == [bob]
    assert trident_("by", "wc", "users", "city", "Bonn").stdout == ""
    assert "state 'users' has no index by (town)" in refused(trident_("by", "wc", "users", "town", "Rome"))
    assert "expected a JSON list of (name string, city string)" in refused(
        trident_("by", "wc", "users", "name,city", "7")
    )


def test_a_range_is_printed_in_order(trident_: Run, tmp_path: Path) -> None:
    counted(counting(fixed(["dog", "cat", "cow"], ["dog"])), checkpointLocation=tmp_path)
    cat, cow, dog = ({"word": word, "value": count} for word, count in (("cat", 1), ("cow", 1), ("dog", 2)))
    assert lines(trident_("range", "wc", "counts")) == [cat, cow, dog]
    assert lines(trident_("range", "wc", "counts", "--low", "cb", "--high", "dog")) == [cow]
    assert lines(trident_("range", "wc", "counts", "--begins", "c", "--limit", 1)) == [cat]
    assert lines(trident_("range", "wc", "counts", "--low", "d", "--previous")) == [dog | {"value": 1}]
    told = refused(trident_("range", "wc", "counts", "--low", "d", "--begins", "d"), 2)
    assert "--begins cannot be combined with --low or --high" in told


def test_the_batch_before_is_read_too(trident_: Run, tmp_path: Path) -> None:
    counted(counting(fixed(["dog", "cat"], ["dog"])), checkpointLocation=tmp_path)
    assert lines(trident_("get", "wc", "counts", "dog", "--previous")) == [{"key": "dog", "value": 1}]
    assert len(lines(trident_("scan", "wc", "counts", "--previous"))) == 2
    told = trident_("export", "wc", "counts", tmp_path / "counts.csv", "--previous")
    assert told.stderr.startswith("2 entries of wc/counts, as of txid 1, in ")
    both = refused(trident_("get", "wc", "counts", "dog", "--previous", "--latest"), 2)
    assert "--latest, --previous and --as-of contradict each other" in both
    assert lines(trident_("get", "wc", "counts", "dog", "--as-of", "1")) == [{"key": "dog", "value": 1}]
    assert "txid 9 has not been committed yet" in refused(trident_("get", "wc", "counts", "dog", "--as-of", "9"), 1)


def test_a_key_without_a_value_is_null_and_the_end_is_3(trident_: Run, tmp_path: Path) -> None:
    counted(counting(fixed(["dog"])), checkpointLocation=tmp_path)
    result = trident_("get", "wc", "counts", "dog", "gnu")
    assert result.exit_code == 3
    assert list(map(json.loads, result.stdout.splitlines()))[1] == {"key": "gnu", "value": None}


def test_keys_of_all_types_can_be_written(trident_: Run, tmp_path: Path) -> None:
    fields = "n long, day date, d decimal(5,2), ok boolean, t string, x binary, v long"
    import datetime
    import decimal

    row = (7, datetime.date(2024, 2, 1), decimal.Decimal("1.50"), True, "7", b"\x00\xff", 3)
    topology = TridentTopology()
    rows = topology.newStream("rows", fixed([row], fields=fields))
    for field in ("n", "day", "d", "ok", "t", "x"):
        rows.groupBy(field).persistentAggregate(MemoryMapState.opaque(), "v", Sum(), "s", name=field)
    rows.groupBy("n, t").persistentAggregate(MemoryMapState.opaque(), "v", Sum(), "s", name="two")
    rows.persistentAggregate(MemoryMapState.opaque(), "v", Sum(), "s", name="all")
    counted(topology, checkpointLocation=tmp_path)
    written = {"n": "7", "day": "2024-02-01", "d": "1.50", "ok": "true", "t": "7", "x": "AP8=", "two": '[7, "7"]'}
    for name, key in written.items():
        assert lines(trident_("get", "wc", name, key)) == [{"key": key, "value": 3}]
        assert lines(trident_("scan", "wc", name))[0]["value"] == 3
        assert lines(trident_("range", "wc", name, "--low", key))[0]["value"] == 3
        assert lines(trident_("range", "wc", name, "--high", key)) == []
    assert lines(trident_("get", "wc", "all")) == [{"value": 3}]
    assert "invalid key '7x': expected n bigint" in refused(trident_("get", "wc", "n", "7x"))
    assert "invalid key 'x': expected day date" in refused(trident_("get", "wc", "day", "x"))
    assert "expected a JSON list of (n bigint, t string)" in refused(trident_("get", "wc", "two", "7"))
    assert "has no key fields" in refused(trident_("get", "wc", "all", "7"))
    assert "is keyed by n: give keys, or use scan" in refused(trident_("get", "wc", "n"), 2)


def test_errors_are_one_line_and_wrong_usage_ends_with_2(
    trident_: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "trident: LogError: no topology 'wc' under" in refused(trident_("get", "wc", "counts", "a"))
    counted(counting(fixed(["dog"])), checkpointLocation=tmp_path)
    assert "did you mean 'counts'?" in refused(trident_("scan", "wc", "count"))
    told = refused(trident_("scan", "wc", "counts", "--url", "http://u:pw@host"), 2)
    assert "the url has a password" in told and "pw@" not in told
    assert "expected redis://" in refused(trident_("scan", "wc", "counts", "--url", "http://host"))
    assert "TRIDENT_NO_SUCH is not set" in refused(trident_("scan", "wc", "counts", "--url", "env:TRIDENT_NO_SUCH"))
    assert "--format" in refused(trident_("scan", "wc", "counts", "--format", "xml"), 2)
    monkeypatch.delenv("TRIDENT_CHECKPOINT")
    assert "give the location of the states" in refused(trident_("scan", "wc", "counts"), 2)


def test_a_state_in_redis_by_a_url_that_stands_in_a_file_or_the_environment(
    trident_: Run, tmp_path: Path, shared_redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted(counting(fixed(["dog"]), RedisMapState.opaque(shared_redis.url)), checkpointLocation=tmp_path)
    (tmp_path / "url").write_text(shared_redis.url)
    monkeypatch.setenv("WHERE", shared_redis.url)
    for url in (f"file:{tmp_path / 'url'}", "env:WHERE", shared_redis.url):
        assert lines(trident_("get", "wc", "counts", "dog", "--url", url)) == [{"key": "dog", "value": 1}]
    monkeypatch.setenv("TRIDENT_REDIS_URL", "env:WHERE")
    assert lines(trident_("scan", "wc", "counts", "--latest")) == [{"word": "dog", "value": 1}]
    (listed,) = lines(trident_("list"))  # of the server and of the log, which knows the driver
    assert (listed["place"], listed["kind"], listed["heldByDriver"]) == ("env:WHERE, trident", "opaque", False)
    monkeypatch.delenv("TRIDENT_REDIS_URL")
    (listed,) = lines(trident_("list"))
    assert (listed["place"], listed["kind"]) == ("a server or a database, which the log does not name", None)


def test_drop_asks_and_leaves_alone_what_a_driver_holds(
    trident_: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from trident.run import registry

    fed = Fed(checkpointLocation=tmp_path)
    fed.feed("dog")
    with fed.running:
        monkeypatch.setattr(registry, "running_here", list)  # as another process sees it
        assert "a driver holds topology 'wc' (epoch 1)" in refused(trident_("drop", "wc", "counts", "--yes"))
        monkeypatch.undo()
    monkeypatch.setenv("TRIDENT_CHECKPOINT", str(tmp_path))
    declined = trident_("drop", "wc", "counts", input="n\n")
    assert declined.exit_code == 1 and "Delete state 'counts' of topology 'wc' permanently?" in declined.stderr
    assert lines(trident_("get", "wc", "counts", "dog")) == [{"key": "dog", "value": 1}]
    assert trident_("drop", "wc", "counts", input="y\n").exit_code == 0
    assert lines(trident_("list")) == [] and trident_("list").stderr == "no states there\n"


def test_a_slip_in_the_place_is_told(trident_: Run, tmp_path: Path) -> None:
    counted(counting(fixed(["dog"])), checkpointLocation=tmp_path)
    gone = tmp_path / "cehckpoint"
    assert trident_("list", "--checkpoint", gone).stderr == f"no states: there is no folder {gone}\n"
    assert f"there is no folder {gone} to write" in refused(trident_("export", "wc", "counts", gone / "counts.csv"))


def test_a_state_in_memory_is_read_though_a_server_stands_in_the_environment(
    trident_: Run, tmp_path: Path, shared_redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRIDENT_REDIS_URL", shared_redis.url)
    counted(counting(fixed(["dog"])), checkpointLocation=tmp_path)
    assert lines(trident_("get", "wc", "counts", "dog")) == [{"key": "dog", "value": 1}]


def test_it_is_a_program(tmp_path: Path) -> None:
    """In a process of its own, whose output is closed early too."""
    counted(counting(fixed([f"w{n}" for n in range(5000)])), checkpointLocation=tmp_path)
    command = [sys.executable, "-m", "trident", "state", "scan", "wc", "counts", "--checkpoint", str(tmp_path)]
    done = subprocess.run(f"{' '.join(command)} | head -2", shell=True, capture_output=True, text=True, check=True)
    assert len(done.stdout.splitlines()) == 2 and done.stderr == ""
    failed = subprocess.run([*command[:-1], str(tmp_path / "no")], capture_output=True, text=True, check=False)
    assert failed.returncode == 1 and failed.stderr.startswith("trident: LogError: ")


def test_the_last_batch_until_a_time_is_read(trident_: Run, tmp_path: Path) -> None:
    counted(counting(fixed(["dog", "cat"], ["dog"])), checkpointLocation=tmp_path)
    now = datetime.now(UTC).isoformat()
    assert lines(trident_("get", "wc", "counts", "dog", "--as-of", now)) == [{"key": "dog", "value": 2}]
    early = refused(trident_("get", "wc", "counts", "dog", "--as-of", "2001-01-01 10:00"), 1)
    assert "2001-01-01 10:00 is before the batches that are kept" in early
    for wrong, message in (("soon", "'soon': expected a txid, a time such"), ("2999-01-01", "is in the future")):
        assert message in refused(trident_("get", "wc", "counts", "dog", "--as-of", wrong), 2)


PROGRAM = """
from trident import Average, TridentTopology
from trident.spouts import FixedBatchSpout
from trident.state import {factory}

topology = TridentTopology()
batches = [[("dog", 1), ("cat", 2)], [("dog", 4)]]
words = topology.newStream("words", FixedBatchSpout("word string, n long", batches)).groupBy("word")
words.persistentAggregate({factory}.opaque("states"), Average("n"), "mean", name="means", index="mean")
"""


@pytest.mark.parametrize("factory", ["DeltaMapState", "SqliteMapState"])
def test_a_program_says_where_its_states_are(
    trident_: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, factory: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    module, text = f"means_in_{factory.lower()}", PROGRAM.replace("{factory}", factory)
    Path(f"{module}.py").write_text(text)
    names: dict[str, Any] = {}
    exec(text, names)  # noqa: S102
    with names["topology"].start(engine="embedded", name="m", checkpointLocation=tmp_path) as running:
        running.processAllAvailable()
    state = ("m", "means", "--program", f"{module}:topology")
    assert lines(trident_("get", *state, "dog", "cat")) == [{"key": "dog", "value": 2.5}, {"key": "cat", "value": 2.0}]
    assert lines(trident_("get", *state, "dog", "--previous")) == [{"key": "dog", "value": 1.0}]
    assert lines(trident_("range", *state, "--low", "d")) == [{"word": "dog", "mean": 2.5}]
    assert lines(trident_("scan", *state, "--limit", "1"))[0]["mean"] in (2.5, 2.0)
    assert lines(trident_("by", "m", "means", "mean", "2.5", "--program", f"{module}:topology"))[0]["word"] == "dog"
    assert trident_("export", "m", "means", "x.csv", "--program", f"{module}:topology").exit_code == 0
    assert Path("x.csv").read_text().splitlines()[0] == '"word","mean"'
    assert "no state 'maens'; did you mean 'means'?" in refused(trident_("get", "m", "maens", "dog", *state[2:]))
    assert "expected module:topology" in refused(trident_("get", "m", "means", "dog", "--program", "x"), 2)
    assert "remove --url" in refused(trident_("get", *state, "dog", "--url", "redis://nowhere"), 2)
    assert lines(trident_("get", "m", "means", "dog")) == [{"key": "dog", "value": 2.5}]  # the log names the place
