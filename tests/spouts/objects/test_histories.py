"""Random histories of a prefix of a bucket that is read: no line is lost in silence, and none counts twice."""

import random
from collections import Counter
from typing import Any

import pytest

from tests.spouts.files.histories import any_options, history
from tests.spouts.objects.conftest import Objects
from tests.support.soak import Soak
from trident.spouts import FileSpout, Watch


class Prefix:
    """The objects below a prefix. Each content begins with new lines, or is that of an object that is or was there."""

    def __init__(self, objects: Objects, chance: random.Random, may_break: bool) -> None:
        self.objects, self.chance, self.may_break, self.number = objects, chance, may_break, 0
        self.there, self.backup, self.most = dict[str, str](), dict[str, str](), Counter[str]()

    def spout(self, **options: Any) -> FileSpout:
        return self.objects.spout("*.txt", **options)

    def all_read(self) -> None:
        """Do nothing: an object is recognized by its name alone."""

    def lines(self) -> set[str]:
        return {line for text in self.there.values() for line in text.splitlines()}

    def act(self) -> str:
        harmless = [self.put, self.put, self.put, self.copy, self.put_again, self.delete, self.restore]
        breaking = [self.overwrite, self.overwrite_at_the_same_length, self.append, self.delete_and_put]
        action = self.chance.choice(breaking if self.may_break and self.chance.random() < 0.15 else harmless)
        action()
        return action.__name__

    def _put(self, name: str, text: str) -> None:
        self.there[name] = text
        self.objects.put(name, text)

    def _new_name(self) -> str:
        self.number += 1
        return f"{self.chance.choice('abcdefgh')}{self.number:03}.txt"

    def _text(self, count: int | None = None) -> str:
        lines = [f"{self.chance.getrandbits(48):012x}" for _ in range(count or self.chance.choice([1, 2, 3, 40]))]
        self.most.update(lines)
        return "".join(f"{line}\n" for line in lines)

    def _one(self) -> str | None:
        return self.chance.choice(sorted(self.there)) if self.there else None

    def put(self) -> None:
        self._put(self._new_name(), self._text())

    def copy(self) -> None:
        if name := self._one():
            self.most.update(self.there[name].splitlines())
            self._put(self._new_name(), self.there[name])

    def put_again(self) -> None:
        if name := self._one():
            self._put(name, self.there[name])

    def delete(self) -> None:
        if name := self._one():
            self.backup[name] = self.there.pop(name)
            self.objects.delete(name)

    def restore(self) -> None:
        if self.backup:
            name = self.chance.choice(sorted(self.backup))
            self._put(name, self.backup.pop(name))

    def overwrite(self) -> None:
        if name := self._one():
            self._put(name, self._text())

    def overwrite_at_the_same_length(self) -> None:
        if name := self._one():
            self._put(name, self._text(len(self.there[name].splitlines())))

    def append(self) -> None:
        if name := self._one():
            self._put(name, self.there[name] + self._text())

    def delete_and_put(self) -> None:
        if name := self._one():
            self.objects.delete(name)
            self._put(name, self._text())


def live(objects: Objects, seed: int) -> str:
    log, chance = [f"seed {seed}"], random.Random(seed)
    world = Prefix(Objects(objects.server), chance, may_break=chance.random() < 0.6)
    options = any_options(chance)
    # A store tells times in whole seconds, so these histories stay within the files of which checksums are kept.
    options["watch"] = Watch(rememberedFiles=max(20, options["watch"].rememberedFiles))
    try:
        return history(world, chance, options, log)
    except AssertionError as error:
        raise AssertionError("; ".join([*log, str(error)])) from None
    finally:
        for name in world.there:
            world.objects.delete(name)


@pytest.mark.parametrize("seed", range(8_000, 8_008))
def test_no_line_of_a_prefix_is_lost_or_counted_twice(objects: Objects, seed: int) -> None:
    live(objects, seed)


@pytest.mark.soak(weight=2)
def test_no_line_of_many_prefixes_is_lost_or_counted_twice(objects: Objects, soak: Soak) -> None:
    ends = [live(objects, draw.getrandbits(48)) for draw in soak.draws(1_000)]
    # More than half of the histories may break a rule and be refused, so a few say nothing.
    assert "exact" in ends or len(ends) < 20, "every history was refused"
