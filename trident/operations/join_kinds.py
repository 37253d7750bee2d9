"""The options of a join: the streams that may lack a key, and the fields of its results."""

import enum
from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn

from trident.base.errors import TopologyError
from trident.base.names import did_you_mean
from trident.base.verb_call import Step


class _JoinTypes(enum.EnumType):
    """The metaclass of `JoinType`. Its error for an unknown name, such as Trident's ``mixed``, suggests a known one."""

    if not TYPE_CHECKING:  # otherwise type checkers would accept any name

        def __getattr__(cls, name: str) -> NoReturn:
            hint = "; its members are INNER and OUTER"
            if name == "mixed":
                hint = "; pass a list with one for each stream, such as [JoinType.INNER, JoinType.OUTER]"
            raise AttributeError(f"'JoinType' has no {name!r}{hint}", name=name)


class JoinType(enum.StrEnum, metaclass=_JoinTypes):
    """How a join treats a stream that lacks a key. Meaning: ``org.apache.storm.trident.JoinType``.

    A list has one for each stream. The join emits tuples for a key if every INNER stream has tuples with the key; the
    fields of an OUTER stream without such tuples are null. In SQL, ``[INNER, OUTER]`` is a left join.
    """

    INNER = "inner"
    OUTER = "outer"


class JoinOutFieldsMode(enum.StrEnum):
    """The fields of a join's results. Meaning: ``org.apache.storm.trident.JoinOutFieldsMode``.

    COMPACT: the keys once, under the first stream's names, then every stream's other fields. PRESERVE: all fields of
    every stream, with its keys; all of them are null if the stream lacks the key.
    """

    COMPACT = "compact"
    PRESERVE = "preserve"


JoinTypes = str | Sequence[str]
"""Join types as users write them: "inner", "left", "right", "full", a `JoinType` for all streams, or a list of them."""

_OF_TWO = {"left": (False, True), "right": (True, False)}
_OF_ALL = {"inner": False, "full": True, "outer": True}


def join_type_like(text: str) -> str | None:
    """Return the `joinType` for a name in this library's or PySpark's vocabulary; None if it is unknown.

    >>> join_type_like("left_outer"), join_type_like("full"), join_type_like("user")
    ('left', 'full', None)
    """
    plain = text.replace("_", "").lower()
    plain = plain.removesuffix("outer") or plain
    return plain if plain in _OF_TWO or plain in _OF_ALL else None


def read_join_types(joinType: object, count: int, step: Step) -> tuple[bool, ...]:
    """Return for each of `count` streams whether `joinType` allows it to lack a key."""
    if isinstance(joinType, str):
        if joinType in _OF_ALL:
            return (_OF_ALL[joinType],) * count
        if joinType in _OF_TWO and count == 2:
            return _OF_TWO[joinType]
        if joinType in _OF_TWO:
            raise step.error(
                TopologyError,
                f"joinType={joinType!r} needs two streams, not {count}: pass a list with a JoinType for each, such as "
                f"[{', '.join(['INNER', 'OUTER', 'OUTER', '...'][: min(count, 4)])}]",
            )
        like = join_type_like(joinType)
        near = f"; did you mean {like!r}?" if like else did_you_mean(joinType, [*_OF_ALL, *_OF_TWO])
        raise step.error(
            TopologyError,
            f"unknown joinType {joinType!r}; expected 'inner', 'left', 'right', 'full', or a list of JoinType.INNER "
            f"or JoinType.OUTER for each stream{near}",
        )
    if not isinstance(joinType, list | tuple) or not all(kind in tuple(JoinType) for kind in joinType):
        raise step.error(
            TopologyError,
            f"expected joinType 'inner', 'left', 'right', 'full' or a list of JoinTypes, not {joinType!r}",
        )
    if len(joinType) != count:
        raise step.error(TopologyError, f"joinType lists {len(joinType)} JoinTypes for {count} streams")
    return tuple(kind == JoinType.OUTER for kind in joinType)


def read_join_mode(mode: object, step: Step) -> bool:
    """Return whether `mode` keeps all fields of every stream."""
    if mode in tuple(JoinOutFieldsMode):
        return mode == JoinOutFieldsMode.PRESERVE
    near = did_you_mean(mode, [known.value for known in JoinOutFieldsMode]) if isinstance(mode, str) else ""
    raise step.error(TopologyError, f"unknown mode {mode!r}; expected 'compact' or 'preserve'{near}")
