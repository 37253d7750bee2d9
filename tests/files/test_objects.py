"""What an object store refuses, loses or does not have, said by a typed error or borne."""

import pickle
import time
from typing import Any

import pytest
from obstore.store import MemoryStore

from tests.files.refusals import refusals
from tests.support.objects import Objects
from tests.support.proxy import Proxy
from tests.support.s3 import BUCKET, SECRET
from trident.errors import FilesRefusedError, FilesUnavailableError, TopologyError
from trident.files import objects as module
from trident.files.object_options import Storage
from trident.files.objects import object_files


def test_wrong_credentials_are_refused(objects: Objects, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WRONG", "not-the-secret")
    refusals(objects.files(secret_access_key="env:WRONG"), FilesRefusedError, "SignatureDoesNotMatch")


def test_a_credential_that_is_not_there_is_named(objects: Objects) -> None:
    refusals(
        objects.files(secret_access_key="env:NOT_SET"),
        FilesRefusedError,
        "variable NOT_SET is not set; the driver and every",
    )


def test_a_bucket_that_is_not_there_is_refused(objects: Objects) -> None:
    nowhere = object_files("files", "s3://no-such-bucket/x", Storage.of(objects.server.storage))
    refusals(nowhere, FilesRefusedError, "NoSuchBucket")


@pytest.mark.usefixtures("impatient")
def test_a_store_that_does_not_answer_is_unavailable(objects: Objects) -> None:
    refusals(objects.files(endpoint="http://127.0.0.1:9"), FilesUnavailableError, "error sending request")
    objects.files(endpoint="http://127.0.0.1:9").remove("a")  # garbage may stay: the next start sweeps it


def test_a_store_that_is_away_for_a_moment_is_waited_for(objects: Objects) -> None:
    with Proxy(objects.server.port) as proxy:
        place = objects.files(endpoint=f"http://127.0.0.1:{proxy.port}")
        proxy.lose_reply(b"PUT")
        assert place.create("one", b"1"), "the store has it from the first request, and the second is refused"
        assert proxy.struck == 1
        proxy.lose_reply(b"PUT")
        with place.writer("two") as file:
            file.write(b"2")
        proxy.cut_request(b"PUT", 400)
        assert not place.create("one", b"other")
        proxy.cut_request(b"GET", 100)
        assert bytes(place.read("two")) == b"2"
        assert proxy.struck == 4


def test_a_store_without_conditions_takes_new_names_and_cannot_tell_who_is_first(objects: Objects) -> None:
    place = objects.files(conditional_put="disabled")
    with place.writer("one") as file:
        file.write(b"1")
    assert bytes(place.read("one")) == b"1"
    with pytest.raises(FilesRefusedError, match="cannot write s3://books/.*/two"):
        place.create("two", b"2")
    assert place.size("two") is None


def test_no_message_and_no_pickle_holds_a_secret(objects: Objects) -> None:
    place = objects.files()
    with pytest.raises(FileNotFoundError) as caught:
        place.read("nothing")
    for text in (repr(place), str(place), repr(caught.value), pickle.dumps(place).decode("latin-1")):
        assert SECRET not in text


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("/data/files", "expected the URL of a bucket and a prefix, such as s3://bucket/prefix"),
        ("s3://", "expected the URL of a bucket"),
        ("ftp://host/x", "expected the URL of a bucket"),
        (f"s3://me:{SECRET}@bucket/x", "the URL contains credentials"),
    ],
)
def test_a_url_that_is_none_is_refused(url: str, said: str) -> None:
    with pytest.raises(TopologyError, match=said) as caught:
        object_files("filesLocation", url, Storage())
    assert SECRET not in str(caught.value)


def test_a_prefix_may_be_empty(objects: Objects) -> None:
    whole = object_files("files", f"s3://{BUCKET}", Storage.of(objects.server.storage))
    name = f"{objects.prefix}/one-{time.monotonic_ns()}"
    assert whole.create(name, b"1") and name in [file.name for file in whole.files()]
    assert whole.below(objects.prefix) == objects.files()


def writes(file: Any, times: int) -> None:
    for _ in range(times):
        file.write(b"1" * (9 << 20))


def test_a_store_that_goes_away_in_the_middle_of_a_large_file_is_unavailable(
    objects: Objects, impatient: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "WHOLE", 1 << 20)
    with Proxy(objects.server.port) as proxy:
        place = objects.files(endpoint=f"http://127.0.0.1:{proxy.port}")
        writer = place.writer("large")  # no "with": pytest.raises would not see which of the calls raised
        file = writer.__enter__()
        writes(file, 1)  # from here on it is sent in parts
    with pytest.raises(FilesUnavailableError, match="cannot write s3://books/.*/large: ") as caught:
        writes(file, 8)
    # The parts cannot be given up either. That is logged, and does not hide the first error, which goes on.
    assert not writer.__exit__(FilesUnavailableError, caught.value, None)
    assert objects.files().size("large") is None


def test_a_file_that_is_gone_does_not_keep_others_from_being_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    """S3 deletes many at once, and does not say that one was missing; others delete one by one, and do."""
    store = MemoryStore()
    monkeypatch.setattr(module, "open_bucket", lambda *_, **__: store)
    place = object_files("files", "gs://books/a", Storage())
    for name in ("one", "three"):
        place.create(name, b"1")
    place.delete(["one", "two", "three"])
    assert list(place.files()) == []
