"""Layers of configuration: which one outranks which, and what is refused."""

import logging
from pathlib import Path

import pytest

from trident import Count, TridentTopology
from trident.base.errors import TopologyError
from trident.configuration.layers import DEFAULT, configured, variable_of
from trident.configuration.start_options import OPTIONS, OUTSIDE
from trident.log import RedisLog
from trident.spouts import FixedBatchSpout
from trident.state import MemoryMapState

CALL_ONLY = {"name", "takeover", "replace", "waitStrategy", "user"}

EVERYWHERE = """
defaultProfile = "dev"
[start]
maxAttempts = 1
maxSpoutPending = 1
messageTimeoutSecs = "1 minute"
rewindBytes = 1
[profiles.dev.start]
maxSpoutPending = 2
[profiles.prod.start]
maxSpoutPending = 3
requireExactlyOnce = true
[topologies.wc]
messageTimeoutSecs = "2 minutes"
[topologies.other]
maxAttempts = 9
[profiles.prod.topologies.wc]
rewindBytes = 2
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in an empty folder, without variables of configuration. Return the place of its file."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TRIDENT_CONFIG", raising=False)
    monkeypatch.delenv("TRIDENT_PROFILE", raising=False)
    return tmp_path / "trident.toml"


def test_every_option_of_a_start_is_an_option_here_or_belongs_to_the_call(here: Path) -> None:
    assert {*OUTSIDE} == {*OPTIONS} - CALL_ONLY == {*configured("wc", None, {})}


@pytest.mark.parametrize(
    ("profile", "expected"),
    [
        (None, {"maxAttempts": 1, "maxSpoutPending": 2, "messageTimeoutSecs": "2 minutes", "rewindBytes": 1}),
        ("prod", {"maxAttempts": 1, "maxSpoutPending": 3, "messageTimeoutSecs": "2 minutes", "rewindBytes": 2}),
    ],
)
def test_a_topology_outranks_all_and_a_profile_what_stands_outside_of_it(
    here: Path, profile: str | None, expected: dict[str, object]
) -> None:
    here.write_text(EVERYWHERE)
    values = configured("wc", profile, {})
    assert {name: values[name].value for name in expected} == expected
    assert values["targetBatchSecs"].layer == DEFAULT


def test_the_environment_outranks_the_file_and_names_a_profile(here: Path) -> None:
    here.write_text(EVERYWHERE)
    values = configured("wc", None, {"TRIDENT_PROFILE": "prod", "TRIDENT_START_MAX_ATTEMPTS": "7"})
    assert (values["maxAttempts"].value, values["maxAttempts"].layer) == (7, "TRIDENT_START_MAX_ATTEMPTS")
    assert values["requireExactlyOnce"].value is True
    assert values["requireExactlyOnce"].layer == "trident.toml, [profiles.prod.start]"


@pytest.mark.parametrize(
    ("option", "text", "value"),
    [
        ("engine", "embedded", "embedded"),
        ("availableNow", "True", True),
        ("processingTime", "2", 2.0),
        ("processingTime", "2 seconds", "2 seconds"),
        ("commitRetrySecs", "none", None),
        ("log", "redis://localhost", RedisLog("redis://localhost")),
        ("parallelismHints", "words=4, lines/2=1", {"words": 4, "lines/2": 1}),
    ],
)
def test_text_of_a_variable_becomes_a_value(here: Path, option: str, text: str, value: object) -> None:
    assert configured("wc", None, {variable_of(option): text})[option].value == value


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[start]\nmaxAttempt = 1", r"trident.toml, \[start\]: there is no 'maxAttempt'; did you mean 'maxAttempts'\?"),
        ("[start]\nmaxAttempts = 0", r"\[start\]: maxAttempts=0: expected a whole number of at least 1"),
        ("[start]\nmaxAttempts = true", r"maxAttempts=True: expected a whole number"),
        ("[start]\navailableNow = 1", r"availableNow=1: expected True or False"),
        ("[start]\nengine = 'embeded'", r"engine='embeded'; did you mean 'embedded'\?"),
        ("[start]\nlog = {prefix = 'x'}", r"log: expected the url of a server"),
        ("[start]\nlog = {url = 'redis://x', prefx = 'x'}", r"log has no 'prefx'; did you mean 'prefix'\?"),
        ("[start]\nlog = 'localhost'", r"log: "),
        (
            "[topologies.wc]\nmessageTimeoutSecs = 'soon'",
            r"\[topologies.wc\]: messageTimeoutSecs='soon' is not a duration",
        ),
        ("[profiles.prod.strat]", r"\[profiles.prod\]: there is no 'strat'; did you mean 'start'\?"),
        ("[profiles.prod.topologies.x]\nfoo = 1", r"\[profiles.prod.topologies.x\]: there is no 'foo'"),
        ("defaultProfile = 'prod'\n[profiles.dev.start]", r"has no profile 'prod'; its profiles are dev"),
        ("start = 1", r"start is 1; expected a table, \[start\]"),
        ("[start", r"cannot be read: "),
    ],
)
def test_a_file_that_is_wrong_is_refused_with_its_place(here: Path, text: str, message: str) -> None:
    here.write_text(text)
    with pytest.raises(TopologyError, match=message):
        configured("wc", None, {})


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"TRIDENT_START_MAX_ATEMPTS": "1"}, "sets no option; did you mean 'TRIDENT_START_MAX_ATTEMPTS'"),
        ({"TRIDENT_START_MAX_ATTEMPTS": "many"}, "TRIDENT_START_MAX_ATTEMPTS: maxAttempts='many'"),
        ({"TRIDENT_START_AVAILABLE_NOW": "1"}, "availableNow='1': expected True or False"),
        (
            {"TRIDENT_START_PARALLELISM_HINTS": '{"words":4}'},
            "parallelismHints='{\"words\":4}': expected step=number, words=4 or words=4,lines=2",
        ),
        ({"TRIDENT_START_PARALLELISM_HINTS": "words"}, "parallelismHints='words': expected step=number, words=4 or"),
        ({"TRIDENT_CONFIG": "missing.toml"}, "missing.toml cannot be read: No such file"),
        ({"TRIDENT_PROFILE": "prod"}, "profile 'prod': there is no trident.toml in the working directory"),
    ],
)
def test_an_environment_that_is_wrong_is_refused(here: Path, variables: dict[str, str], message: str) -> None:
    with pytest.raises(TopologyError, match=message):
        configured("wc", None, variables)


def test_an_empty_name_of_a_file_means_none(here: Path) -> None:
    here.write_text("[start")
    assert configured("wc", None, {"TRIDENT_CONFIG": ""})["maxAttempts"].layer == DEFAULT


def test_a_start_takes_what_it_was_not_given_from_the_file(
    here: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    here.write_text('[topologies.wc]\nengine = "embedded"\ncheckpointLocation = "kept"\nmaxAttempts = 0x3\n')
    monkeypatch.setenv("TRIDENT_START_MAX_SPOUT_PENDING", "1")
    topology = TridentTopology()
    words = topology.newStream("words", FixedBatchSpout("word string", [["a"]]))
    words.groupBy("word").persistentAggregate(MemoryMapState.opaque(), Count(), "n", name="counts")
    caplog.set_level(logging.INFO, "trident")
    with topology.start(name="wc", maxAttempts=2) as running:
        running.processAllAvailable(timeout=30)
        assert running.engine == "embedded"
        settings = running._context.settings
        assert (settings.maxAttempts, settings.maxSpoutPending) == (2, 1)
    assert (here.parent / "kept" / "wc" / "log.sqlite").exists()
    assert "topology 'wc': maxSpoutPending=1 from TRIDENT_START_MAX_SPOUT_PENDING" in caplog.text
