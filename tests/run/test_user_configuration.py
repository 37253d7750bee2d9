"""The user's own configuration and the context of a run: in operations and spouts, on both engines, never shown."""

import json
import logging
import pickle
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from trident import Function, OperationContext, TridentTopology
from trident.base.errors import TopologyError
from trident.base.user_config import UserConfig
from trident.cli.main import main
from trident.configuration.layers import user_values
from trident.spouts import BatchSpout, FixedBatchSpout, SpoutContext
from trident.state import MemoryMapState

SECRET = "s3cr3t-Pa55word"

FILE = """
[user]
region = "eu"
limit = 5
token = "env:MY_TOKEN"
prices = { dog = 4.5 }
[topologies.shop.user]
limit = 6
[profiles.prod.user]
region = "us"
[profiles.prod.topologies.shop.user]
limit = 7
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in an empty folder, without variables of configuration. Return the place of its file."""
    monkeypatch.chdir(tmp_path)
    for name in ("TRIDENT_CONFIG", "TRIDENT_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("MY_TOKEN", SECRET)
    return tmp_path / "trident.toml"


class Told(Function):
    """Emits the values of its context that do not depend on the engine."""

    outputType = "string"

    def prepare(self, context: OperationContext) -> None:
        self.context = context

    def execute(self, tuple: Any, collector: Any) -> None:
        own = self.context
        place = [own.topology, own.stream, own.step, own.partitionIndex, own.txid]
        collector.emit([json.dumps([*place, own.config["region"], own.config["token"], own.config.get("limit")])])


class Configured(BatchSpout):
    """A spout whose rows come from its context."""

    outputFields = "row string"

    def open(self, context: SpoutContext) -> None:
        self.context = context

    def emitBatch(self, batchId: int) -> list[str] | None:
        own = self.context
        return [f"{own.topology} {own.stream} {own.config['region']}"] if batchId == 1 else None


def told(**options: Any) -> list[Any]:
    """Return the answers of `Told` in a run over two batches."""
    topology = TridentTopology()
    numbers = topology.newStream("numbers", FixedBatchSpout("n long", [[1], [2]]))
    numbers.each("n", Told(), "told").project("n", "told").partitionPersist(
        MemoryMapState.opaque(), keep, keyFields="n", valueType="string", name="told"
    )
    with topology.start(name="shop", **options) as running:
        running.processAllAvailable()
        return [json.loads(value) for _, value in sorted(running.state("told").items())]


def keep(state: Any, tuples: Any, collector: Any) -> None:
    state.multiPut([[each.n] for each in tuples], [each.told for each in tuples])


ENGINES = ["embedded", pytest.param("spark", marks=[pytest.mark.spark, pytest.mark.connect])]


@pytest.mark.parametrize("engine", ENGINES)
def test_an_operation_knows_its_place_and_its_configuration(engine: str, here: Path, request: Any) -> None:
    here.write_text(FILE)
    options = {"spark": request.getfixturevalue("spark")} if engine == "spark" else {}
    got = told(engine=engine, user={"region": "asia"}, **options)
    assert got == [["shop", "numbers", "numbers/1:each(Told)", 0, txid, "asia", SECRET, 6] for txid in (1, 2)]


@pytest.mark.filterwarnings("ignore:state .counts. is new")
@pytest.mark.parametrize("engine", ENGINES)
def test_an_operation_knows_its_place_and_its_configuration_in_a_backfill(
    engine: str, tmp_path: Path, request: Any
) -> None:
    """The batches that are read again have no txid of the run: the state begins with all of them."""
    options: dict[str, Any] = {"user": {"region": "eu", "token": "x"}, "checkpointLocation": tmp_path}
    options |= {"spark": request.getfixturevalue("spark")} if engine == "spark" else {}
    batches: list[Any] = [[1], [2]]

    def topology(*, backfill: bool) -> TridentTopology:
        topology = TridentTopology()
        numbers = topology.newStream("numbers", FixedBatchSpout("n long", batches)).each("n", Told(), "told")
        numbers.peek(print)
        if backfill:
            numbers.project("n", "told").partitionPersist(
                MemoryMapState.opaque(), keep, keyFields="n", valueType="string", name="told", backfill=True
            )
        return topology

    with topology(backfill=False).start(name="shop", engine=engine, **options) as running:
        running.processAllAvailable()
    with topology(backfill=True).start(name="shop", engine=engine, **options) as running:
        running.processAllAvailable()
        found = [json.loads(value) for _, value in sorted(running.state("told").items())]
    assert found == [["shop", "numbers", "numbers/1:each(Told)", 0, txid, "eu", "x", None] for txid in (1, 2)]


def test_a_spout_gets_the_configuration_when_it_opens(here: Path) -> None:
    here.write_text(FILE)
    topology, seen = TridentTopology(), []
    topology.newStream("orders", Configured()).peek(lambda each: seen.append(each.row))
    with topology.start(name="shop", engine="embedded", user={"region": "asia"}) as running:
        running.processAllAvailable()
    assert seen == ["shop orders asia"]
    assert topology.newStream("others", Configured()).take(1)[0].row == " others eu"  # a preview has no topology


def test_a_request_belongs_to_no_batch_and_has_the_configuration() -> None:
    topology = TridentTopology()
    topology.newDRPCStream("ask", "n long").each("n", Told(), "told").project("told")
    with topology.start(name="shop", engine="embedded", user={"region": "eu", "token": "x"}) as running:
        (row,) = running.drpc.execute("ask", 1)
    assert json.loads(row.told) == ["shop", "ask()", "ask()/1:each(Told)", 0, None, "eu", "x", None]


@pytest.mark.parametrize(
    ("profile", "variables", "expected"),
    [
        (None, {}, {"region": "eu", "limit": 6, "token": "env:MY_TOKEN", "prices": {"dog": 4.5}}),
        ("prod", {}, {"region": "us", "limit": 7, "token": "env:MY_TOKEN", "prices": {"dog": 4.5}}),
        (
            None,
            {"TRIDENT_USER_LIMIT": "8", "TRIDENT_USER_MAX_PRICE": "9"},
            {"region": "eu", "limit": 8, "token": "env:MY_TOKEN", "prices": {"dog": 4.5}, "maxPrice": "9"},
        ),
    ],
)
def test_layers_of_the_configuration(
    profile: str | None, variables: dict[str, str], expected: dict[str, Any], here: Path
) -> None:
    here.write_text(FILE)
    assert {key: each.value for key, each in user_values("shop", profile, variables).items()} == expected


@pytest.mark.parametrize(
    ("file", "variable", "message"),
    [
        ("[user]\nlimit = 5", ("TRIDENT_USER_LIMIT", "many"), "TRIDENT_USER_LIMIT='many': expected a int, as in"),
        ("[user]\nof = { a = 1 }", ("TRIDENT_USER_OF", "x"), "has a dict here, which a variable cannot replace"),
        ("user = 5", None, r"\[user\]: expected a table of names and values, not a int"),
        ("[user]\nday = 2026-01-01", None, "day has a value of the type date; accepted are texts"),
        ("[usr]\nregion = 'eu'", None, "did you mean 'user'"),
    ],
)
def test_a_wrong_value_is_refused(
    file: str, variable: tuple[str, str] | None, message: str, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here.write_text(file)
    if variable:
        monkeypatch.setenv(*variable)
    with pytest.raises(TopologyError, match=message):
        user_values("shop")


def test_a_variable_sets_the_key_with_the_same_letters(here: Path) -> None:
    here.write_text("[user]\nmax_price = 1")
    (value,) = user_values("shop", None, {"TRIDENT_USER_MAX_PRICE": "2"}).items()
    assert (value[0], value[1].value) == ("max_price", 2)


def test_a_key_that_is_missing_is_named_with_its_neighbour() -> None:
    with pytest.raises(KeyError, match=r"no 'regoin'; did you mean 'region'\?; its keys are region"):
        UserConfig({"region": "eu"})["regoin"]


@pytest.mark.parametrize(
    "change",
    [
        lambda table: table.update(dog=1),
        lambda table: table.pop("dog"),
        lambda table: table.popitem(),
        lambda table: table.clear(),
        lambda table: table.setdefault("cat", 1),
        lambda table: table.__ior__({"dog": 1}),
        lambda table: table.__setitem__("dog", 1),
        lambda table: table.__delitem__("dog"),
        lambda table: table["of"].update(cat=1),
        lambda table: table["list"][0].update(a=1),
        lambda table: table["list"].__setitem__(0, 1),
    ],
)
def test_tables_and_lists_cannot_be_changed(change: Any) -> None:
    given = {"prices": {"dog": 4, "of": {"cat": 2}, "list": [{"a": 1}, [2]]}}
    config = pickle.loads(pickle.dumps(UserConfig(given)))  # noqa: S301
    for table in (config["prices"], config.get("prices"), dict(config.items())["prices"], deepcopy(config["prices"])):
        with pytest.raises((TypeError, AttributeError), match=r"cannot be changed; dict\(table\)|__setitem__"):
            change(table)
        assert json.loads(json.dumps(table)) == given["prices"]
    own = dict(config["prices"]) | {"dog": 5}
    assert own["dog"] == 5 and config["prices"]["dog"] == 4 and config["prices"]["list"] == ({"a": 1}, (2,))


def test_no_secret_is_shown(here: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    here.write_text(FILE)
    monkeypatch.setenv("TRIDENT_USER_DB_PASSWORD", SECRET)
    monkeypatch.setenv("TRIDENT_USER_QUEUE", f"redis://me:{SECRET}@host")
    shown = CliRunner().invoke(main, ["config", "--name", "shop"])
    assert shown.exit_code == 0, shown.output
    assert "user.dbPassword" in shown.output and "redis://me:***@host" in shown.output
    with caplog.at_level(logging.INFO):
        told(engine="embedded")
    context = OperationContext(0, 1, config=UserConfig({key: each.value for key, each in user_values("shop").items()}))
    assert context.config["dbPassword"] == context.config["token"] == SECRET
    assert "user.region='eu' from" in caplog.text
    assert SECRET not in shown.output + caplog.text + repr(context)


@pytest.fixture
def program(here: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module with a topology, in the working directory."""
    here.with_name("shop_program.py").write_text(
        "from trident import TridentTopology\n"
        "from trident.spouts import FixedBatchSpout\n"
        "topology = TridentTopology()\n"
        "topology.newStream('n', FixedBatchSpout('n long', [[1]])).peek(print)\n"
    )
    monkeypatch.syspath_prepend(str(here.parent))
    return "shop_program:topology"


def test_a_submit_stores_the_configuration_but_no_secret(program: str, here: Path) -> None:
    submit = ["submit", "--home", str(here.parent / "home"), "--name", "shop", "--no-start", program]
    here.write_text(f'[user]\ntoken = "{SECRET}"')
    refused = CliRunner().invoke(main, submit)
    assert refused.exit_code == 1 and "user.token is a secret" in refused.output and SECRET not in refused.output
    here.write_text(FILE)
    ran = CliRunner().invoke(main, submit)
    assert ran.exit_code == 0, ran.output
    (stored,) = here.parent.glob("home/topologies/shop/topology.json")
    assert json.loads(stored.read_text())["options"]["user"]["token"] == "env:MY_TOKEN"
