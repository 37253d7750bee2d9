"""Compressed files of lines: each is read as a whole and once, whatever happens to it."""

import bz2
import gzip
import io
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.spouts.files.test_file_spout import T0, write
from tests.spouts.files.test_identity import Reader
from tests.support.plans import planned
from trident.errors import MalformedInputError, SpoutContractError
from trident.spouts import FileSpout, Text, TransactionAttempt, Watch
from trident_spouts.files import line_reader
from trident_spouts.files.compression import unpacked


def zstd(data: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as out:
        out.write(data)
    return bytes(sink.getvalue())


PACK: dict[str, Callable[[bytes], bytes]] = {".gz": gzip.compress, ".bz2": bz2.compress, ".zst": zstd}
EACH = pytest.mark.parametrize("suffix", PACK)


def read(spout: FileSpout) -> list[list[Any]]:
    batches = [spout.open().emit(TransactionAttempt(1, 0), plan).arrow() for plan in planned(spout)]
    return [table.column(0).to_pylist() for table in batches]


def ranges(plan: Any) -> list[list[Any]]:
    return [[name, start, end] for name, _, _, start, end, *_ in plan["files"]]


@EACH
@pytest.mark.parametrize(
    ("format", "content"),
    [("text", "1\n2\n3"), ("json", '{"n": "1"}\n{"n": "2"}\n{"n": "3"}\n'), ("csv", "m,n\n,1\n,2\n,3\n")],
)
def test_each_format_is_read_out_of_each_compression(tmp_path: Path, suffix: str, format: Any, content: str) -> None:
    packed = PACK[suffix](content.encode())
    size = write(tmp_path / f"a{suffix.upper()}", packed, 1).stat().st_size
    write(tmp_path / "b", content, 2)
    spout = FileSpout(tmp_path, format, "n string")
    assert read(spout) == [["1", "2", "3", "1", "2", "3"]]
    assert ranges(planned(spout)[0])[0] == [f"a{suffix.upper()}", 0, size]


@EACH
def test_a_compressed_file_is_never_cut_and_the_limits_hold(tmp_path: Path, suffix: str) -> None:
    for at in range(4):
        write(tmp_path / f"{at}{suffix}", PACK[suffix]("".join(f"{at}{n:05}\n" for n in range(900)).encode()), at)
    plans = planned(FileSpout(tmp_path, maxBytesPerBatch=10))
    assert [[name for name, _, _ in ranges(plan)] for plan in plans] == [[f"{at}{suffix}"] for at in range(4)]
    assert len(planned(FileSpout(tmp_path, maxFilesPerBatch=3))) == 2
    assert [len(batch) for batch in read(FileSpout(tmp_path))] == [3600]


@EACH
def test_long_contents_come_in_chunks_of_whole_lines(
    tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trident_spouts.files.lines._CHUNK", 1000)
    rows = [f'"{n}, ""x""",{n}' for n in range(2000)]
    write(tmp_path / f"a.csv{suffix}", PACK[suffix]("\n".join(["s,n", *rows]).encode()))
    spout = FileSpout(tmp_path, "csv", "n long, s string")
    [batch] = read(spout)
    assert batch == list(range(2000))
    emission = spout.open().emit(TransactionAttempt(1, 0), planned(spout)[0])
    assert isinstance(emission, line_reader.LinesEmission)
    counter = line_reader.ShareCounter((emission.stretches,), emission.line_format)
    numbers = pa.RecordBatch.from_pydict({"id": [0]})
    assert sum(sum(part.column(0).to_pylist()) for part in counter(iter([numbers]))) == 2000


def test_files_that_were_packed_one_after_the_other_are_one_file(tmp_path: Path) -> None:
    for suffix in PACK:
        write(tmp_path / f"a{suffix}", PACK[suffix](b"1\n") + PACK[suffix](b"2\n"))
    assert read(FileSpout(tmp_path)) == [["1", "2"] * 3]


@EACH
def test_a_damaged_or_unfinished_file_is_named(tmp_path: Path, suffix: str) -> None:
    packed = PACK[suffix](b"".join(b"%d\n" % (n * n) for n in range(3000)))
    for name, content in (("short", packed[:-20]), ("wrong", b"no such thing"), ("middle", packed[:200] + b"x" * 99)):
        path = write(tmp_path / name / f"a{suffix}", content)
        with pytest.raises(
            MalformedInputError,
            match=rf"a{suffix}: cannot decompress the file: "
            rf".*completeAfterSecs",
        ) as caught:
            read(FileSpout(path.parent))
        assert str(caught.value).count(str(path)) or path.name in str(caught.value)


def test_the_line_of_an_error_is_a_line_of_the_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trident_spouts.files.lines._CHUNK", 50)
    path = write(tmp_path / "a.csv.gz", gzip.compress(("n\n" + "1\n" * 99 + "x\n").encode()))
    with pytest.raises(MalformedInputError, match=rf"{path}:101: field 'n': expected bigint, got 'x'"):
        read(FileSpout(tmp_path, "csv", "n long"))


def test_other_compressions_are_refused_by_name(tmp_path: Path) -> None:
    write(tmp_path / "b.txt.XZ", b"\xfd7zXZ")
    with pytest.raises(MalformedInputError, match=r"b\.txt\.XZ has an unsupported compression; expected plain text,"):
        planned(FileSpout(tmp_path))


def test_a_young_compressed_file_waits_until_it_is_complete(tmp_path: Path) -> None:
    write(tmp_path / "a.gz", gzip.compress(b"1\n"), T0 - 5)
    executor = FileSpout(tmp_path, watch=Watch(completeAfterSecs=30)).open()
    assert executor.plan(TransactionAttempt(1, 0), None, T0) is None
    assert executor.plan(TransactionAttempt(1, 0), None, T0 + 60) is not None


# --- over restarts ------------------------------------------------------------------------------------------------


def test_a_file_with_a_time_in_the_future_is_complete_by_its_last_change(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write(tmp_path / "a.txt.gz", gzip.compress(b"one\n"), time.time() + 400 * 86_400)
    executor = FileSpout(tmp_path, watch=Watch(completeAfterSecs=10)).open()
    time.sleep(0.15)  # until the time of the change is one that no later change can have
    assert executor.plan(TransactionAttempt(1, 0), None, time.time()) is None
    assert not caplog.records
    assert executor.plan(TransactionAttempt(1, 0), None, time.time() + 11)
    executor.close()


def test_a_file_that_was_changed_in_the_future_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    now = time.time()
    write(tmp_path / "a.txt.gz", gzip.compress(b"one\n"), now)
    executor = FileSpout(tmp_path, watch=Watch(completeAfterSecs=10)).open()
    for _ in range(2):
        assert executor.plan(TransactionAttempt(1, 0), None, now - 7200) is None
    (said,) = [record.getMessage() for record in caplog.records]
    assert "a.txt.gz was changed at a time that is 7200 seconds in the future" in said
    executor.close()


@pytest.fixture
def counted(tmp_path: Path) -> Reader:
    return Reader(tmp_path / "ckpt")


def test_a_compressed_file_is_followed_and_must_not_change(tmp_path: Path, counted: Reader) -> None:
    folder = tmp_path / "in"
    write(folder / "a.gz", gzip.compress(b"1\n"))
    assert counted(folder) == {"1": 1}
    (folder / "a.gz").rename(folder / "b.gz")
    write(folder / "c.gz", gzip.compress(b"2\n"), T0)
    assert counted(folder) == {"1": 1, "2": 1}
    with (folder / "b.gz").open("ab") as file:
        file.write(gzip.compress(b"3\n"))
    counted.refused(folder, r"b\.gz was read to byte .*a file must not change after it was read\. To read")


@EACH
@pytest.mark.parametrize("rotated", ["app.log.1", "app.log.2"])
def test_a_log_that_was_read_and_then_compressed_does_not_count_twice(
    tmp_path: Path, counted: Reader, suffix: str, rotated: str
) -> None:
    folder, content = tmp_path / "in", "".join(f"{n}\n" for n in range(500)).encode()
    log = write(folder / "app.log", content)
    expected = counted(f"{folder}/app.log*")
    log.rename(folder / "app.log.1")
    assert counted(f"{folder}/app.log*") == expected
    (folder / "app.log.1").unlink()
    write(folder / f"{rotated}{suffix}", PACK[suffix](content), T0)
    counted.refused(
        f"{folder}/app.log*",
        rf"{rotated}{suffix} decompresses to the content that was read from "
        rf"app\.log\.1 \(to byte 1890\)",
    )
    (folder / f"{rotated}{suffix}").unlink()
    write(folder / f"other{suffix}", PACK[suffix](content[::-1]), T0)
    assert sum(counted(folder / "*").values()) == 1001  # the reversed content begins with an empty line


def test_a_log_and_its_packed_copy_side_by_side_do_not_count_twice(tmp_path: Path, counted: Reader) -> None:
    folder = tmp_path / "in"
    write(folder / "a.log", b"1\n2\n")
    assert counted(folder) == {"1": 1, "2": 1}
    write(folder / "a.log.gz", gzip.compress(b"1\n2\n3\n"), T0)  # it had grown since
    counted.refused(
        folder,
        r"a\.log\.gz decompresses to the content that was read from a\.log \(to byte 4\), and would count twice.",
    )


def test_a_replay_that_finds_the_file_under_another_name_unpacks_it_all_the_same(tmp_path: Path) -> None:
    path = write(tmp_path / "a.gz", gzip.compress(b"1\n2\n"))
    spout = FileSpout(tmp_path)
    [plan] = planned(spout)
    path.rename(tmp_path / "a.gz.done")
    emission = spout.open().emit(TransactionAttempt(1, 1), plan)
    assert emission.arrow().column(0).to_pylist() == ["1", "2"]


def test_what_changes_between_plan_and_replay_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "a.gz", gzip.compress(b"1\n"))
    spout = FileSpout(tmp_path)
    [plan] = planned(spout)
    path.write_bytes(path.read_bytes() + gzip.compress(b"2\n"))
    with pytest.raises(SpoutContractError, match="a replay must read the same"):
        spout.open().emit(TransactionAttempt(1, 1), plan)


# --- damage that a library forgives -----------------------------------------------------------------------------------


def _read_all(data: bytes, suffix: str) -> bytes:
    content, parts = unpacked(io.BufferedReader(io.BytesIO(data)), f"x{suffix}"), list[bytes]()
    while block := content.read(1 << 10):
        parts.append(block)
    return b"".join(parts)


@pytest.mark.parametrize("suffix", PACK)
def test_a_flipped_bit_in_any_stream_of_a_file_is_noticed_or_harmless(suffix: str) -> None:
    parts = [PACK[suffix](f"line {at}\nand more\n".encode() * 3) for at in range(3)]
    whole, data = _read_all(b"".join(parts), suffix), b"".join(parts)
    heads = [len(b"".join(parts[:at])) for at in range(3)]
    # Without a checksum, a frame of .zst proves only its header.
    places = [head + at for head in heads for at in range(4)] if suffix == ".zst" else list(range(len(data)))
    noticed = 0
    for at in places:
        for bit in range(8):
            damaged = bytearray(data)
            damaged[at] ^= 1 << bit
            try:
                assert _read_all(bytes(damaged), suffix) == whole, f"byte {at}, bit {bit}: a part is lost in silence"
            except MalformedInputError:
                noticed += 1
    assert noticed > 0.5 * 8 * len(places)


@pytest.mark.parametrize("suffix", [".gz", ".bz2"])
@pytest.mark.parametrize("behind", [b"", b"\0", bytes(200_000)])
def test_zeros_behind_a_stream_are_padding(suffix: str, behind: bytes) -> None:
    data = PACK[suffix](b"one\n") + behind
    assert _read_all(data, suffix) == b"one\n"
    assert _read_all(data + PACK[suffix](b"two\n"), suffix) == b"one\ntwo\n"


@pytest.mark.parametrize("suffix", PACK)
def test_other_bytes_behind_a_stream_are_damage(suffix: str) -> None:
    with pytest.raises(MalformedInputError, match="cannot decompress the file"):
        _read_all(PACK[suffix](b"one\n") + b"garbage!" * 9, suffix)


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        (
            "a.csv",
            gzip.compress(b"x\n1\n", mtime=0),
            "it looks compressed: give its name the suffix .gz, because FileSpout recognizes compression by the suffix",
        ),
        ("a.csv", bz2.compress(b"x\n1\n"), "the suffix .bz2,"),
        (
            "a.csv",
            b"PK\x03\x04\x14\x00\xff",
            "it looks like a .zip file, which is not supported: compress it again as .gz",
        ),
        ("a.csv", "x\n1\n".encode("utf-16"), "it looks like UTF-16"),
    ],
)
def test_a_file_in_another_form_than_its_name_says_is_told(tmp_path: Path, name: str, data: bytes, said: str) -> None:
    (tmp_path / name).write_bytes(data)
    for spout in (FileSpout(tmp_path, "csv", "x long"), FileSpout(tmp_path, Text(encodingErrors="replace"))):
        [plan] = planned(spout)
        if "UTF-16" in said and spout.format.name == "text":
            continue
        with pytest.raises(MalformedInputError, match=said):
            spout.open().emit(TransactionAttempt(1, 0), plan).arrow()
