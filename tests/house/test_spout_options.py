"""The options of spouts: each is described in its class, shown by its `repr`, and named in the guide."""

import inspect
import re
from typing import Any

import pytest

from tests.house.sources import ROOT
from trident.errors import ArgumentsError
from trident.spouts import (
    Csv,
    DeltaSpout,
    FileSpout,
    JdbcSpout,
    Json,
    KafkaSpout,
    Parquet,
    PostgresChangesSpout,
    RateSpout,
    RedisStreamSpout,
    Text,
    Watch,
)

_VALUES = {
    "schema": "x string",
    "malformed": "keep",
    "encodingErrors": "replace",
    "numbers": "lenient",
    "timeZone": "UTC",
}
OTHERS: dict[type[Any], dict[str, Any]] = {
    Text: {"schema": "x string", "encodingErrors": "replace"},
    Json: {**_VALUES, "multiLine": True},
    Csv: {
        **_VALUES,
        "sep": ";",
        "quote": "'",
        "escape": "!",
        "header": False,
        "skipLines": 3,
        "nullValue": "NA",
        "multiLine": True,
    },
    Parquet: {"schema": "x string"},
    Watch: {"completeAfterSecs": 9, "rememberedFiles": 8, "onForgotten": "skip"},
    FileSpout: {
        "path": "s3://bucket/in",
        "format": "parquet",
        "schema": "x bigint",
        "maxBytesPerBatch": 9,
        "maxFilesPerBatch": 8,
        "orderBy": "name",
        "watch": Watch(rememberedFiles=7),
        "storage": {"region": "eu-central-1"},
    },
}
"""For each class, a value of each option that is not its default."""

DESCRIBED = [*OTHERS, DeltaSpout, JdbcSpout, KafkaSpout, PostgresChangesSpout, RateSpout, RedisStreamSpout]


def _options(owner: type[Any]) -> set[str]:
    return {*inspect.signature(owner).parameters}


@pytest.mark.parametrize("owner", DESCRIBED)
def test_the_docstring_describes_each_option(owner: type[Any]) -> None:
    listed = re.findall(r"^([\w, ]+) : ", inspect.getdoc(owner) or "", flags=re.MULTILINE)
    assert {name for names in listed for name in names.split(", ")} == _options(owner)


@pytest.mark.parametrize("owner", OTHERS)
def test_the_repr_shows_each_option_that_is_not_its_default(owner: type[Any]) -> None:
    options = OTHERS[owner]
    assert {*options} == _options(owner)
    shown = repr(owner(**options))
    assert eval(shown, {each.__name__: each for each in DESCRIBED}) == owner(**options)
    assert [repr(value) for value in options.values() if repr(value) not in shown] == []


@pytest.mark.parametrize("owner", [Text, Json, Csv, Parquet, Watch])
def test_an_option_given_to_the_spout_is_told_with_its_place(owner: type[Any]) -> None:
    for name in _options(owner) - {"schema"}:
        options: dict[str, Any] = {name: 1}
        with pytest.raises(ArgumentsError, match=rf"there is no option '{name}': .*{owner.__name__}\("):
            FileSpout("/in", **options)


@pytest.mark.parametrize("owner", OTHERS)
def test_the_guide_names_each_option(owner: type[Any]) -> None:
    guide = (ROOT / "docs" / "guide" / "spouts.md").read_text(encoding="utf-8")
    assert {name for name in _options(owner) if not re.search(rf"\b{name}\b", guide)} == set()
