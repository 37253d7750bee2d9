"""What a join does where a stream has no tuple of a key, and which fields leave it."""

import enum
from collections.abc import Sequence

from trident.base.errors import TopologyError
from trident.base.names import did_you_mean
from trident.base.step import Step


class JoinType(enum.StrEnum):
    """Whether a stream of a join may be missing. Meaning: ``org.apache.storm.trident.JoinType``.

    A list of these says it stream by stream: a key leaves the join where every INNER stream has tuples of it, and an
    OUTER stream without any gives nulls. ``[INNER, OUTER]`` is what SQL calls a left join.
    """

    INNER = "inner"
    OUTER = "outer"


class JoinOutFieldsMode(enum.StrEnum):
    """Which fields leave a join. Meaning: ``org.apache.storm.trident.JoinOutFieldsMode``.

    COMPACT: the keys once, under the first stream's names, then every stream's other fields. PRESERVE: all fields of
    every stream, its keys too, all of them null where the stream is missing.
    """

    COMPACT = "compact"
    PRESERVE = "preserve"


JoinTypes = str | Sequence[str]
"""How a user writes it: "inner", "left", "right", "full", a `JoinType` for all streams, or a list of one for each."""

_OF_TWO = {"left": (False, True), "right": (True, False)}
_OF_ALL = {"inner": False, "full": True, "outer": True}


def join_type_like(text: str) -> str | None:
    """The joinType that this is, in PySpark's words too.

    >>> join_type_like("left_outer"), join_type_like("full"), join_type_like("user")
    ('left', 'full', None)
    """
    plain = text.replace("_", "").lower()
    plain = plain.removesuffix("outer") or plain
    return plain if plain in _OF_TWO or plain in _OF_ALL else None


def read_join_types(given: object, count: int, step: Step) -> tuple[bool, ...]:
    """Which of so many streams may be missing."""
    if isinstance(given, str):
        if given in _OF_ALL:
            return (_OF_ALL[given],) * count
        if given in _OF_TWO and count == 2:
            return _OF_TWO[given]
        if given in _OF_TWO:
            raise step.error(
                TopologyError,
                f"joinType={given!r} is for two streams, and these are {count}: give a list of a JoinType for each, "
                f"such as [{', '.join(['INNER', 'OUTER', 'OUTER', '...'][: min(count, 4)])}]",
            )
        like = join_type_like(given)
        near = f"; did you mean {like!r}?" if like else did_you_mean(given, [*_OF_ALL, *_OF_TWO])
        raise step.error(
            TopologyError,
            f"there is no joinType {given!r}; there are 'inner', 'left', 'right', 'full', and a list of "
            f"JoinType.INNER or JoinType.OUTER for each stream{near}",
        )
    if not isinstance(given, list | tuple) or not all(kind in tuple(JoinType) for kind in given):
        raise step.error(
            TopologyError, f"joinType is 'inner', 'left', 'right', 'full' or a list of JoinTypes, not {given!r}"
        )
    if len(given) != count:
        raise step.error(TopologyError, f"joinType lists {len(given)} JoinTypes for {count} streams")
    return tuple(kind == JoinType.OUTER for kind in given)


def read_join_mode(given: object, step: Step) -> bool:
    """Whether every field of every stream is kept."""
    if given in tuple(JoinOutFieldsMode):
        return given == JoinOutFieldsMode.PRESERVE
    near = did_you_mean(given, [mode.value for mode in JoinOutFieldsMode]) if isinstance(given, str) else ""
    raise step.error(TopologyError, f"there is no mode {given!r}; there are 'compact' and 'preserve'{near}")
