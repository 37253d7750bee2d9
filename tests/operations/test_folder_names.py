"""Texts that are too long for the name of a folder: the call, the columns and the SQL agree on them."""

import random

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType

from trident.base.folder_names import escaped
from trident.operations.column_functions import ANOTHER_FORM
from trident.operations.folder_names import FolderNames

CHECK = FolderNames(("a word",))
ROOM = 255 - len("a word=")


def drawn() -> list[str]:
    """Texts on both sides of the limit, with signs that are escaped and letters of several bytes."""
    draws = random.Random(7)
    signs = ["a", "é", "漢", "😀", "/", "'", "\\", "]", "^", "{", "-", "}", " ", "\0", "\n", "\x7f"]
    texts = ["".join(draws.choices(signs, k=draws.randint(60, 130))) for _ in range(200)]
    return [*texts, "", "a" * ROOM, "a" * (ROOM + 1), "/" * 82, "/" * 83]


def fits(text: str) -> bool:
    return len(escaped(text).encode()) <= ROOM


def test_the_call_refuses_what_is_too_long() -> None:
    for text in drawn():
        if fits(text):
            assert CHECK(text) == text
        else:
            with pytest.raises(ValueError, match=f"'a word' has a text of {len(text)} characters, which is too long"):
                CHECK(text)
    assert CHECK(None) is None


def test_columns_agree_with_the_call() -> None:
    texts = drawn()
    assert {fits(text) for text in texts} == {True, False}
    for text in texts:
        assert (CHECK.columns([pa.array([None, text, "b"])]) is not None) == fits(text), text
    good = [text for text in texts if fits(text)]
    assert CHECK.columns([pa.array(good)]) == [pa.array(good)]
    assert CHECK.columns([pa.array([None], pa.string())]) is not None


@pytest.mark.spark
def test_sql_agrees_with_the_call(spark: SparkSession) -> None:
    texts: list[str | None] = [*drawn(), None]
    (form,) = CHECK.sql(["text"], [StringType()])
    shown = form.replace("raise_error(", "concat('<', ")
    rows = spark.createDataFrame([(text,) for text in texts], "text string").select("text", F.expr(shown).alias("made"))
    for text, made in rows.collect():
        assert made == (text if text is None or fits(text) else f"<{ANOTHER_FORM}"), text
