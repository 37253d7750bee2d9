"""Files on a real HDFS: refusals, lost replies, bytes on the disks, and the rest that a killed writer leaves."""

import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.files.refusals import refusals
from tests.support.hdfs import Hdfs
from tests.support.proxy import Proxy
from trident import TridentTopology, publishedFiles
from trident.errors import FilesRefusedError, FilesUnavailableError, MissingPackageError, TopologyError
from trident.files import hdfs as module
from trident.files.hdfs import HdfsFiles, hdfs_files, reason
from trident.files.object_options import Storage
from trident.files.urls import files_by_url
from trident.spouts import FixedBatchSpout

ROOT = Path(__file__).parents[2]


@pytest.fixture
def fresh_client() -> Iterator[None]:
    """Let the test open a client of its own, because a client reads environment and options when it is opened."""
    module.open_client.cache_clear()
    yield
    module.open_client.cache_clear()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch, fresh_client: None) -> None:
    """Let this process ask HDFS for two seconds only."""
    monkeypatch.setattr(module, "PATIENCE", 2.0)
    monkeypatch.setattr(module, "RETRIES", {"dfs.client.failover.max.attempts": "0"})


# --- writers that are killed ------------------------------------------------------------------------------------------


def killed(hdfs: Hdfs, program: str) -> None:
    """Run a program whose place of files is `place`, and which kills itself on the way."""
    begin = f"import os\nfrom trident.files import hdfs as module\nplace = module.HdfsFiles({hdfs.server.url!r}, "
    text = f"{begin}{hdfs.folder!r})\nkill = lambda *_, **__: os.kill(os.getpid(), 9)\n{program}"
    path = os.pathsep.join(filter(None, [str(ROOT), *sys.path]))
    ended = subprocess.run([sys.executable, "-c", text], env=os.environ | {"PYTHONPATH": path}, capture_output=True)
    assert ended.returncode == -signal.SIGKILL, ended.stderr.decode()


def test_a_writer_that_is_killed_leaves_a_part_that_the_sweep_deletes(hdfs: Hdfs) -> None:
    program = "module.PIECE = 1000\nwith place.writer('frozen/a/one') as file:\n    file.write(b'1' * 5000)\n    kill()"
    killed(hdfs, program)
    place = hdfs.files()
    assert place.folders("frozen") == ["a"], "a folder that nothing names, which a start finds and removes"
    assert place.size("frozen/a/one") in (None, 0), "it was not closed"
    place.remove("frozen/a")
    assert hdfs.names() == [] and place.folders("frozen") == []


@pytest.mark.parametrize("call", ["hsync", "close"])
def test_who_is_killed_before_the_file_has_its_name_leaves_the_name_free(hdfs: Hdfs, call: str) -> None:
    killed(hdfs, f"import hdfs_native\nhdfs_native.FileWriter.{call} = kill\nplace.create('log.uuid', b'dead')")
    place = hdfs.files()
    assert place.size("log.uuid") is None
    (left,) = hdfs.names()
    assert left.startswith(".log.uuid-")
    assert place.create("log.uuid", b"alive") and bytes(place.read("log.uuid")) == b"alive"


# --- what is durable --------------------------------------------------------------------------------------------------


def test_every_block_is_flushed_to_disk_before_the_next_begins_and_the_last_before_the_end(
    hdfs: Hdfs, monkeypatch: pytest.MonkeyPatch
) -> None:
    import hdfs_native

    calls = list[Any]()
    for name in ("write", "hsync", "close"):
        real = getattr(hdfs_native.FileWriter, name)

        def call(self: Any, *args: Any, name: str = name, real: Any = real) -> Any:
            calls.append(len(args[0]) if args else name)
            return real(self, *args)

        monkeypatch.setattr(hdfs_native.FileWriter, name, call)
    monkeypatch.setattr(module, "BLOCK", 2 << 20)
    monkeypatch.setattr(module, "PIECE", 1 << 20)
    part = 1 << 20
    place = hdfs.files()
    with place.writer("one") as file:
        file.write(b"1" * (4 * part))
        file.write(b"2" * 10)
    assert calls == [part, part, "hsync", part, part, "hsync", 10, "hsync", "close"]
    assert bytes(place.read("one")) == b"1" * (4 * part) + b"2" * 10
    calls.clear()
    with place.writer("two") as file:
        file.write(b"1" * (2 * part))
    assert calls == [part, part, "hsync", "close"]


@pytest.mark.usefixtures("impatient")
def test_what_was_confirmed_outlives_the_namenode(hdfs: Hdfs) -> None:
    place = hdfs.files()
    with place.writer("a/one") as file:
        file.write(b"1")
    assert place.create("a/two", b"2")
    hdfs.server.kill()
    try:
        refusals(place, FilesUnavailableError, "(onnection|RPC listener) .*; check that HDFS runs, and its address$")
        place.remove("a")  # garbage may stay: the next start sweeps it
    finally:
        hdfs.server.revive()
    assert bytes(place.read("a/one")) == b"1" and bytes(place.read("a/two")) == b"2"
    assert not place.create("a/two", b"3") and hdfs.names() == ["a/one", "a/two"]


# --- a NameNode that does not answer ----------------------------------------------------------------------------------


def write_and_hold(place: HdfsFiles, hdfs: Hdfs) -> None:
    with place.writer("two") as file:
        file.write(b"2")
        hdfs.server.hold()


@pytest.mark.usefixtures("impatient")
def test_a_namenode_that_stands_still_is_not_waited_for_for_ever(hdfs: Hdfs) -> None:
    place = hdfs.files()
    assert place.create("one", b"1")
    client = module.open_client(hdfs.server.url)
    try:
        with pytest.raises(FilesUnavailableError, match="cannot write .*/two: HDFS has not answered for 2 s"):
            write_and_hold(place, hdfs)
        with pytest.raises(FilesUnavailableError, match="cannot read .*/one: HDFS has not answered for 2 s"):
            place.read("one")
    finally:
        hdfs.server.release()
    assert module.open_client(hdfs.server.url) is not client, "a connection to a machine that is gone does not end"
    assert bytes(place.read("one")) == b"1"
    place.delete(["two"])
    assert place.create("two", b"3") and bytes(place.read("two")) == b"3"


def test_a_create_whose_reply_is_lost_knows_whether_it_was_done(hdfs: Hdfs) -> None:
    with Proxy(hdfs.server.port) as proxy:
        place = HdfsFiles(f"hdfs://127.0.0.1:{proxy.port}", hdfs.folder)
        proxy.lose_reply(b"rename")
        assert place.create("one", b"1"), "the NameNode did it, and nobody heard"
        assert proxy.struck == 1 and hdfs.names() == ["one"]
        proxy.cut_request(b"rename", 10)
        with pytest.raises(FilesUnavailableError, match=r"^cannot write \S+/two: (?!cannot)"):
            place.create("two", b"2")
        assert proxy.struck == 2 and hdfs.names() == ["one"], "nothing is left that could get the name later"
        proxy.lose_reply(b"rename")
        assert not place.create("one", b"other") and hdfs.names() == ["one"]


# --- what HDFS refuses ------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("fresh_client")
def test_who_has_no_right_is_refused(hdfs: Hdfs, monkeypatch: pytest.MonkeyPatch) -> None:
    hdfs.files().create("mine/one", b"1")
    hdfs.server.client.set_permission(f"/{hdfs.folder}/mine", 0o700)
    module.open_client.cache_clear()
    monkeypatch.setenv("HADOOP_USER_NAME", "somebody")
    place, said = hdfs.files().below("mine"), "AccessControlException: Permission denied: user=somebody"
    refusals(place, FilesRefusedError, said)
    with pytest.raises(FilesRefusedError, match=said):
        place.delete(["one"])


def test_a_folder_that_is_a_file_is_refused(hdfs: Hdfs) -> None:
    hdfs.files().create("one", b"1")
    with pytest.raises(FilesRefusedError, match="cannot write .*/one/.two-.*: ParentNotDirectoryException: "):
        hdfs.files().create("one/two", b"2")


@pytest.mark.usefixtures("fresh_client")
def test_a_nameservice_that_nobody_knows_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("hdfs_native", reason="tests of HDFS need the package hdfs-native")
    said = "cannot open hdfs://nowhere: .*; name a NameNode with its port, or a nameservice of the hdfs-site.xml in .*"
    monkeypatch.delenv("HADOOP_CONF_DIR", raising=False)
    monkeypatch.delenv("HADOOP_HOME", raising=False)
    with pytest.raises(FilesRefusedError, match=said + r"\(here it is not set\)"):
        hdfs_files("files", "hdfs://nowhere/x", Storage()).read("one")
    monkeypatch.setenv("HADOOP_HOME", "/opt/hadoop")
    with pytest.raises(FilesRefusedError, match=said + r"\(here it is '/opt/hadoop/etc/hadoop'\)"):
        hdfs_files("files", "hdfs://nowhere/x", Storage()).read("one")
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    with pytest.raises(FilesRefusedError, match=said + rf"\(here it is '{tmp_path}'\)"):
        hdfs_files("files", "hdfs://nowhere/x", Storage()).read("one")


@pytest.mark.usefixtures("fresh_client")
def test_no_namenode_is_asked_that_only_observes(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may not know yet what another machine wrote. There is one NameNode here, so only the option is looked at."""
    package = pytest.importorskip("hdfs_native", reason="tests of HDFS need the package hdfs-native")
    opened = list[Any]()
    monkeypatch.setattr(package, "Client", lambda *args: opened.append(args))
    for system in ("hdfs://books", "hdfs://namenode:8020"):
        module.open_client(system)
    active = "org.apache.hadoop.hdfs.server.namenode.ha.ConfiguredFailoverProxyProvider"
    options = [
        config.get(f"dfs.client.failover.proxy.provider.{name}")
        for (_, config), name in zip(opened, ("books", "namenode"), strict=True)
    ]
    assert options == [active, active]


@pytest.mark.parametrize(
    ("said", "refused"),
    [
        ('OperationFailed("hsync is not supported for erasure-coded files")', True),
        ('GSSAPIError(GssMajorCodes { major: 851968 }, 0, "No Kerberos credentials available")', True),
        ('FatalRPCError("org.apache.hadoop.security.AccessControlException", "SIMPLE authentication")', True),
        ('RPCError("org.apache.hadoop.hdfs.server.namenode.SafeModeException", "Cannot create file")', False),
        ('RPCError("org.apache.hadoop.hdfs.protocol.DSQuotaExceededException", "The quota of /x is full")', False),
        ('RPCError("java.io.IOException", "File /x could only be written to 0 of the 1 nodes")', False),
        ('DataTransferError("AccessControlException in a message is none")', False),
    ],
)
def test_only_what_would_be_refused_again_counts_as_refused(said: str, refused: bool) -> None:
    def call() -> None:
        raise RuntimeError(said)

    with pytest.raises(FilesRefusedError if refused else FilesUnavailableError, match="^cannot write one: "):
        module._within("cannot write one", call)


def test_an_error_is_told_in_one_line() -> None:
    assert reason(OSError("Connection refused (os error 111)")) == "Connection refused (os error 111)"
    assert reason(RuntimeError('RPCError("a.b.SafeModeException", "Name node is in \\"safe\\" mode")')) == (
        'SafeModeException: Name node is in "safe" mode'
    )


@pytest.mark.parametrize(
    ("url", "storage", "said"),
    [
        ("hdfs:///x", {}, "filesLocation='hdfs:///x': expected the NameNode or the nameservice, and a folder, such as"),
        ("hdfs://me:secret@host/x", {}, r"'hdfs://\*\*\*@host/x': .* set the user with HADOOP_USER_NAME or"),
        ("hdfs://host/x", {"region": "a"}, "filesStorage= is for object stores. HDFS takes its options from"),
        ("viewfs://host/x", {}, "='viewfs://host/x': viewfs:// is not supported. Write the folder's hdfs:// URL"),
        (
            "webhdfs://me@host/x",
            {},
            r"'webhdfs://\*\*\*@host/x': webhdfs:// is not supported. Write the folder's hdfs://",
        ),
        ("hdfs:/host/x", {}, r"such as hdfs://namenode:8020/folder \(supported: s3://.*, hdfs://\)$"),
    ],
)
def test_a_url_that_is_none_is_refused(url: str, storage: dict[str, str], said: str) -> None:
    with pytest.raises(TopologyError, match=said) as caught:
        files_by_url("filesLocation", url, Storage.of(storage, "filesStorage"))
    assert "secret" not in str(caught.value)


def test_a_folder_has_one_address() -> None:
    """Places are compared by it, so an output among a topology's own files is found however its URL is written."""
    place = hdfs_files("filesLocation", "hdfs://host/a/b", Storage())
    assert hdfs_files("filesLocation", "hdfs://host//a//b/", Storage()) == place


@pytest.mark.parametrize("url", ["viewfs://host/x", "hdfs:///x"])
def test_an_output_at_a_url_that_is_none_is_refused_by_its_writer_and_its_readers(url: str) -> None:
    rows = TridentTopology().newStream("rows", FixedBatchSpout("word string", [["a"]]))
    for use in (rows.writeParquet, publishedFiles):
        with pytest.raises(TopologyError, match=f"path='{url}': .* such as hdfs://namenode:8020/folder"):
            use(url)


@pytest.mark.usefixtures("fresh_client")
def test_without_the_package_the_way_to_install_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "hdfs_native", None)
    said = (
        r"HDFS needs the package hdfs-native, also where Spark's workers run: pip install "
        r"'trident-pyspark\[hdfs\]'"
    )
    with pytest.raises(MissingPackageError, match=said):
        hdfs_files("files", "hdfs://namenode:8020/x", Storage()).read("one")


def test_the_root_of_a_file_system_may_be_the_place(hdfs: Hdfs) -> None:
    whole = hdfs_files("files", hdfs.server.url, Storage())
    assert whole.create(f"{hdfs.folder}/one", b"1") and bytes(hdfs.files().read("one")) == b"1"
    assert hdfs.folder in whole.folders("") and whole.below(hdfs.folder) == hdfs.files()
    assert f"{hdfs.folder}/one" in [file.name for file in whole.files()]
    assert pickle.loads(pickle.dumps(whole)) == whole  # noqa: S301
