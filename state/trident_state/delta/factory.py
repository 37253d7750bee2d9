"""DeltaMapState: the API to keep a state as a Delta table."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from os import PathLike, fspath
from typing import Any, Literal, Self, TypedDict, Unpack, get_args

from trident.base.durations import Duration
from trident.base.names import brief
from trident.base.option_names import known_options_of
from trident.base.redis_address import redacted
from trident.files.delta_folder import UNSAFE, check_storage_options, folder_of
from trident_state.delta.store import DeltaStore
from trident_state.delta.vacuum import Retention
from trident_state.expiry import read_ttl
from trident_state.state_shape import StateIdentity, StateKind, StateShape
from trident_state.store import Home

Writers = Literal["driver", "executors", "auto"]

_SECRET = re.compile(r"(?i)secret|password|token|key|sas|credential")
"""A part of the names of options whose values are secrets."""

_CACHE = 64 * 2**20


class DeltaOptions(TypedDict, total=False):
    """The options of a DeltaMapState."""

    storageOptions: Mapping[str, str] | None
    ttlSecs: Duration | None
    cacheBytes: int
    keepHours: int
    keepTxids: int
    writers: Writers


@known_options_of({}, "opaque", "transactional")
@dataclass(frozen=True, repr=False)
class DeltaMapState:
    """A state that is a Delta table, on a disk or an object store. Its size is limited by storage, not by memory.

    Make a DeltaMapState by `opaque` or `transactional`. Each batch is one version of the table, durable when the commit
    returns. Every engine that reads Delta can read the table. The state is exactly-once, and refuses writes of a
    previous driver. It needs deltalake: ``pip install 'trident-pyspark[delta]'``.

    >>> DeltaMapState.opaque("states")
    DeltaMapState.opaque('states')
    """

    kind: StateKind = None  # type: ignore[assignment]
    url: str = ""
    storageOptions: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    ttlSecs: float | None = None
    cacheBytes: int = _CACHE
    keepHours: int = 1
    keepTxids: int = 2
    writers: Writers = "driver"

    def __post_init__(self) -> None:
        if self.kind not in (StateKind.OPAQUE, StateKind.TRANSACTIONAL):
            raise TypeError("the kind is missing; write DeltaMapState.opaque(url) or .transactional(url)")
        if not isinstance(self.url, str | PathLike):
            raise TypeError(f"url={brief(self.url)}: expected a folder or an address, such as 's3://bucket/states'")
        object.__setattr__(self, "url", fspath(self.url))
        if not self.url:
            raise ValueError("url='': expected a folder or an address, such as 's3://bucket/states'")
        self._check_options()
        if type(self.cacheBytes) is not int or self.cacheBytes < 0:
            raise ValueError(f"cacheBytes={self.cacheBytes!r}: expected a number of bytes, at least 0")
        if type(self.keepHours) is not int or self.keepHours < 1:
            raise ValueError(f"keepHours={self.keepHours!r}: expected a whole number of hours, at least 1")
        if type(self.keepTxids) is not int or self.keepTxids < 2:
            raise ValueError(f"keepTxids={self.keepTxids!r}: expected a whole number, at least 2")
        self._check_writers()
        object.__setattr__(self, "ttlSecs", read_ttl(self.ttlSecs, self.kind))

    def _check_options(self) -> None:
        options = check_storage_options(dict(self.storageOptions) if self.storageOptions else None)
        object.__setattr__(self, "storageOptions", tuple(sorted(options.items())))
        unsafe = [name for name in options if UNSAFE in name.lower()]
        if unsafe:
            raise ValueError(
                f"storageOptions: {unsafe[0]} lets two drivers create the same version of a table; remove it. The "
                "store needs conditional writes (for S3, {'conditional_put': 'etag'})"
            )

    def _check_writers(self) -> None:
        if self.writers not in get_args(Writers):
            raise ValueError(f"writers={self.writers!r}: expected 'driver', 'executors' or 'auto'")
        if self.writers == "executors" and not self.sendable:
            raise ValueError(
                "writers='executors' with a secret in storageOptions: Spark would put it in plans and logs that others "
                "can read. Give it as env:NAME or file:path, which each worker resolves"
            )

    @property
    def sendable(self) -> bool:
        """Return whether the options may be sent to other processes: none of them is itself a secret."""
        return all(
            not _SECRET.search(name) or value.startswith(("env:", "file:")) for name, value in self.storageOptions
        )

    @classmethod
    def opaque(cls, url: str | PathLike[str], **options: Unpack[DeltaOptions]) -> Self:
        """Return an opaque state, which is exact with transactional and opaque spouts.

        Parameters
        ----------
        url
            A folder, or the address of one on an object store: ``s3://bucket/states``. The table of a state is the
            folder ``<topology>/<state>`` in it. The folder is created with the first state.
        storageOptions : dict of str to str, optional
            Options of the object store, as the package deltalake has them. A value may be ``env:NAME`` or
            ``file:path``.
        ttlSecs
            How long a value lives after its last update, by the times at which batches were planned: seconds,
            ``"1 hour"``, ``"7d"`` or a timedelta. None: a value never expires.
        cacheBytes
            The memory for rows that reads of a few keys have read, in bytes.
        keepHours
            How long a txid can be read after the next one came, and how long files that were merged into others stay
            at least, so that other programs can read earlier versions. Old files are deleted every ten minutes.
        keepTxids
            The last txids that can be read, however old they are.
        writers
            The processes that write the rows of a batch: ``"driver"``, ``"executors"`` (Spark's), or ``"auto"``: the
            executors if they wrote the batch's large result into files, otherwise the driver. ``"executors"`` is for
            batches of very many keys. It needs a checkpointLocation, a url that leads to the same place from every
            machine, and secrets as ``env:NAME`` or ``file:path``.

        Raises
        ------
        TypeError, ValueError
            An argument is invalid. Whether the place can be reached is checked when the topology starts.
        """
        return cls._made(StateKind.OPAQUE, url, options)

    @classmethod
    def transactional(cls, url: str | PathLike[str], **options: Unpack[DeltaOptions]) -> Self:
        """Return a transactional state, which is as exact as an opaque state. Parameters as in `opaque`."""
        return cls._made(StateKind.TRANSACTIONAL, url, options)

    @classmethod
    def _made(cls, kind: StateKind, url: Any, options: Any) -> Self:
        return cls(kind, url, **options)

    @property
    def survives(self) -> Literal["process", "checkpoint", "server"]:
        """The component that keeps the state between runs: a "server", which here means the table."""
        return "server"

    @property
    def fenced(self) -> bool:
        """True, because a version written by an earlier driver is refused."""
        return True

    @property
    def tablePlace(self) -> Mapping[str, Any] | None:
        """The table's location as the log records it: the absolute folder or address, without storage options.

        None if the address contains a password.
        """
        if redacted(self.url) != self.url:
            return None
        return {"delta": folder_of(self.url, {}, "DeltaMapState").uri, "ttlSecs": self.ttlSecs}

    def open(self, identity: StateIdentity, shape: StateShape, home: Home) -> DeltaStore:
        """Return the state's store. It opens the table at its first use."""
        folder = folder_of(
            f"{self.url}/{identity.topology}/{identity.name}", dict(self.storageOptions), "DeltaMapState"
        )
        keep = Retention(self.keepHours, self.keepTxids)
        return DeltaStore(identity, shape, self.kind, folder, self.ttlSecs, self.cacheBytes, keep)

    def __repr__(self) -> str:
        shown = [repr(redacted(self.url))]
        if self.ttlSecs is not None:
            shown.append(f"ttlSecs={self.ttlSecs!r}")
        if self.cacheBytes != _CACHE:
            shown.append(f"cacheBytes={self.cacheBytes!r}")
        if self.keepHours != 1:
            shown.append(f"keepHours={self.keepHours!r}")
        if self.keepTxids != 2:
            shown.append(f"keepTxids={self.keepTxids!r}")
        if self.writers != "driver":
            shown.append(f"writers={self.writers!r}")
        return f"DeltaMapState.{self.kind.value}({', '.join(shown)})"
