"""A manifest of objects: they are asked for by their names, so that nothing is listed."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.spouts.objects.conftest import Objects
from trident.errors import MalformedInputError, SourceUnreadableError, SpoutContractError
from trident.spouts import TransactionAttempt
from trident.testing import SpoutContract

ATTEMPT = TransactionAttempt(1, 0)


def put_named(objects: Objects, count: int) -> list[str]:
    """Put objects, and a manifest that names them in turn by path and by URL. Return their lines."""
    for at in range(count):
        objects.put(f"in/{at}", f"line{at}\n")
    paths = [f"in/{at}" if at % 2 else f"{objects.url.replace('s3:', 's3a:')}/in/{at}" for at in range(count)]
    objects.put("manifest", "\n".join(paths))
    return [f"line{at}" for at in range(count)]


class TestManifestOfObjects(SpoutContract):
    @pytest.fixture
    def every_row(self) -> Any:
        return [f"line{at}" for at in range(5)]

    @pytest.fixture
    def make_spout(self, objects: Objects) -> Callable[[], Any]:
        put_named(objects, 5)
        return lambda: objects.spout("manifest", manifest=True, maxFilesPerBatch=2)


def test_nothing_is_listed_and_each_object_is_asked_for_once(objects: Objects) -> None:
    lines = put_named(objects, 40)
    executor = objects.spout("manifest", manifest=True, maxFilesPerBatch=40).open()
    before = objects.server.requests()
    plan = executor.plan(ATTEMPT, None, 0.0)
    assert objects.server.requests() - before == {"HEAD": 41, "GET": 1}
    assert executor.emit(ATTEMPT, plan).arrow().column(0).to_pylist() == lines
    assert objects.server.requests() - before == {"HEAD": 41, "GET": 41}
    put_named(objects, 42)
    after = executor.plan(ATTEMPT, plan, 0.0)
    assert executor.emit(ATTEMPT, after).arrow().column(0).to_pylist() == ["line40", "line41"]


def test_a_manifest_without_a_last_newline_may_get_more_names(objects: Objects) -> None:
    put_named(objects, 2)
    executor = objects.spout("manifest", manifest=True).open()
    plan = executor.plan(ATTEMPT, None, 0.0)
    put_named(objects, 3)
    after: Any = executor.plan(ATTEMPT, plan, 0.0)
    assert [name for name, *_ in after["files"]] == [f"{objects.prefix}/in/2"]


def test_a_named_object_that_was_replaced_gone_or_elsewhere_is_told(objects: Objects) -> None:
    put_named(objects, 2)
    executor = objects.spout("manifest", manifest=True).open()
    plan = executor.plan(ATTEMPT, None, 0.0)
    objects.put("in/1", "other\n")
    with pytest.raises(
        SpoutContractError, match="in/1 was planned with 6 bytes and the ETag .* has since been replaced"
    ):
        executor.emit(ATTEMPT, plan).arrow()
    objects.delete("in/1")
    with pytest.raises(SourceUnreadableError, match=f"names {objects.url}/in/1, which does not exist"):
        executor.plan(ATTEMPT, None, 0.0)
    objects.put("manifest", "s3://other/a\n")
    with pytest.raises(
        MalformedInputError, match="is not in the same store as the manifest; expected .* begins with s3://books"
    ):
        executor.plan(ATTEMPT, None, 0.0)
