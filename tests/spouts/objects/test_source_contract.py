"""A FileSpout over objects keeps the contract of sources that change."""

import pytest

from tests.spouts.objects.conftest import Objects
from trident.spouts import FileSpout, Watch
from trident.testing import ChangingSource, SourceContract


class Prefix(ChangingSource):
    """A prefix of a bucket. Objects are deleted and put back one by one."""

    def __init__(self, objects: Objects, order: str, remembered: int) -> None:
        self.objects, self.order, self.remembered = objects, order, remembered
        self.there, self.backup = dict[str, bytes](), dict[str, bytes]()
        self.number = self.additions = 0

    def spout(self) -> FileSpout:
        return self.objects.spout(
            "*", orderBy=self.order, maxBytesPerBatch=40, watch=Watch(rememberedFiles=self.remembered)
        )

    def add(self, count: int) -> list[str]:
        self.additions += 1
        lines = [f"line {self.number + at:04}" for at in range(count)]
        self.number += count
        self.put(f"{self.additions:04}", "".join(f"{line}\n" for line in lines).encode())
        return lines

    def put(self, name: str, content: bytes) -> None:
        self.there[name] = content
        self.objects.put(name, content)

    def copy(self) -> None:
        self.backup = dict(self.there)

    def restore(self) -> None:
        self.replace()
        for name, content in self.backup.items():
            self.put(name, content)

    def replace(self) -> None:
        for name in self.there:
            self.objects.delete(name)
        self.there = {}

    remove = replace


@pytest.mark.parametrize("order", ["time", "name"])
class TestPrefix(SourceContract):
    @pytest.fixture(params=[1, 1_000], ids=["remembers-1", "remembers-all"])
    def source(self, objects: Objects, order: str, request: pytest.FixtureRequest) -> Prefix:
        return Prefix(objects, order, request.param)
