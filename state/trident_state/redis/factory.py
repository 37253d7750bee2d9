"""RedisMapState: what users write to keep a state in Redis."""

from dataclasses import dataclass, fields
from typing import Literal, TypedDict, Unpack

from trident_state.expiry import check_ttl
from trident_state.records.forms import ValueForm
from trident_state.redis.address import Address, check_url, redacted
from trident_state.redis.layout import PREFIX, Layout
from trident_state.redis.store import RedisStore
from trident_state.state_shape import StateIdentity, StateKind, StateShape
from trident_state.store import Home


class RedisOptions(TypedDict, total=False):
    """The options of a RedisMapState beside its url; `RedisMapState.opaque` explains them."""

    prefix: str
    buckets: int
    groups: int
    layout: Literal["hash"]
    values: ValueForm
    connectTimeout: float
    socketTimeout: float
    ttlSecs: float | None


@dataclass(frozen=True, repr=False)
class RedisMapState:
    """A state in Redis or Valkey: it outlives the run, and other programs can read it.

    Make one by `opaque`, `transactional` or `nonTransactional`; `opaque` explains the parameters. Nothing connects
    before the topology starts. Meaning: ``org.apache.storm.redis.trident.state.RedisMapState``, with fencing, committed
    reads and compound keys added.

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

    def __post_init__(self) -> None:
        if not isinstance(self.kind, StateKind):
            raise TypeError("say the kind: RedisMapState.opaque(url), .transactional(url) or .nonTransactional(url)")
        check_url(self.url)
        if not isinstance(self.prefix, str) or not PREFIX.fullmatch(self.prefix):
            raise ValueError(f"prefix={self.prefix!r}: expected letters, digits, '-', '_', '.' and ':'")
        if self.layout != "hash":
            raise ValueError(f"layout={self.layout!r}: expected 'hash'")
        if self.values not in ("packed", "json"):
            raise ValueError(f"values={self.values!r}: expected 'packed' or 'json'")
        self._check_numbers()
        if min(self.connectTimeout, self.socketTimeout) <= 0:
            raise ValueError("connectTimeout and socketTimeout: expected seconds, more than 0")
        check_ttl(self.ttlSecs, self.kind)

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
            What all keys begin with: ``prefix:{topology/state}:...``.
        buckets
            The number of hashes that the keys are spread over; fixed when the state is created (an existing state
            keeps its own number).
        groups
            The number of parts that commit by themselves, each under a hash tag of its own (Redis Cluster). They share
            the buckets evenly, so with the usual 1024 buckets it is a power of two.
        layout
            ``"hash"``: buckets of many keys, fast and small.
        values
            ``"packed"``, or ``"json"`` for programs other than this library (slower).
        connectTimeout, socketTimeout
            Seconds until a server counts as unreachable.
        ttlSecs
            Seconds that a value lives after its last update, by the times of the batches: it has expired for the first
            batch that was planned that much later (at most 1/64 more), and for every read as of it. None: for ever.

        Raises
        ------
        ValueError
            An invalid option. A server that cannot be reached, is not fit to keep a state or holds something foreign
            in the state's place is reported when the topology starts.

        >>> RedisMapState.opaque("redis://localhost", prefix="shop", values="json")
        RedisMapState.opaque('redis://localhost', prefix='shop', values='json')
        """
        return cls(StateKind.OPAQUE, url, **options)

    @classmethod
    def transactional(cls, url: str, **options: Unpack[RedisOptions]) -> "RedisMapState":
        """Return a transactional state, which is exact with transactional and opaque spouts. Parameters as in `opaque`.

        (A batch is frozen before it is applied.)
        """
        return cls(StateKind.TRANSACTIONAL, url, **options)

    @classmethod
    def nonTransactional(cls, url: str, **options: Unpack[RedisOptions]) -> "RedisMapState":
        """Return a state that keeps values only: no committed reads, at least once. Parameters as in `opaque`."""
        return cls(StateKind.NON_TRANSACTIONAL, url, **options)

    @property
    def survives(self) -> Literal["process", "checkpoint", "server"]:
        """What the state outlives by its own means."""
        return "server"

    def open(self, identity: StateIdentity, shape: StateShape, home: Home) -> RedisStore:
        """Return the state's store, which connects when it is first used."""
        address = Address(self.url, self.connectTimeout, self.socketTimeout)
        layout = Layout(self.prefix, identity, self.buckets, self.groups)
        return RedisStore(identity, shape, self.kind, address, layout, self.values, self.ttlSecs)

    def __repr__(self) -> str:
        shown = [repr(redacted(self.url))]
        for field in fields(self)[2:]:
            if (value := getattr(self, field.name)) != field.default:
                shown.append(f"{field.name}={value!r}")
        return f"RedisMapState.{self.kind.value}({', '.join(shown)})"
