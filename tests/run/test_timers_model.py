"""Timers against a model with plain dicts, while drivers die, stay away for days, and replay other tuples."""

import datetime
import random
from pathlib import Path
from typing import Any

import pytest

from tests.support.soak import Soak
from tests.support.timers import DAY, FIELDS, SECOND, START, Lives, MakeState, dying, when
from trident import Count, StatefulOperation, TridentTopology
from trident.state import MemoryMapState
from trident.testing import PAUSE, ManualClock, TestSource

pytestmark = pytest.mark.usefixtures("nothing_left_running")


def changed(state: Any, key: str, name: str, seconds: int) -> None:
    """Set, move or remove a timer (seconds 0), or add to the value, as a tuple says."""
    if name == "value":
        state.put(key, [*state.get(key, []), f"{seconds}"])
    elif name == "gone":
        state.delete(key)
    elif seconds == 0:
        state.deleteTimer(key, name)
    else:
        state.setTimer(key, state.now() + seconds * SECOND, name)


def fired(state: Any, key: str, name: str, at: datetime.datetime) -> list[str]:
    """Note a timer in the value. Some timers set others, which may be due at once."""
    note = f"{name}@{(at - when(0)) // SECOND}"
    if len(state.get(key, [])) < 40:
        state.put(key, [*state.get(key, []), note])
    if name == "again":
        state.setTimer(key, state.now() + 90 * SECOND, name)
    elif name == "other":
        state.setTimer(key[::-1], at - SECOND, "echo")
        state.deleteTimer(key, "a")
    return [note] * (2 if name == "b" else 1)


class Model:
    """An equal operation over dicts: all tuples of a step, then the timers that are due, in order."""

    def __init__(self) -> None:
        self.values: dict[str, list[str]] = {}
        self.timers: dict[tuple[str, str], datetime.datetime] = {}
        self.emitted: dict[str, int] = {}
        self.seconds = 0.0

    def get(self, key: str, default: Any = None) -> Any:
        return self.values.get(key, default)

    def put(self, key: str, value: list[str]) -> None:
        self.values[key] = value

    def delete(self, key: str) -> None:
        self.values.pop(key, None)

    def now(self) -> datetime.datetime:
        return when(self.seconds)

    def setTimer(self, key: str, at: datetime.datetime, name: str = "") -> None:
        self.timers[key, name] = at

    def deleteTimer(self, key: str, name: str = "") -> None:
        self.timers.pop((key, name), None)

    def settle(self, tuples: list[Any], most: int) -> None:
        """Process tuples, and then all that is due, `most` timers in one batch."""
        for each in tuples:
            changed(self, *each)
        while due := sorted((at, *who) for who, at in self.timers.items() if at <= self.now()):
            for at, key, name in due[:1]:
                del self.timers[key, name]
                self.emitted[key] = self.emitted.get(key, 0) + len(fired(self, key, name, at))


class Operation(StatefulOperation):
    outputType = "string"

    def initState(self, state: Any) -> None:
        self.state = state

    def execute(self, tuple: Any, collector: Any) -> None:
        changed(self.state, *tuple)

    def onTimer(self, timer: Any, collector: Any) -> None:
        for note in fired(self.state, timer.key, timer.name, timer.at):
            collector.emit([note])


def tuples_of(chance: random.Random, keys: list[str]) -> list[Any]:
    names = ["a", "b", "again", "other", "value", "gone"]
    return [(chance.choice(keys), chance.choice(names), chance.choice([0, 1, 30, 90, 200, 4000])) for _ in range(9)]


def follow_the_model(
    chance: random.Random, make_timed: MakeState, folder: Path, kind: str, most: int, name: str
) -> None:
    keys = ["ab", "ba", "cd", "dc", "ee", "x"]
    script: list[Any] = []
    batches = [tuples_of(chance, keys) for _ in range(6)]
    for batch in batches:
        script += [PAUSE, batch]
    source = TestSource(FIELDS, script, kind)
    clock, model = ManualClock(START), Model()

    def topology() -> TridentTopology:
        made = TridentTopology()
        out = made.newStream("s", source).statefulEach(
            Operation(),
            "note",
            keyFields="key",
            valueType="array<string>",
            stateFactory=make_timed(),
            maxTimersPerBatch=most,
            name="held",
        )
        out.groupBy("key").persistentAggregate(MemoryMapState.opaque(), Count(), "n", name="emitted")
        return made

    lives = Lives(topology, folder, clock, name)
    try:
        for batch in batches:
            waited = chance.choice([0.0, 1.0, 89.0, 100.0, 5 * DAY])
            clock.advance(waited)
            model.seconds += waited
            with dying(chance, lives):
                lives.settle()  # what is due fires before the tuples come: their cut into batches must not matter
            model.settle([], most)
            source.resume()
            with dying(chance, lives):
                lives.settle()
            model.settle(batch, most)
            assert dict(lives.running.state("held").items()) == {
                **{key: None for key, _ in model.timers},
                **model.values,
            }
            assert dict(lives.running.state("emitted").items()) == model.emitted
            if chance.random() < 0.3:
                lives.end()
    finally:
        lives.end()


def test_timers_are_those_of_a_model_whatever_drivers_die_of(make_timed: MakeState, tmp_path: Path) -> None:
    follow_the_model(random.Random(1), make_timed, tmp_path / "log", "opaque", 3, "t")


@pytest.mark.soak
def test_timers_are_those_of_a_model_in_any_case(make_timed: MakeState, tmp_path: Path, soak: Soak) -> None:
    for number, chance in enumerate(soak.draws(8)):
        kind, most = chance.choice(["transactional", "opaque"]), chance.choice([1, 3, 100_000])
        follow_the_model(chance, make_timed, tmp_path / f"{number}", kind, most, f"t{number}")
