"""Streams of dead letters: the tuples on which a function failed."""

from collections.abc import Callable, Iterable

from trident.base.spark_types import select
from trident.operations.dead_letters import LETTER
from trident.operations.error_policy import DeadLetter
from trident.plan import joins, nodes, step_checks
from trident.plan.dead_letter_replays import replay_of
from trident.plan.step_register import Register
from trident.stream.base import StreamBase, StreamT
from trident.stream.joins import merged

_HOW = "set onError='deadLetter' on a step before it"


class DeadLetterVerbs(StreamBase[StreamT]):
    """Verbs for the tuples on which a function failed."""

    __slots__ = ()

    def deadLetters(self) -> StreamT:
        """Return a stream of the dead letters of all steps before this one.

        A dead letter is a tuple on which a function with ``onError="deadLetter"`` failed. The fields of the returned
        stream are ``id, stream, step, function, error, message, tuple, txid, attempt``. A batch's dead letters are
        frozen with the batch, so a state of dead letters is as exact as any other state.

        >>> from trident import TridentTopology
        >>> from trident.spouts import FixedBatchSpout
        >>> lines = TridentTopology().newStream("lines", FixedBatchSpout("line string", [["1", "x"]]))
        >>> numbers = lines.each("line", int, "n long", onError="deadLetter")
        >>> numbers.deadLetters().project("step", "tuple")
        Stream(lines/3:project: step string, tuple string)
        """
        step = self._step("deadLetters")
        failing = steps_with_dead_letters(nodes.walk(self._node))
        if not failing:
            raise step.wrong(f"no step before this one keeps dead letters; {_HOW}")
        return dead_letters_of(self._register, failing, self._new)

    def replayable(self) -> StreamT:
        """Allow `RunningTopology.replayDeadLetters` to replay the dead letters of later steps of this stream.

        Call it before the steps that make dead letters. A replayed tuple enters directly before the step that failed
        on it, so no other branch or earlier step sees it again. After those steps call
        `TridentTopology.deadLetterState`, which keeps the letters in a state. A letter leaves that state in the same
        batch in which its tuple is replayed, so each letter is replayed exactly once, whatever fails.

        >>> from trident import TridentTopology
        >>> from trident.spouts import FixedBatchSpout
        >>> TridentTopology().newStream("lines", FixedBatchSpout("line string", [["1", "x"]])).replayable()
        Stream(lines/1:replayable: line string)
        """
        step = self._step("replayable")
        if step_checks.is_request(self._node):
            raise step.wrong("a failed DRPC request returns its error to the caller, so there is nothing to replay")
        if self._label in self._register.replayable:
            site = self._register.replayable[self._label].site
            raise step.wrong(f"dead letters are already replayed into {self._label!r} at {site.location}")
        joins.check_one_batch([self._node], step)
        marked = nodes.Project(self._node, self.fields, **step.gives(self.schema))
        self._register.replayable[self._label] = marked
        return self._then(marked)


def replayed_letters(register: Register, new: Callable[[nodes.Node, str], StreamT]) -> list[StreamT]:
    """Return, for each step that can replay dead letters, the stream of the ids that each batch replays."""
    streams = []
    for source in register.replays.values():
        names, label = replay_of(source).letter_names, source.stream
        schema = select(source.schema, names)
        step = register.label(label, "letters")
        node = nodes.Project(source, names, step=step, site=source.site, schema=schema)
        register.add(label, node)
        streams.append(new(node, label))
    return streams


def steps_with_dead_letters(among: Iterable[nodes.Node]) -> list[nodes.Node]:
    """Return the steps of `among` that keep dead letters."""
    return [node for node in among if isinstance(getattr(node, "onError", None), DeadLetter)]


def dead_letters_of(
    register: Register, failing: Iterable[nodes.Node], new: Callable[[nodes.Node, str], StreamT]
) -> StreamT:
    """Return one stream of the dead letters of the steps in `failing`.

    `new` creates a stream from a node and a label.
    """
    streams = []
    for node in failing:
        label = node.step.rpartition("/")[0]
        if node not in register.letters:
            step = register.step(label, "deadLetters")
            letters = nodes.LettersOf(node, **step.gives(LETTER))
            register.add(label, letters)
            register.letters[node] = letters
        streams.append(new(register.letters[node], label))
    return streams[0] if len(streams) == 1 else merged(register, streams, None, None)
