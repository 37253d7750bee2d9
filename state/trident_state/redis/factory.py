"""RedisMapState: the API to keep a state in Redis."""

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, TypedDict, Unpack, get_args

from trident.base.durations import Duration, read_seconds
from trident.base.finding import Finding, Now
from trident.base.missing_names import Missing
from trident.base.option_names import known_options_of
from trident.base.redis_address import Address, check_url, redacted
from trident_state.expiry import read_ttl
from trident_state.records.forms import ValueForm
from trident_state.redis.examination import examine_servers
from trident_state.redis.layout import PREFIX, Layout
from trident_state.redis.store import RedisStore
from trident_state.state_shape import StateIdentity, StateKind, StateShape
from trident_state.store import Home

Writers = Literal["driver", "executors", "auto"]


class RedisOptions(TypedDict, total=False):
    """The options of a RedisMapState besides its url; `RedisMapState.opaque` explains them."""

    prefix: str
    buckets: int
    groups: int
    layout: Literal["hash"]
    values: ValueForm
    connectTimeout: Duration
    socketTimeout: Duration
    ttlSecs: Duration | None
    writers: Writers


_NO_CACHE = (
    "there is no cache, since a cache could return values of a failed batch: all keys of a batch are read from "
    "Redis in one request"
)


@known_options_of({"localCacheSize": _NO_CACHE, "cacheSize": _NO_CACHE}, "opaque", "transactional", "nonTransactional")
@dataclass(frozen=True, repr=False)
class RedisMapState:
    """A state in Redis or Valkey. It outlives the run, and other programs can read it.

    Make a RedisMapState by `opaque`, `transactional` or `nonTransactional`; `opaque` explains the parameters. It
    connects to no server before the topology starts. Meaning: ``org.apache.storm.redis.trident.state.RedisMapState``,
    with fencing, committed reads and compound keys added.

    >>> RedisMapState.opaque("redis://:secret@localhost:6379/0", buckets=256)
    RedisMapState.opaque('redis://:***@localhost:6379/0', buckets=256)
    """

    kind: StateKind
    url: str = ""
    prefix: str = "trident"
    buckets: int = 1024
    groups: int = 1
    layout: Literal["hash"] = "hash"
    values: ValueForm = "packed"
    connectTimeout: float = 5.0
    socketTimeout: float = 10.0
    ttlSecs: float | None = None
    writers: Writers = "driver"

    Factory = Missing("use RedisMapState.opaque(url), which is Storm's factory")

    def __post_init__(self) -> None:
        if not isinstance(self.kind, StateKind):
            raise TypeError(
                "the kind is missing; write RedisMapState.opaque(url), .transactional(url) or .nonTransactional(url)"
            )
        check_url(self.url)
        if not isinstance(self.prefix, str) or not PREFIX.fullmatch(self.prefix):
            raise ValueError(f"prefix={self.prefix!r}: expected letters, digits, '-', '_', '.' and ':'")
        if self.layout != "hash":
            raise ValueError(f"layout={self.layout!r}: expected 'hash'")
        if self.values not in ("packed", "json"):
            raise ValueError(f"values={self.values!r}: expected 'packed' or 'json'")
        self._check_numbers()
        for name in ("connectTimeout", "socketTimeout"):
            object.__setattr__(self, name, read_seconds(name, getattr(self, name)))
        object.__setattr__(self, "ttlSecs", read_ttl(self.ttlSecs, self.kind))
        self._check_writers()

    def _check_writers(self) -> None:
        if self.writers not in get_args(Writers):
            raise ValueError(f"writers={self.writers!r}: expected 'driver', 'executors' or 'auto'")
        if self.writers != "executors":
            return
        if self.kind is StateKind.NON_TRANSACTIONAL:
            raise ValueError(
                "writers='executors': a nonTransactional state stores no txid, so a repeated put counts twice; use "
                "opaque or transactional, or writers='driver'"
            )
        if not self.sendable:
            raise ValueError(
                f"writers='executors' with a password in the url {redacted(self.url)!r}: Spark would put it in "
                f"plans and logs that others can read. Give the url as env:NAME or file:path, which each worker "
                f"resolves"
            )

    @property
    def sendable(self) -> bool:
        """Return whether the url may be sent to other processes.

        It may if it has no password, or if it only names the variable or file that holds the real url.
        """
        return redacted(self.url) == self.url

    def _check_numbers(self) -> None:
        whole = all(type(number) is int for number in (self.buckets, self.groups))
        if whole and 1 <= self.groups <= self.buckets <= 2**20 and self.buckets % self.groups == 0:
            return
        fits = whole and 1 <= self.groups <= self.buckets < 2**20
        hint = f", such as buckets={-(-self.buckets // self.groups) * self.groups}" if fits else ""
        raise ValueError(
            f"buckets={self.buckets!r}, groups={self.groups!r}: expected whole numbers, at least 1 and "
            f"at most 1048576 buckets, a multiple of the number of groups{hint}"
        )

    @classmethod
    def opaque(cls, url: str, **options: Unpack[RedisOptions]) -> "RedisMapState":
        """Return an opaque state, which keeps (txid, prev, value) and is exact with transactional and opaque spouts.

        Parameters
        ----------
        url
            ``redis://[user:password@]host:port/db``, ``rediss://`` for TLS, ``unix://`` for a socket.
        prefix
            The text with which all names in the server begin: ``prefix:{topology/state}:...``.
        buckets
            The number of Redis hashes over which the keys are spread. It is fixed when the state is created: a state
            that exists keeps its number.
        groups
            The number of parts of the state that commit by themselves. Each has a separate hash tag, so that a Redis
            Cluster can keep the parts on different servers. The groups share the buckets evenly: with the usual 1024
            buckets, `groups` must be a power of two.
        layout
            ``"hash"``, which keeps many keys in each bucket, and so is fast and small.
        values
            ``"packed"``, or ``"json"`` if programs other than this library read the state (slower).
        connectTimeout, socketTimeout
            How long until a server counts as unreachable.
        ttlSecs
            How long a value lives after its last update, by the times at which batches were planned: seconds,
            ``"1 hour"``, ``"7d"`` or a timedelta. The value has expired for the first batch that was planned `ttlSecs`
            later (or up to 1/64 of `ttlSecs` after that), and for every read as of that batch. None: a value never
            expires.
        writers
            The processes that send a batch's changes to the server: ``"driver"``, ``"executors"`` (Spark's), or
            ``"auto"``: the executors if they wrote the batch's large result into files, otherwise the driver.
            ``"executors"`` is for batches of very many keys, because no tuple then passes through the driver (see the
            guide, Scale). It needs a checkpointLocation, a server that every worker reaches, and a url in ``env:NAME``
            or ``file:path`` if it contains a password.

        Raises
        ------
        ValueError
            An option is invalid. The start of the topology checks whether the server can be reached, whether it can
            keep a state, and whether other data is stored under the state's names.

        >>> RedisMapState.opaque("redis://localhost", prefix="shop", values="json")
        RedisMapState.opaque('redis://localhost', prefix='shop', values='json')
        """
        return _made(StateKind.OPAQUE, url, options)

    @classmethod
    def transactional(cls, url: str, **options: Unpack[RedisOptions]) -> "RedisMapState":
        """Return a transactional state, which is exact with transactional and opaque spouts. Parameters as in `opaque`.

        It is exact even with an opaque spout, because a batch is frozen before it is applied, and a replay of a frozen
        batch applies the same values.
        """
        return _made(StateKind.TRANSACTIONAL, url, options)

    @classmethod
    def nonTransactional(cls, url: str, **options: Unpack[RedisOptions]) -> "RedisMapState":
        """Return a state that keeps values only, so that batches count at least once and reads are not committed reads.

        Parameters as in `opaque`.
        """
        return _made(StateKind.NON_TRANSACTIONAL, url, options)

    @property
    def survives(self) -> Literal["process", "checkpoint", "server"]:
        """The component that keeps the state between runs: "server"."""
        return "server"

    def open(self, identity: StateIdentity, shape: StateShape, home: Home) -> RedisStore:
        """Return the state's store. It connects to the server when it is first used."""
        address = Address(self.url, self.connectTimeout, self.socketTimeout)
        layout = Layout(self.prefix, identity, self.buckets, self.groups)
        return RedisStore(identity, shape, self.kind, address, layout, self.values, self.ttlSecs)

    def examine(self, now: Now = time.time) -> Iterator[Finding]:
        """Yield the faults of the servers that `trident doctor` reports: out of reach, rights, settings, memory, clock.

        Parameters
        ----------
        now
            The clock of this machine, in seconds since 1970.

        >>> (finding,) = RedisMapState.opaque("env:NOT_SET_ANYWHERE").examine()
        >>> finding.found.rpartition(": ")[2]
        'the environment variable NOT_SET_ANYWHERE is not set'
        """
        address = Address(self.url, self.connectTimeout, self.socketTimeout)
        yield from examine_servers(f"a state at {redacted(self.url)}", address, self.prefix, now)

    def __repr__(self) -> str:
        shown = [repr(redacted(self.url))]
        for field in fields(self)[2:]:
            if (value := getattr(self, field.name)) != field.default:
                shown.append(f"{field.name}={value!r}")
        return f"RedisMapState.{self.kind.value}({', '.join(shown)})"


def _made(kind: StateKind, url: str, options: Mapping[str, Any]) -> RedisMapState:
    """Return a state with these options, with durations still in the user's form."""
    return RedisMapState(kind, url, **options)
