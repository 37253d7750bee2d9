"""What became of tuples on which a function failed: the streams of dead letters."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from trident.base.errors import TopologyError
from trident.base.step import Step, caller
from trident.operations.poison import LETTER, DeadLetter
from trident.plan import nodes
from trident.plan.register import Register
from trident.stream.base import StreamBase
from trident.stream.combine import merged

if TYPE_CHECKING:
    from trident.stream.stream import Stream

_HOW = "give a step before it onError='deadLetter'"


class LetterVerbs(StreamBase):
    """Verbs about tuples that left the stream."""

    __slots__ = ()

    def deadLetters(self) -> "Stream":
        """The dead letters of all steps that lead here: the tuples on which a function failed that has
        ``onError="deadLetter"``.

        A stream like any other, of the fields ``id, stream, step, function, error, message, tuple, txid, attempt``. A
        batch's dead letters are frozen with it, so what is made of them is as exact as everything else.

        >>> from trident import TridentTopology
        >>> from trident.spouts import FixedBatchSpout
        >>> lines = TridentTopology().newStream("lines", FixedBatchSpout("line string", [["1", "x"]]))
        >>> numbers = lines.each("line", int, "n long", onError="deadLetter")
        >>> numbers.deadLetters().project("step", "tuple")
        Stream(lines/3:project: step string, tuple string)
        """
        step = self._step("deadLetters")
        failing = with_letters(nodes.walk(self._node))
        if not failing:
            raise step.error(TopologyError, f"no step that leads here makes dead letters; {_HOW}")
        return letters_of(self._register, failing)


def with_letters(among: Iterable[nodes.Node]) -> list[nodes.Node]:
    """Those of these steps that make dead letters."""
    return [node for node in among if isinstance(getattr(node, "onError", None), DeadLetter)]


def letters_of(register: Register, failing: Iterable[nodes.Node]) -> "Stream":
    """The dead letters of these steps, as one stream."""
    from trident.stream.stream import Stream

    streams = []
    for node in failing:
        label = node.step.rpartition("/")[0]
        if node not in register.letters:
            step = Step(register.label(label, "deadLetters"), caller("deadLetters"))
            made = nodes.LettersOf(node, step=step.label, site=step.called, schema=LETTER)
            register.add(label, made)
            register.letters[node] = made
        streams.append(Stream(register, register.letters[node], label))
    return streams[0] if len(streams) == 1 else merged(register, streams, None, None)
