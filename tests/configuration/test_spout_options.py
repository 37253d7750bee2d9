"""Options of spouts that a file, the environment or a start sets in place of the program's."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from trident import Count, TridentTopology
from trident.base.errors import TopologyError
from trident.configuration.layers import configured
from trident.plan.nodes import SpoutSource
from trident.plan.spout_options import with_spout_options
from trident.spouts import (
    BatchSpout,
    Csv,
    DeltaSpout,
    FileSpout,
    FixedBatchSpout,
    IterableSpout,
    JdbcSpout,
    KafkaSpout,
    PollingSpout,
    RateSpout,
    RedisStreamSpout,
)
from trident.state import MemoryMapState


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in an empty folder, without variables of configuration. Return the place of its file."""
    monkeypatch.chdir(tmp_path)
    for name in ("TRIDENT_CONFIG", "TRIDENT_PROFILE", "TRIDENT_START_SPOUTS"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "trident.toml"


def program(spout: Any, **more: Any) -> TridentTopology:
    topology = TridentTopology()
    for stream, each in {"orders": spout, **more}.items():
        topology.newStream(stream, each).persistentAggregate(MemoryMapState.opaque(), Count(), "n", name=f"of-{stream}")
    return topology


def spout_of(topology: TridentTopology, **options: Any) -> Any:
    plan = with_spout_options(topology, {"orders": options})
    (source,) = [node for node in plan.nodes if isinstance(node, SpoutSource) and node.stream == "orders"]
    return source.spout


NUMBERS = FixedBatchSpout("n long", [[(1,), (2,)]])


@pytest.mark.parametrize(
    ("spout", "option", "value"),
    [
        (KafkaSpout("here:9092", "orders", kind="opaque"), "maxOffsetsPerBatch", 7),
        (KafkaSpout("here:9092", pattern="orders-.*"), "bootstrapServers", "there:9092"),
        (KafkaSpout("here:9092", ["a", "b"]), "options", {"security.protocol": "SSL"}),
        (RateSpout(10), "rowsPerSecond", 20),
        (FileSpout("lines", Csv("n long")), "path", "others"),
        (RedisStreamSpout("redis://here:6379", "orders", "n long"), "url", "redis://there:6379"),
        (IterableSpout("n long", [(1,)]), "batchSize", 3),
        (DeltaSpout("table", "n long"), "path", "other"),
        (PollingSpout("n long", {}), "maxRows", 3),
    ],
    ids=lambda each: type(each).__name__,
)
def test_a_spout_is_made_again_with_one_other_argument(spout: Any, option: str, value: object) -> None:
    changed = spout_of(program(spout), **{option: value})
    assert type(changed) is type(spout)
    before, after = vars(spout)["_call"], vars(changed)["_call"]
    assert after == {**before, option: value}
    assert repr(changed) != repr(spout)


def test_the_program_keeps_its_spouts_and_a_second_start_has_others() -> None:
    spout = RateSpout(10)
    topology = program(spout)
    assert spout_of(topology, rowsPerSecond=20).rowsPerSecond == 20
    assert spout_of(topology, numPartitions=2).rowsPerSecond == 10
    assert [node.spout for node in topology.nodes if isinstance(node, SpoutSource)] == [spout]


def test_layers_replace_single_options(here: Path) -> None:
    here.write_text(
        """
        defaultProfile = "dev"
        [spouts.orders]
        maxOffsetsPerBatch = 1
        kind = "opaque"
        [start.spouts.clicks]
        kind = "opaque"
        [profiles.dev.spouts.orders]
        maxOffsetsPerBatch = 2
        onDataLoss = "latest"
        [topologies.shop.spouts.orders]
        isolationLevel = "read_uncommitted"
        """
    )
    found = configured("shop", None, {"TRIDENT_START_SPOUTS": "orders.onDataLoss=earliest,orders.maxOffsetsPerBatch=3"})
    assert found["spouts"].value == {
        "clicks": {"kind": "opaque"},
        "orders": {
            "maxOffsetsPerBatch": 3, "kind": "opaque", "onDataLoss": "earliest", "isolationLevel": "read_uncommitted",
        },
    }  # fmt: skip
    assert found["spouts"].layer.endswith("[topologies.shop]; TRIDENT_START_SPOUTS")
    assert "[profiles.dev.spouts]" in found["spouts"].layer
    assert configured("other", None, {})["spouts"].value["orders"]["maxOffsetsPerBatch"] == 2


class Numbers(BatchSpout):
    """A spout with an option, which it changes by itself."""

    outputFields = "n long"

    def __init__(self, limit: int = 1) -> None:
        self.limit = limit

    def emitBatch(self, batchId: int) -> list[int] | None:
        return list(range(self.limit)) if batchId == 1 else None

    def withOptions(self, limit: int) -> "Numbers":
        if limit < 1:
            raise ValueError(f"limit={limit}: expected at least 1")
        return Numbers(limit)


@dataclass
class Declared(BatchSpout):
    """A spout that is a dataclass."""

    limit: int = 1
    outputFields: str = "n long"

    def emitBatch(self, batchId: int) -> list[int] | None:
        return list(range(self.limit)) if batchId == 1 else None


@pytest.mark.parametrize("spout", [Numbers(), Declared()])
@pytest.mark.parametrize("way", ["file", "call", "both"])
def test_a_run_reads_the_changed_spouts_and_only_those(here: Path, spout: Any, way: str) -> None:
    if way != "call":
        here.write_text("[spouts.orders]\nlimit = 5\n")
    topology = program(spout, others=replace(Declared(), limit=2))
    topology.newDRPCStream("twice", "n long").each("n", lambda n: n * 2, "m long")
    given = {} if way == "file" else {"spouts": {"orders": {"limit": 5 if way == "call" else 7}}}
    with topology.start(engine="embedded", **given) as running:
        running.processAllAvailable()
        expected = 7 if way == "both" else 5
        assert running.state("of-orders").value == expected
        assert running.state("of-others").value == 2
        assert running.drpc.execute("twice", 4)[0][-1] == 8
        running.explain()


@pytest.mark.parametrize(
    ("spout", "options", "message"),
    [
        (RateSpout(1), {"rowsPerSecnd": 2}, "RateSpout has no option 'rowsPerSecnd'; did you mean 'rowsPerSecond'"),
        (RateSpout(1), {"rowsPerSecond": -1}, "rowsPerSecond"),
        (KafkaSpout("a:1", "b"), {"kind": "opaque"}, "the kind would change from transactional to opaque"),
        (IterableSpout("n long", [(1,)]), {"fields": "m long"}, "the fields would change"),
        (KafkaSpout("a:1", "b"), {"topics": 3}, "topics=3"),
        (NUMBERS, {"cycle": True}, "FixedBatchSpout has no options that can be changed from outside"),
        (Numbers(), {"limit": 0}, "expected at least 1"),
        (Numbers(), {"most": 3}, "most"),
        (Declared(), {"limt": 3}, "did you mean 'limit'"),
        (Declared(), {"outputFields": "m long"}, "the fields would change"),
    ],
)
def test_what_a_spout_does_not_take_is_refused(spout: Any, options: dict[str, object], message: str) -> None:
    with pytest.raises(TopologyError) as caught:
        program(spout).start(engine="embedded", spouts={"orders": options})
    assert message in str(caught.value)
    assert str(caught.value).startswith("spouts.orders (")
    assert "test_spout_options.py:" in str(caught.value)


def test_a_stream_that_does_not_exist_is_refused() -> None:
    with pytest.raises(TopologyError, match=r"spouts: there is no stream 'order'; did you mean 'orders'"):
        program(Numbers()).start(engine="embedded", spouts={"order": {"limit": 2}})


@pytest.mark.parametrize("wrong", ["orders", {"orders": 3}, {1: {}}, {"orders": {2: 3}}, [("orders", {})]])
@pytest.mark.parametrize("beside", [False, True])
def test_options_of_another_form_are_refused(here: Path, wrong: Any, beside: bool) -> None:
    if beside:
        here.write_text("[spouts.orders]\nlimit = 5\n")
    with pytest.raises(TopologyError, match="expected a dict of streams"):
        program(Numbers()).start(engine="embedded", spouts=wrong)


def test_options_of_another_form_in_a_file_are_refused_with_its_place(here: Path) -> None:
    here.write_text("[spouts]\norders = 5\n")
    with pytest.raises(TopologyError, match=r"trident\.toml, \[spouts\]: spouts=\{'orders': 5\}: expected a dict"):
        configured("shop", None, {})


def test_a_variable_without_an_option_is_refused() -> None:
    with pytest.raises(TopologyError, match=r"expected stream\.option=value"):
        configured("shop", None, {"TRIDENT_START_SPOUTS": "orders=3"})


def test_the_database_of_a_spout_is_not_opened_by_a_wrong_option() -> None:
    spout = JdbcSpout("postgresql://nowhere:1/none", "orders", "id long", orderBy="id")
    with pytest.raises(TopologyError, match="has no option 'tabel'"):
        spout_of(program(spout), tabel="x")


def test_a_secret_is_not_logged(here: Path, caplog: pytest.LogCaptureFixture) -> None:
    here.write_text('[spouts.orders]\nlimit = 2\npassword = "secret-of-mine"\n')
    with caplog.at_level("INFO"), pytest.raises(TopologyError):
        program(Declared()).start(engine="embedded")
    assert "spouts={'orders': {'limit': 2, 'password': '***'}}" in caplog.text
    assert "secret-of-mine" not in caplog.text
