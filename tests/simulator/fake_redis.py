"""A Redis in one process: what our scripts and read commands mean, and everything that a server can lose.

Only what this library sends is known. The scripts of ``trident_state/redis/lua`` are told by their SHA and done here in
Python; ``test_fake_redis.py`` holds every one of them against a real server. Writes are remembered one by one, so that
a crash can take back the last ones.
"""

import math
import re
import struct
import zlib
from collections.abc import Callable
from typing import Any

import redis

from tests.simulator.fake_meta import FakeMeta
from tests.simulator.records import Merging, counts, framed, is_nothing, txid_of
from trident.log import log_server
from trident_state.redis.layout import LEGEND
from trident_state.redis.scripts import ACQUIRE, ALL, CLEAR, COMMIT, CREATE, DROP, INDEX, MERGE, OPEN, PUT

Hash = dict[bytes, bytes]
Reply = Any
Undo = tuple[bytes, dict[bytes, bytes | None]]
"""A hash and, of each field that one command changed in it, what stood there before (None: nothing)."""

INDEXES = b":due"
"""The end of the names of sorted sets. A sorted set is kept like a hash: for each member its score, packed."""

_TEXT = re.findall(rb"local TEXT = '(.+)'", MERGE.source)[0]
_SHORT = int(re.findall(rb"local SHORT = (\d+)", MERGE.source)[0])
"""Of a bucket's legend."""

INFO = b"redis_version:7.2.4\r\nrun_id:%d\r\nrole:master\r\naof_enabled:1\r\nmaxmemory_policy:noeviction\r\n"


class FakeRedis:
    """The data of one server and the journal of its writes.

    >>> server = FakeRedis()
    >>> server.run([b"HMGET", b"nothing", b"field"])
    [None]
    """

    def __init__(self) -> None:
        self.data: dict[bytes, Hash] = {}
        self.journal: list[list[Undo]] = []
        self.scripts: set[bytes] = set()
        self.generation = 0
        """Counts restarts: a connection of an earlier one is broken."""
        self.up = True
        self.writer = b""
        """The token of the last write of a log."""
        self.page = 0
        """The number of fields that HSCAN returns at once; 0: all, as a server does with a small hash."""

    # --- faults ----------------------------------------------------------------------------------------------

    def kill(self, lose: int, tag: bytes | None = None) -> int:
        """Go down and forget scripts and the last `lose` writes (of one hash tag only, where it is given: a node of a
        cluster); how many writes are gone."""
        self.up = False
        self.generation += 1
        self.scripts.clear()
        kept, lost = list[list[Undo]](), 0
        while self.journal and lost < lose:
            entry = self.journal.pop()
            if tag is not None and tag not in entry[0][0]:
                kept.append(entry)
                continue
            self._take_back(entry)
            lost += 1
        self.journal += reversed(kept)
        return lost

    def forget(self) -> None:
        """Everything is gone."""
        self.data.clear()
        self.journal.clear()

    def _take_back(self, entry: list[Undo]) -> None:
        for name, fields in reversed(entry):
            at = self.data.setdefault(name, {})
            for field, value in fields.items():
                if value is None:
                    at.pop(field, None)
                else:
                    at[field] = value
            if not at:
                del self.data[name]

    # --- commands --------------------------------------------------------------------------------------------

    def run(self, parts: list[bytes]) -> Reply:
        """Do one command; an error is the reply."""
        known = _COMMANDS.get(parts[0])
        if known is None:
            raise AssertionError(f"the fake server does not know {parts!r:.200}")
        return known(self, parts)

    def _hmget(self, parts: list[bytes]) -> Reply:
        at = self.data.get(parts[1])
        return [None] * (len(parts) - 2) if at is None else list(map(at.get, parts[2:]))

    def _hget(self, parts: list[bytes]) -> Reply:
        return self.data.get(parts[1], {}).get(parts[2])

    def _hgetall(self, parts: list[bytes]) -> Reply:
        return [part for pair in self.data.get(parts[1], {}).items() for part in pair]

    def _hexists(self, parts: list[bytes]) -> Reply:
        return int(parts[2] in self.data.get(parts[1], {}))

    def _script(self, parts: list[bytes]) -> Reply:
        sha = parts[1]
        if sha not in self.scripts:
            return redis.exceptions.NoScriptError("No matching script. Please use EVAL.")
        split = 3 + int(parts[2])
        undo: list[Undo] = []
        reply = _SCRIPTS[sha](self, undo, parts[3:split], parts[split:])
        if undo:
            self.journal.append(undo)
        return reply

    def _load(self, parts: list[bytes]) -> Reply:
        assert parts[1] == b"LOAD"
        sha = _SHA_OF[parts[2]]
        self.scripts.add(sha)
        return sha

    def _type(self, parts: list[bytes]) -> Reply:
        if parts[1] not in self.data:
            return b"none"
        return b"zset" if parts[1].endswith(INDEXES) else b"hash"

    def _exists(self, parts: list[bytes]) -> Reply:
        return sum(name in self.data for name in parts[1:])

    def _zcount(self, parts: list[bytes]) -> Reply:
        return sum(float(parts[2]) <= score <= float(parts[3]) for score, _ in self._ranked(parts[1]))

    def _zcard(self, parts: list[bytes]) -> Reply:
        return len(self._ranked(parts[1]))

    def _zrange(self, parts: list[bytes]) -> Reply:
        ranked = self._ranked(parts[1])
        start, stop = (max(at + len(ranked), -1) if at < 0 else at for at in map(int, parts[2:4]))
        found = ranked[max(start, 0) : stop + 1]
        if parts[4:] == [b"WITHSCORES"]:
            return [part for score, member in found for part in (member, b"%.17g" % score)]
        return [member for _, member in found]

    def _ranked(self, name: bytes) -> list[tuple[float, bytes]]:
        return sorted((struct.unpack("<d", score)[0], member) for member, score in self.data.get(name, {}).items())

    def _info(self, parts: list[bytes]) -> Reply:
        return INFO % self.generation

    def _hscan(self, parts: list[bytes]) -> Reply:
        """As a server reads a large hash: by the fields' own order, a field perhaps twice. What is there from the first
        page to the last is in one of them, whatever comes and goes meanwhile; but each start has another order."""
        at = self.data.get(parts[1], {})
        if not self.page:
            return [b"0", [part for pair in at.items() for part in pair]]
        places = ((zlib.crc32(b"%d %b" % (self.generation, field)) + 1, field) for field in at)
        ahead = sorted((place, field) for place, field in places if place >= int(parts[2]))
        page, rest = ahead[: self.page + 1], ahead[self.page + 1 :]
        return [b"%d" % (page[-1][0] if rest else 0), [part for _, field in page for part in (field, at[field])]]

    def _hlen(self, parts: list[bytes]) -> Reply:
        return len(self.data.get(parts[1], ()))

    def _unlink(self, parts: list[bytes]) -> Reply:
        undo: list[Undo] = []
        for name in parts[1:]:
            self._drop(undo, name)
        if undo:
            self.journal.append(undo)
        return len(undo)

    # --- writes, which can be taken back ---------------------------------------------------------------------

    def _set(self, undo: list[Undo], name: bytes, fields: Hash) -> None:
        at = self.data.setdefault(name, {})
        undo.append((name, {field: at.get(field) for field in fields}))
        at.update(fields)

    def _remove(self, undo: list[Undo], name: bytes, field: bytes) -> None:
        at = self.data.get(name, {})
        if field in at:
            undo.append((name, {field: at.pop(field)}))
            if not at:
                del self.data[name]

    def _drop(self, undo: list[Undo], name: bytes) -> None:
        at = self.data.pop(name, None)
        if at is not None:
            undo.append((name, dict(at)))

    def _add(self, undo: list[Undo], name: bytes, field: bytes, count: int) -> None:
        stored = self.data.get(name, {}).get(field, b"0")
        self._set(undo, name, {field: b"%d" % (int(stored) + count)})

    # --- what the scripts mean -------------------------------------------------------------------------------

    def _create(self, undo: list[Undo], keys: list[bytes], argv: list[bytes]) -> Reply:
        meta = FakeMeta(self.data.get(keys[0], {}))
        if meta.epoch is not None:
            if meta.epoch == argv[1] and meta.token == argv[0]:
                return meta.answer(b"OK")
            refused = meta.newer_or_other(argv, argv[10])
            if refused is not None:
                return refused
            at = self.data[keys[0]]
            if at.get(b"keys") != b"0" or at.get(b"birth") != meta.marker or meta.open is not None:
                return meta.answer(b"EXISTS")
        for key in keys:
            self._drop(undo, key)
        fields = {b"token": argv[0], b"epoch": argv[1], b"birth": argv[2], b"marker": argv[2], b"keys": b"0"}
        fields |= {b"moving": argv[2], b"moved": b"0"} | dict(zip(argv[3::2], argv[4::2], strict=True))
        self._set(undo, keys[0], fields)
        return meta.answer(b"OK")

    def _acquire(self, undo: list[Undo], keys: list[bytes], argv: list[bytes]) -> Reply:
        meta = FakeMeta(self.data.get(keys[0], {}))
        if meta.epoch is None:
            return meta.answer(b"GONE")
        refused = meta.newer_or_other(argv, argv[3])
        if refused is not None:
            return refused
        self._set(undo, keys[0], {b"token": argv[0], b"epoch": argv[1]})
        self._remove(undo, keys[0], b"open")
        return meta.answer(b"OK")

    def _drop_group(self, undo: list[Undo], keys: list[bytes], argv: list[bytes]) -> Reply:
        meta = FakeMeta(self.data.get(keys[0], {}))
        refused = meta.newer_or_other(argv, argv[3])
        if refused is not None:
            return refused
        for key in keys:
            self._drop(undo, key)
        return meta.answer(b"OK")

    def _open(self, undo: list[Undo], keys: list[bytes], argv: list[bytes]) -> Reply:
        meta = FakeMeta(self.data.get(keys[0], {}))
        refused = meta.fenced(argv)
        if refused is not None:
            return meta.answer(refused)
        txid, done = int(argv[2]), int(meta.marker or b"")
        if done >= txid:
            return meta.answer(b"DONE")
        if done < txid - 1:
            return meta.answer(b"BEHIND")
        at = self.data[keys[0]]
        if at.get(b"buckets") != argv[3]:
            return meta.answer(b"SHAPE")
        moved = at.get(b"moved") or b""
        if at.get(b"moving") != argv[2] or argv[4] == b"1":
            moved = b"0"
            self._set(undo, keys[0], {b"moving": argv[2], b"moved": moved})
        if meta.open != argv[2]:
            self._set(undo, keys[0], {b"open": argv[2]})
        return meta.answer(b"OK", moved)

    def _commit(self, undo: list[Undo], keys: list[bytes], argv: list[bytes]) -> Reply:
        meta = FakeMeta(self.data.get(keys[0], {}))
        refused = meta.fenced(argv)
        if refused is not None:
            return meta.answer(refused)
        if int(meta.marker or b"") >= int(argv[2]):
            return meta.answer(b"DONE")
        if meta.open != argv[2]:
            return meta.answer(b"CLOSED")
        moved, due = self.data[keys[0]].get(b"moved"), self.data[keys[0]].get(b"due")
        if moved != argv[3]:
            return meta.answer(b"COUNT", moved or b"")
        self._set(undo, keys[0], {b"marker": argv[2], b"moved": b"0"})
        if due is not None and due == meta.marker:
            self._set(undo, keys[0], {b"due": argv[2]})
        self._remove(undo, keys[0], b"open")
        return meta.answer(b"OK")

    def _put(self, undo: list[Undo], keys: list[bytes], argv: list[bytes]) -> Reply:
        meta = FakeMeta(self.data.get(keys[0], {}))
        refused = meta.closed(argv)
        if refused is not None:
            return meta.answer(refused)
        if argv[6] and self.data[keys[0]].get(b"moved") != argv[6]:
            return meta.answer(b"CONFLICT")
        txid, asks, json = int(argv[2]), argv[5] != b"", argv[7] == b"json"
        pairs = framed(argv[4])
        fields, records = pairs[::2], pairs[1::2]
        writes, n = list[tuple[bytes, Hash]](), 0
        names = keys[:-1] if len(argv) > 8 else keys
        for name, count in zip(names[1:], counts(argv[3], names), strict=True):
            at, out = self.data.get(name, {}), Hash()
            for j in range(n, n + count):
                stored, t = at.get(fields[j]), -1
                if stored is not None and asks:
                    found = txid_of(stored, json)
                    if found is None:
                        return meta.answer(b"CORRUPT")
                    t = found
                    if t > txid:
                        return meta.answer(b"AHEAD")
                if t < txid:
                    if asks and t != struct.unpack_from("<q", argv[5], 8 * j)[0]:
                        return meta.answer(b"CONFLICT")
                    out[fields[j]] = records[j]
            n += count
            writes.append((name, out))
        if len(argv) > 8:
            self._note_dues(undo, keys[0], keys[-1], fields, argv[8])
        created = sum(field not in self.data.get(name, {}) for name, out in writes for field in out)
        return [b"OK", self._write(undo, keys[0], writes, created)]

    def _note_dues(self, undo: list[Undo], meta: bytes, index: bytes, fields: list[bytes], dues: bytes) -> None:
        before = len(self.data.get(index, ()))
        scores = [dues[8 * at : 8 * at + 8] for at in range(len(fields))]
        due = {field: score for field, score in zip(fields, scores, strict=True) if not isnan(score)}
        if due:
            self._set(undo, index, due)
        for field, score in zip(fields, scores, strict=True):
            if isnan(score):
                self._remove(undo, index, field)
        if more := len(self.data.get(index, ())) - before:
            self._add(undo, meta, b"dues", more)

    def _index(self, undo: list[Undo], keys: list[bytes], argv: list[bytes]) -> Reply:
        meta = FakeMeta(self.data.get(keys[0], {}))
        refused = meta.fenced(argv)
        if refused is not None:
            return meta.answer(refused)
        if argv[3] == b"first":
            self._remove(undo, keys[0], b"due")
            self._set(undo, keys[0], {b"dues": b"0"})
            self._drop(undo, keys[1])
        self._note_dues(undo, keys[0], keys[1], framed(argv[4]), argv[5])
        if argv[3] == b"last":
            self._set(undo, keys[0], {b"due": meta.marker or b""})
        return meta.answer(b"OK")

    def _merge(self, undo: list[Undo], keys: list[bytes], argv: list[bytes]) -> Reply:
        meta = FakeMeta(self.data.get(keys[0], {}))
        refused = meta.closed(argv)
        if refused is not None:
            return meta.answer(refused)
        work = Merging(int(argv[2]), argv)
        fields = framed(argv[4])
        writes, answers, created, n = list[tuple[bytes, Hash]](), list[bytes](), 0, 0
        for name, count in zip(keys[1:], counts(argv[3], keys), strict=True):
            at, out = self.data.get(name, {}), Hash()
            for j in range(n, n + count):
                stored = at.get(fields[j])
                put = work.record(j, stored)
                if isinstance(put, str):
                    return [b"OVERFLOW", j + 1] if put == "OVERFLOW" else meta.answer(put.encode())
                created += stored is None
                if put is not None:
                    out[fields[j]] = put
                answers.append(put or stored or b"")
            n += count
            writes.append((name, out))
        moved = self._write(undo, keys[0], writes, created)
        return [b"OK", moved, b"".join(answers) if argv[9] == b"1" else b""]

    def _clear(self, undo: list[Undo], keys: list[bytes], argv: list[bytes]) -> Reply:
        meta = FakeMeta(self.data.get(keys[0], {}))
        refused = meta.fenced(argv)
        if refused is not None:
            return meta.answer(refused)
        fields, n, went = framed(argv[4]), 0, 0
        for name, count in zip(keys[1:], counts(argv[3], keys), strict=True):
            for field in fields[n : n + count]:
                stored = self.data.get(name, {}).get(field)
                if stored is not None and is_nothing(stored, argv[5], argv[6] == b"1", int(meta.marker or b"")):
                    self._remove(undo, name, field)
                    went += 1
                    if self.data.get(name, {}).keys() == {LEGEND}:
                        self._remove(undo, name, LEGEND)
            n += count
        if went:
            self._add(undo, keys[0], b"keys", -went)
        return [b"OK", went]

    # --- of a log

    def _log_create(self, undo: list[Undo], keys: list[bytes], argv: list[bytes]) -> Reply:
        if keys[0] not in self.data:
            fields = dict(zip((b"format", b"topology", b"uuid"), argv, strict=True))
            self._set(undo, keys[0], {**fields, b"epoch": b"0", b"token": b"", b"last": b""})
        at = self.data[keys[0]]
        return [at.get(b"format"), at.get(b"topology"), at.get(b"uuid")]

    def _log_take(self, undo: list[Undo], keys: list[bytes], argv: list[bytes]) -> Reply:
        at = self.data.get(keys[0], {})
        if at.get(b"uuid") != argv[1]:
            return [b"GONE", at.get(b"uuid") or b""]
        if at.get(b"token") == argv[0]:
            return [b"OK", at[b"epoch"]]
        if argv[3:] and [at.get(b"epoch"), at.get(b"token")] != argv[3:]:
            return [b"TAKEN", at.get(b"epoch") or b""]
        self._add(undo, keys[0], b"epoch", 1)
        epoch = self.data[keys[0]][b"epoch"]
        self._set(undo, keys[0], {b"token": argv[0], b"last": b"0", b"lease:" + epoch: argv[0]})
        self._set(undo, keys[0], {b"holder": b'{"epoch":' + epoch + argv[2] if argv[2] else b""})
        return [b"OK", self.data[keys[0]][b"epoch"]]

    def _log_write(self, undo: list[Undo], keys: list[bytes], argv: list[bytes]) -> Reply:
        at = self.data.get(keys[0], {})
        epoch = at.get(b"epoch")
        if epoch is None:
            return [b"GONE", b""]
        if at.get(b"token") != argv[0] or epoch != argv[1]:
            return [b"REWOUND" if int(epoch) < int(argv[1]) else b"FENCED", epoch]
        number, last = int(argv[2]), int(at.get(b"last") or 0)
        if number == last:
            return [b"OK", b"again"]
        if number < last:
            return [b"LATE", at[b"last"]]
        words = iter(argv[4:])
        for _ in range(int(argv[3])):
            key, field, value = keys[int(next(words)) - 1], next(words), next(words)
            if self.data.get(key, {}).get(field, b"") != value:
                return [b"REFUSED", field]
        self.writer = argv[0]
        for verb in words:
            key, number = keys[int(next(words)) - 1], int(next(words))
            given = [next(words) for _ in range(number)]
            if verb == b"set":
                self._set(undo, key, dict(zip(given[::2], given[1::2], strict=True)))
            elif verb == b"drop":
                for field in given:
                    self._remove(undo, key, field)
            else:
                self._drop(undo, key)
        if keys[0] in self.data:
            self._set(undo, keys[0], {b"last": argv[2]})
        return [b"OK", b""]

    def _add_legend(self, undo: list[Undo], name: bytes, out: Hash) -> None:
        at = self.data.get(name, {})
        if len(at) + len(out) <= _SHORT:
            return
        fresh = len(out.keys() - at.keys())
        if len(at) <= _SHORT < len(at) + fresh:
            self._set(undo, name, {LEGEND: _TEXT})

    def _write(self, undo: list[Undo], meta: bytes, writes: list[tuple[bytes, Hash]], created: int) -> int:
        moved = sum(len(out) for _, out in writes)
        for name, out in writes:
            self._add_legend(undo, name, out)
            if out:
                self._set(undo, name, out)
        if moved:
            self._add(undo, meta, b"moved", moved)
        if created:
            self._add(undo, meta, b"keys", created)
        return moved


def isnan(score: bytes) -> bool:
    """Return whether a packed double is NaN."""
    return bool(math.isnan(struct.unpack("<d", score)[0]))


_COMMANDS: dict[bytes, Callable[[FakeRedis, list[bytes]], Reply]] = {
    b"HMGET": FakeRedis._hmget,
    b"HGET": FakeRedis._hget,
    b"HGETALL": FakeRedis._hgetall,
    b"HEXISTS": FakeRedis._hexists,
    b"EVALSHA": FakeRedis._script,
    b"SCRIPT": FakeRedis._load,
    b"TYPE": FakeRedis._type,
    b"EXISTS": FakeRedis._exists,
    b"ZCOUNT": FakeRedis._zcount,
    b"ZCARD": FakeRedis._zcard,
    b"ZRANGE": FakeRedis._zrange,
    b"INFO": FakeRedis._info,
    b"HSCAN": FakeRedis._hscan,
    b"HLEN": FakeRedis._hlen,
    b"UNLINK": FakeRedis._unlink,
}
_SCRIPTS: dict[bytes, Callable[[FakeRedis, list[Undo], list[bytes], list[bytes]], Reply]] = {
    CREATE.sha: FakeRedis._create,
    ACQUIRE.sha: FakeRedis._acquire,
    DROP.sha: FakeRedis._drop_group,
    OPEN.sha: FakeRedis._open,
    PUT.sha: FakeRedis._put,
    MERGE.sha: FakeRedis._merge,
    COMMIT.sha: FakeRedis._commit,
    CLEAR.sha: FakeRedis._clear,
    INDEX.sha: FakeRedis._index,
    log_server.CREATE.sha: FakeRedis._log_create,
    log_server.TAKE.sha: FakeRedis._log_take,
    log_server.WRITE.sha: FakeRedis._log_write,
}
_SHA_OF = {script.source: script.sha for script in (*ALL, *log_server.ALL)}
