"""Credentials of an object store come from variables and files, and no plan, message, repr or pickle holds them."""

import logging
import os
import pickle
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.spouts.objects.conftest import Objects
from tests.support.s3 import SECRET
from trident.errors import SourceUnreadableError, TopologyError
from trident.spouts import FileSpout, TransactionAttempt

ATTEMPT = TransactionAttempt(1, 0)
REFUSED = 'may be a secret: write "env:NAME" or "file:path", and let the environment variable or the file hold it'


def first_plan(spout: FileSpout) -> Any:
    return spout.open().plan(ATTEMPT, None, 0.0)


def test_what_is_logged_sent_and_shown_holds_no_secret(objects: Objects, caplog: pytest.LogCaptureFixture) -> None:
    objects.put("a", "line\n")
    with caplog.at_level(logging.DEBUG):
        spout = objects.spout()
        executor = spout.open()
        plan = executor.plan(ATTEMPT, None, 0.0)
        emission: Any = executor.emit(ATTEMPT, plan)
        assert emission.arrow().num_rows == 1
        objects.delete("a")
        with pytest.raises(SourceUnreadableError) as caught:
            emission.arrow()
    sent = pickle.dumps((spout, emission.stretches)).decode("latin-1")
    for text in (repr(spout), str(plan), repr(emission), sent, repr(caught.value), caplog.text):
        assert SECRET not in text
    assert "'secret_access_key': 'file:" in repr(spout)
    assert pickle.loads(pickle.dumps(spout)) == spout  # noqa: S301


def test_a_variable_is_read_when_it_is_needed(objects: Objects, monkeypatch: pytest.MonkeyPatch) -> None:
    objects.put("a", "line\n")
    spout = objects.spout(storage={**objects.server.storage, "secret_access_key": "env:MY_SECRET"})
    said = (
        r"storage\['secret_access_key'\]='env:MY_SECRET': the environment variable MY_SECRET is not set; the "
        r"driver and every worker"
    )
    with pytest.raises(SourceUnreadableError, match=said):
        first_plan(spout)
    monkeypatch.setenv("MY_SECRET", SECRET)
    assert first_plan(spout)["files"]


def test_a_file_that_is_not_there_is_named(objects: Objects, tmp_path: Path) -> None:
    spout = objects.spout(storage={"endpoint": objects.server.endpoint, "session_token": f"file:{tmp_path}/token"})
    with pytest.raises(SourceUnreadableError, match=r"='file:.*token': the file cannot be read \(No such file or dir"):
        first_plan(spout)


def test_the_environment_of_the_aws_tools_is_enough(objects: Objects, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "reader")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    monkeypatch.setenv("AWS_ENDPOINT_URL", objects.server.endpoint)
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    objects.put("a", "line\n")
    assert [name for name, *_ in first_plan(FileSpout(objects.url))["files"]] == ["a"]


@pytest.mark.parametrize(
    ("path", "storage", "said"),
    [
        ("s3://b", {"secret_access_key": SECRET}, rf"storage\['secret_access_key'\] {REFUSED}"),
        ("s3://b", {"sas_token": SECRET}, rf"storage\['sas_token'\] {REFUSED}"),
        ("s3://b", {"secret_access_key": "env:"}, rf"storage\['secret_access_key'\] {REFUSED}"),
        ("s3://b", {"endpoint": f"http://me:{SECRET}@host"}, r"storage\['endpoint'\] contains a user or password"),
        ("s3://b", {"timeout": 5}, r"storage\['timeout'\] is of type int; names and values are strings"),
        ("s3://b", "endpoint", "storage=str: expected options by name, as a dict"),
        (
            f"s3://me:{SECRET}@b/x",
            None,
            r"'s3://\*\*\*@b/x' contains credentials; set them in the environment, or with st",
        ),
        (f"ftp://me:{SECRET}@b/x", None, r"expected a path, or a URL .* got 'ftp://\*\*\*@b/x'"),
        ("s3:///x", None, r"a URL .* with its bucket or host, got 's3:///x'"),
        (
            "hdfs://host/x",
            {"region": "a"},
            "storage= is an option of object stores, but hdfs://host/x is not in an object store",
        ),
        ("/data/x", {"region": "a"}, "storage= is an option of object stores, but /data/x is not in an object store"),
    ],
)
def test_wrong_options_are_refused_where_they_stand(path: str, storage: Any, said: str) -> None:
    with pytest.raises(TopologyError, match=said) as caught:
        FileSpout(path, storage=storage)
    assert SECRET not in str(caught.value)


def test_an_option_that_the_store_does_not_know_is_named(objects: Objects) -> None:
    spout = objects.spout(storage={**objects.server.storage, "account_name": "a", "colour": "file:/dev/null"})
    with pytest.raises(TopologyError, match=r"cannot open s3://books: Configuration key: '.*' is not valid for store"):
        first_plan(spout)


def test_a_missing_package_is_named_with_the_way_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "obstore", None)
    said = r"needs the package obstore, also where Spark's workers run: pip install 'trident-pyspark\[objectstore\]'"
    with pytest.raises(TopologyError, match=said):
        first_plan(FileSpout("s3://books/*", storage={"region": "us-east-1"}))


def test_a_store_that_refuses_or_does_not_answer_is_named(objects: Objects) -> None:
    with pytest.raises(
        SourceUnreadableError, match=r"cannot list s3://no-such-bucket/\*: .* 404 Not Found: NoSuchBucket"
    ):
        first_plan(FileSpout("s3://no-such-bucket/*", storage=objects.server.storage))
    with pytest.raises(SourceUnreadableError, match=f"there is no object and no prefix {objects.url}/x"):
        first_plan(objects.spout("x"))
    nobody = {**objects.server.storage, "endpoint": "http://127.0.0.1:9"}
    with pytest.raises(SourceUnreadableError, match=r"cannot list s3://books/\*: .* error sending request"):
        first_plan(FileSpout("s3://books/*", storage=nobody))
