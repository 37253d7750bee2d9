"""Random expressions, and tuples with the values at the edges of each type."""

import datetime
import random
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from trident import functions as F
from trident.expressions.tree import ColumnExpression, col, lit, when

SCHEMA = (
    "flag boolean, b byte, s short, i int, n long, f float, x double, y double, d decimal(10,2), e decimal(38,10), "
    "m decimal(5,0), t string, u string, day date, at timestamp, local timestamp_ntz, a array<int>, "
    "r struct<n: long, t: string>, w map<string, long>, v map<int, string>"
)
ZONES = ("Europe/Berlin", "America/St_Johns", "Pacific/Kiritimati", "Australia/Lord_Howe", "Africa/Casablanca", "UTC")
UTC = datetime.UTC
at = datetime.datetime

EDGES: dict[str, list[Any]] = {
    "flag": [True, False],
    "b": [0, 1, -1, 127, -128, 7],
    "s": [0, 1, -1, 32767, -32768, 300],
    "i": [0, 1, -1, 2, 3, 10, 2147483647, -2147483648, 86400],
    "n": [0, 1, -1, 5, 9223372036854775807, -9223372036854775808, 1_700_000_000, 1 << 53],
    "f": [0.0, -0.0, 1.5, -2.25, float("nan"), float("inf"), float("-inf"), 3.4028234663852886e38,
          0.10000000149011612],
    "x": [0.0, -0.0, 0.1, 2.5, -2.5, 1e308, 5e-324, float("nan"), float("inf"), float("-inf"), 1.005, 1e15 + 0.5],
    "y": [0.0, 1.0, -1.0, 0.2, 1e-3, 1e7, 123456.789, float("nan"), 2.675],
    "d": [Decimal("0.00"), Decimal("1.25"), Decimal("-99999999.99"), Decimal("99999999.99"), Decimal("0.05")],
    "e": [Decimal("0"), Decimal("1.0000000001"), Decimal("-9999999999999999999999999999.9999999999"), Decimal("2.5")],
    "m": [Decimal("0"), Decimal("99999"), Decimal("-99999"), Decimal("7")],
    "t": ["", "a", "Ab c", " x ", "ß", "İi", "😀b", "12", "-7", "1.5", "true", "2026-02-28", "abc%_\\", "aaa", "ΑΣ",
          "a\n", "b\r\n", "a\u2028", "a\x0bb", "AB", "\n", "K\u017f", "a,b-1"],
    "u": ["", "a", "b", "%", "c", "aa", " ", "/", "12", "x,y,,z"],
    "day": [datetime.date(1970, 1, 1), datetime.date(2024, 2, 29), datetime.date(1, 1, 1), datetime.date(9999, 12, 31),
            datetime.date(1969, 12, 31), datetime.date(2021, 1, 3)],
    "at": [at(1970, 1, 1, tzinfo=UTC), at(2024, 2, 29, 23, 59, 59, 999999, tzinfo=UTC),
           at(1969, 12, 31, 23, 59, 59, 1, tzinfo=UTC), at(1900, 3, 1, 5, 6, 7, tzinfo=UTC),
           at(2026, 3, 29, 2, 30, tzinfo=UTC), at(2026, 10, 25, 1, 30, 1, tzinfo=UTC)],
    "local": [at(1970, 1, 1), at(2026, 3, 29, 2, 30, 0, 5), at(1850, 7, 4, 12)],
    "a": [[], [1], [1, None, 3], [0, 5], [2147483647]],
    "w": [{}, {"a": 1, "b": None}, {"": -1, "it's": 7}],
    "v": [{}, {0: "a", 1: None}, {-1: "x", 2147483647: ""}],
    "r": [{"n": 1, "t": "a"}, {"n": None, "t": None}, {"n": -1, "t": ""}],
}  # fmt: skip


def tuples(draw: random.Random, count: int) -> list[dict[str, Any]]:
    """Return tuples of edge values, a sixth of them null."""
    return [
        {name: None if draw.random() < 1 / 6 else draw.choice(values) for name, values in EDGES.items()}
        for _ in range(count)
    ]


class Drawing:
    """Random expressions by the class of their type."""

    def __init__(self, draw: random.Random) -> None:
        self.draw = draw
        self._of: dict[str, list[Callable[[int], ColumnExpression]]] = {
            "flag": self._flags(),
            "whole": self._wholes(),
            "number": self._numbers(),
            "text": self._texts(),
            "day": self._days(),
            "time": self._times(),
        }

    def any(self, depth: int) -> ColumnExpression:
        """Return an expression of any type."""
        return self.one(self.draw.choice(list(self._of)), depth)

    def one(self, kind: str, depth: int) -> ColumnExpression:
        """Return an expression of a class of types."""
        if depth <= 0 or self.draw.random() < 0.1:
            return self._leaf(kind)
        return self.draw.choice(self._of[kind])(depth - 1)

    def _leaf(self, kind: str) -> ColumnExpression:
        draw = self.draw
        fields = {
            "flag": ["flag"], "whole": ["b", "s", "i", "n", "r.n"],
            "number": ["b", "i", "n", "f", "x", "y", "d", "e", "m"],
            "text": ["t", "u", "r.t"],
            "day": ["day"], "time": ["at", "local"],
        }  # fmt: skip
        if draw.random() < 0.75:
            return col(draw.choice(fields[kind]))
        name = {"whole": "i", "number": draw.choice("ixyd"), "day": "day", "time": "at", "text": "t"}.get(kind, "flag")
        return lit(draw.choice(EDGES[name]))

    def _flags(self) -> list[Callable[[int], ColumnExpression]]:
        draw, one = self.draw, self.one

        def compared(depth: int) -> ColumnExpression:
            kind = draw.choice(["whole", "number", "text", "day", "time", "flag"])
            a, b = one(kind, depth), one(kind, depth)
            return draw.choice([a == b, a != b, a < b, a <= b, a > b, a >= b, a.eqNullSafe(b), a.isin(b, a, None)])

        return [
            compared,
            compared,
            lambda depth: one("flag", depth) & one("flag", depth),
            lambda depth: one("flag", depth) | one("flag", depth),
            lambda depth: ~one("flag", depth),
            lambda depth: one(draw.choice(list(self._of)), depth).isNull(),
            lambda depth: draw.choice([col("x"), col("f")]).isNaN(),
            lambda depth: one("text", depth).contains(one("text", depth)),
            lambda depth: one("text", depth).startswith(draw.choice(EDGES["u"])),
            lambda depth: one("text", depth).endswith(one("text", depth)),
            lambda depth: F.like(one("text", depth), draw.choice(["a%", "_", "%\\%%", "", "%b_", "a\\%"])),
            lambda depth: F.rlike(one("text", depth), self.pattern()),
            lambda depth: F.array_contains("a", one("whole", 0).cast("int")),
            lambda depth: one("number", depth).cast("boolean"),
            lambda depth: col("t").cast("boolean"),
        ]

    def pattern(self, last: str = "") -> str:
        """Return a random regular expression, in which each choice ends with `last`."""
        draw = self.draw
        pieces = [
            "a",
            "b",
            "A",
            ".",
            " ",
            "[a-c]",
            "[^b]",
            "\\d",
            "\\w",
            "\\s",
            "\\W",
            "(a|b)",
            "(?:aa|a)",
            "1",
            "ß",
            "[İ-😀]",
            ",",
            "\\.",
            "[\\w-]",
        ]
        signs = ["", "", "", "*", "+", "?", "*?", "{2}", "{1,2}?"]
        before = ["", "", "^", "(?i)", "(?s)", "(?i)^", "\\b", "(?<=a)"]
        after = ["", "", "$", "\\b", "\\B", "(?=b)", "(?!a)", "\\z", "\\Z"]
        made = [
            "".join(draw.choice(pieces) + draw.choice(signs) for _ in range(draw.choice([1, 1, 2, 3]))) + last
            for _ in range(draw.choice([1, 1, 2]))
        ]
        return draw.choice(before) + "|".join(made) + draw.choice(after)

    def _wholes(self) -> list[Callable[[int], ColumnExpression]]:
        draw, one = self.draw, self.one
        return [
            lambda depth: one("whole", depth) + one("whole", depth),
            lambda depth: one("whole", depth) - one("whole", depth),
            lambda depth: one("whole", depth) * one("whole", depth),
            lambda depth: one("whole", depth) % one("whole", depth),
            lambda depth: F.pmod(one("whole", depth), one("whole", depth)),
            lambda depth: -one("whole", depth),
            lambda depth: F.abs(one("whole", depth)),
            lambda depth: F.length(one("text", depth)),
            lambda depth: F.instr(one("text", depth), one("text", depth)),
            lambda depth: one("number", depth).cast(draw.choice(["int", "long", "short", "byte"])),
            lambda depth: one("text", depth).cast(draw.choice(["int", "long", "short"])),
            lambda depth: one("flag", depth).cast("int"),
            lambda depth: F.round(one("whole", depth), draw.choice([-1, 0, 2])),
            lambda depth: draw.choice(
                [F.year, F.month, F.dayofmonth, F.dayofyear, F.dayofweek, F.weekofyear, F.quarter]
            )(one(draw.choice(["day", "time"]), depth)),
            lambda depth: draw.choice([F.hour, F.minute, F.second])(one("time", depth)),
            lambda depth: draw.choice([F.unix_seconds, F.unix_millis, F.unix_micros])(col("at")),
            lambda depth: F.datediff(one("day", depth), one("day", depth)),
            lambda depth: F.size("a"),
            lambda depth: col("a")[draw.choice([0, 1])],
            lambda depth: F.get("a", draw.choice([0, 2, -1])),
            lambda depth: draw.choice([col("w")["a"], col("w")["it's"], col("w.b"), col("w").getItem(one("text", 0))]),
            lambda depth: F.size(draw.choice(["w", "v"])),
            lambda depth: F.size(F.split(one("text", depth), draw.choice([",", " ", "a|b", "[^a-z]", "\\W", "aa?"]))),
            lambda depth: F.crc32(one("text", depth)),
            lambda depth: self._chosen("whole", depth),
        ]

    def _numbers(self) -> list[Callable[[int], ColumnExpression]]:
        draw, one = self.draw, self.one
        return [
            lambda depth: one("number", depth) + one("number", depth),
            lambda depth: one("number", depth) - one("number", depth),
            lambda depth: one("number", depth) * one("number", depth),
            lambda depth: one("number", depth) / one("number", depth),
            lambda depth: one("number", depth) % one("number", depth),
            lambda depth: -one("number", depth),
            lambda depth: F.abs(one("number", depth)),
            lambda depth: F.round(one("number", depth), draw.choice([-2, 0, 1, 2, 5])),
            lambda depth: F.floor(one("number", depth)),
            lambda depth: F.ceil(one("number", depth)),
            lambda depth: F.sqrt(one("number", depth)),
            lambda depth: one("number", depth).cast(
                draw.choice(["double", "float", "decimal(12,3)", "decimal(38,18)"])
            ),
            lambda depth: one("text", depth).cast(draw.choice(["double", "float", "decimal(6,1)"])),
            lambda depth: self._chosen("number", depth),
        ]

    def _texts(self) -> list[Callable[[int], ColumnExpression]]:
        draw, one = self.draw, self.one
        return [
            lambda depth: F.upper(one("text", depth)),
            lambda depth: F.lower(one("text", depth)),
            lambda depth: draw.choice([F.trim, F.ltrim, F.rtrim, F.reverse])(one("text", depth)),
            lambda depth: one("text", depth).substr(draw.choice([0, 1, 2, -1, -3]), draw.choice([0, 1, 2, 5, -1])),
            lambda depth: F.concat(one("text", depth), one("text", depth), lit("-")),
            lambda depth: F.concat_ws(draw.choice([",", ""]), one("text", depth), one("text", depth)),
            lambda depth: F.replace(one("text", depth), draw.choice(["a", "", " "]), draw.choice(["", "bb"])),
            lambda depth: F.split_part(
                one("text", depth), draw.choice([",", "", "a", " "]), draw.choice([1, 2, -1, 9])
            ),
            lambda depth: F.lpad(one("text", depth), draw.choice([0, 3, -1]), draw.choice(["xy", "", "0"])),
            lambda depth: F.rpad(one("text", depth), draw.choice([0, 3, 5]), draw.choice(["xy", "", "0"])),
            lambda depth: F.repeat(one("text", depth), draw.choice([0, 2, -1])),
            lambda depth: one(draw.choice(["whole", "flag", "day"]), depth).cast("string"),
            lambda depth: draw.choice([col("d"), col("e"), col("m"), one("whole", depth)]).cast("string"),
            lambda depth: F.date_format(
                one("time", depth), draw.choice(["yyyy-MM-dd HH:mm:ss", "ddMM", "yyyy/MM", "HH"])
            ),
            lambda depth: F.regexp_extract(one("text", depth), self.pattern(), 0),
            lambda depth: F.regexp_replace(
                one("text", depth), self.pattern(" *b"), draw.choice(["", "<$0>", "\\$1", "-"])
            ),
            lambda depth: F.get(F.split(one("text", depth), draw.choice([",", "[ b]", "-|1"])), draw.choice([0, 1, 2])),
            lambda depth: col("v").getItem(draw.choice([0, 1, col("i"), col("b")])),
            lambda depth: draw.choice([F.md5, F.sha1])(one("text", depth)),
            lambda depth: F.sha2(one("text", depth), draw.choice([224, 256, 384, 512])),
            lambda depth: self._chosen("text", depth),
        ]

    def _days(self) -> list[Callable[[int], ColumnExpression]]:
        draw, one = self.draw, self.one
        return [
            lambda depth: F.date_add(one("day", depth), draw.choice([0, 1, -1, 400])),
            lambda depth: F.date_sub(one("day", depth), draw.choice([0, 1, 31])),
            lambda depth: F.to_date(one("time", depth)),
            lambda depth: col("t").cast("date"),
            lambda depth: self._chosen("day", depth),
        ]

    def _times(self) -> list[Callable[[int], ColumnExpression]]:
        draw, one = self.draw, self.one
        units = ["year", "quarter", "month", "week", "day", "hour", "minute", "second"]
        return [
            lambda depth: F.date_trunc(draw.choice(units), one("time", depth)),
            lambda depth: F.timestamp_seconds(one("whole", depth)),
            lambda depth: F.timestamp_millis(one("whole", depth)),
            lambda depth: F.timestamp_micros(one("whole", depth)),
            lambda depth: draw.choice([F.from_utc_timestamp, F.to_utc_timestamp])(
                F.timestamp_seconds(F.abs(draw.choice([col("i"), col("b"), lit(draw.randrange(1 << 32))]))),
                draw.choice(ZONES),
            ),
            lambda depth: self._chosen("time", depth),
        ]

    def _chosen(self, kind: str, depth: int) -> ColumnExpression:
        draw, one = self.draw, self.one
        a, b = one(kind, depth), one(kind, depth)
        return draw.choice(
            [
                when(one("flag", depth), a).otherwise(b),
                when(one("flag", depth), a).when(one("flag", depth), b),
                F.coalesce(a, b),
                F.greatest(a, b),
                F.least(a, b, a),
                F.nullif(a, b),
            ]
        )
