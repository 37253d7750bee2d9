"""The guarantee table, cell by cell: what is promised holds, and what is not promised is seen not to hold.

Every cell lives through the same two faults: the driver is killed before batch 2 is frozen, so that it is read again;
and the commit of batch 3 loses its connection when the counts are on the server and the marker is not.
"""

import functools
import multiprocessing
import signal
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.faults.guarantee_cells import WORDS, counting, run, spout_of, switched
from tests.state.backing.maps import Meddled, PlainMap
from tests.support.request_proxy import Cut, RequestProxy, words
from tests.support.server import RedisServer
from tests.support.soak import some_of
from trident import Count, TridentTopology, openState
from trident.errors import GuaranteeError, TopologyError
from trident.plan.guarantee import Promise, guarantees
from trident.state import BackingMapState, MemoryMapState, RedisMapState, StateIdentity
from trident.testing.local import start_local
from trident_state.redis.scripts import COMMIT

ONCE = Counter(WORDS)
THIRD = {
    "transactional": WORDS[4:6],
    "opaque": WORDS[3:5],  # the second attempt at batch 2 took one word
    "emptied": WORDS[6:8],  # w2 and w3 went down with the driver, batch 2 has what came after them
    "from the start": WORDS[2:4],
}
"""The words of batch 3."""


@pytest.fixture(scope="module")
def forks() -> Any:
    """Children from a server that has everything imported: a driver's life takes no second."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(
        ["tests.faults.guarantee_cells", "trident.compiler.arrow.engine", "trident_state.redis", "pandas"]
    )
    return context


def lived(forks: Any, spout: str, state: Any, folder: Path, crash_at: str = "") -> int:
    """How a driver's life ended."""
    child = forks.Process(target=run, args=(spout, state, folder, crash_at))
    child.start()
    child.join(60)
    return int(child.exitcode)


class CutOff:
    """Cuts the connection once: everything of batch 3 reaches the server, but not its commit."""

    struck = 0

    def __init__(self, state: str = "counts") -> None:
        self._state = f"/{state}}}".encode()

    def __call__(self, commands: Sequence[bytes]) -> Cut | None:
        for at, command in enumerate(commands):
            said = words(command)
            if said[:2] == [b"EVALSHA", COMMIT.sha] and said[6] == b"3" and self._state in said[3] and not self.struck:
                self.struck += 1
                return Cut(at)
        return None


def expected(spout: str, state: str) -> Counter[str]:
    """What the two faults leave."""
    came = ONCE
    if spout == "emptied":
        came = Counter(word for word in WORDS if word not in WORDS[2:4])
    elif spout == "from the start":
        came = ONCE + Counter(WORDS[:2])
    return came + Counter(THIRD[spout]) if state == "nonTransactional" else came


PROMISES = {
    ("transactional", "transactional"): Promise.EXACTLY_ONCE,
    ("transactional", "opaque"): Promise.EXACTLY_ONCE,
    ("transactional", "nonTransactional"): Promise.AT_LEAST_ONCE,
    ("opaque", "transactional"): Promise.EXACTLY_ONCE,
    ("opaque", "opaque"): Promise.EXACTLY_ONCE,
    ("opaque", "nonTransactional"): Promise.AT_LEAST_ONCE,
    ("emptied", "transactional"): Promise.BATCHES_ONCE,
    ("emptied", "opaque"): Promise.BATCHES_ONCE,
    ("emptied", "nonTransactional"): Promise.NOTHING,
    ("from the start", "transactional"): Promise.BATCHES_ONCE,
    ("from the start", "opaque"): Promise.BATCHES_ONCE,
    ("from the start", "nonTransactional"): Promise.NOTHING,
}


@pytest.mark.parametrize(("spout", "state"), PROMISES, ids=lambda kind: str(kind).replace(" ", "-"))
def test_a_cell_keeps_its_promise_and_no_more(
    tmp_path: Path, shared_redis: RedisServer, forks: Any, spout: str, state: str
) -> None:
    promise = PROMISES[spout, state]
    make = getattr(RedisMapState, state)
    topology = counting(spout_of(spout, tmp_path), make(shared_redis.url))
    (found,) = guarantees(topology.sinks)
    assert found.promise is promise
    if promise is not Promise.EXACTLY_ONCE:
        with pytest.raises(GuaranteeError, match="requireExactlyOnce=True.*guarantee less"):
            start_local(topology, name="t", checkpointLocation=tmp_path / "x", requireExactlyOnce=True)
    assert lived(forks, spout, make(shared_redis.url), tmp_path, "freeze.before:2") == -signal.SIGKILL
    cut = CutOff()
    with RequestProxy(shared_redis.port, cut) as proxy:
        assert lived(forks, spout, make(f"redis://127.0.0.1:{proxy.port}/0"), tmp_path) == -signal.SIGUSR1
    assert cut.struck == 1
    with openState("t", "counts", url=shared_redis.url) as counts:
        assert Counter(dict(counts.items())) == expected(spout, state)
    exact = expected(spout, state) == ONCE
    assert exact == (promise is Promise.EXACTLY_ONCE), "the faults show the difference"
    if promise is Promise.AT_LEAST_ONCE:
        assert expected(spout, state) > ONCE, "nothing is lost"


# --- one program under both guarantees ------------------------------------------------------------------------------


@pytest.mark.parametrize("guarantee", ["exactly-once", "at-least-once"])
def test_the_same_program_is_exact_or_counts_at_least_once(
    guarantee: Any, tmp_path: Path, shared_redis: RedisServer, forks: Any
) -> None:
    """The sums of batch 3 reach the server, and the driver does not learn whether they are committed."""
    cut = CutOff("sums")
    with RequestProxy(shared_redis.port, cut) as proxy:
        url = f"redis://127.0.0.1:{proxy.port}/0"
        child = forks.Process(target=switched, args=(guarantee, url, tmp_path))
        child.start()
        child.join(60)
        assert child.exitcode == -signal.SIGUSR1
    assert cut.struck == 1
    with openState("t", "sums", url=shared_redis.url) as state:
        sums = Counter(dict(state.items()))
    with openState("t", "numbers", url=shared_redis.url) as state:
        assert dict(state.items()) == dict(ONCE), "an operation puts whole values, which are frozen: a repeat adds none"
    assert sums == (ONCE if guarantee == "exactly-once" else ONCE + Counter(WORDS[4:6]))


def test_the_guarantee_of_a_topology_is_told_and_what_cannot_have_it_is_refused() -> None:
    topology = TridentTopology(guarantee="at-least-once")
    words = topology.newStream("words", spout_of("transactional", Path()))
    state = words.groupBy("word").persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")
    assert repr(state).endswith("; nonTransactional)")
    assert [found.promise for found in guarantees(topology.sinks)] == [Promise.AT_LEAST_ONCE]
    with pytest.raises(GuaranteeError, match="requireExactlyOnce=True"):
        start_local(topology, name="t", requireExactlyOnce=True)
    with pytest.raises(TopologyError, match=r"guarantee='at-least-once' makes.*writers='executors'"):
        words.groupBy("word").persistentAggregate(
            RedisMapState.opaque("redis://localhost:6379", writers="executors"), Count(), "count", name="more"
        )
    with pytest.raises(TopologyError, match=r"guarantee='once': expected 'exactly-once' or 'at-least-once'"):
        TridentTopology(guarantee="once")  # type: ignore[arg-type]
    for option, way_out in {
        "guarantee": "TridentTopology",
        "checkpointIntervalMs": "every committed batch is a",
    }.items():
        with pytest.raises(TopologyError, match=f"start has no option {option!r}: .*{way_out}"):
            start_local(topology, name="t", **{option: 1000})


# --- a map that somebody brought ------------------------------------------------------------------------------------


def interrupted(file: str, at: int, identity: StateIdentity) -> Any:
    """A map without a conditional put, of which one write does its work and tells nobody."""
    writes = Path(f"{file}.writes")

    def breaks(write: int) -> None:
        done = int(writes.read_text()) if writes.exists() else 0
        writes.write_text(str(done + 1))
        if done + 1 == at:
            raise ConnectionError("the network went away")

    return Meddled(PlainMap(file, identity), breaks)


@pytest.mark.parametrize("state", ["transactional", "opaque", "nonTransactional"])
@pytest.mark.parametrize("at", some_of(range(1, 15), range(1, 6)))  # later batches repeat the first one's writes
def test_a_plain_map_is_exact_with_one_driver_and_doubles_only_where_it_says_so(
    tmp_path: Path, state: str, at: int
) -> None:
    """Each write of a run fails once: two of the start, then what is open, entries and marker of four batches. What
    two drivers at once may do to such a map is shown in tests/state/backing/test_fencing.py."""
    kept = getattr(BackingMapState, state)(functools.partial(interrupted, str(tmp_path / "db"), at))
    topology = counting(spout_of("transactional", tmp_path), kept)
    (found,) = guarantees(topology.sinks)
    assert not found.exactlyOnce
    with pytest.raises(GuaranteeError, match="requireExactlyOnce=True"):
        start_local(topology, name="t", checkpointLocation=tmp_path / "x", requireExactlyOnce=True)
    for _ in range(2):  # a write that fails in the start ends it
        try:
            with start_local(topology, name="t", checkpointLocation=tmp_path / "c") as running:
                running.processAllAvailable(timeout=20)
                counts = Counter(dict(running.state("counts").items()))
            break
        except ConnectionError:
            continue
    if state == "nonTransactional":
        assert counts >= ONCE and (counts > ONCE) == (at in DOUBLED)
    else:
        assert counts == ONCE and found.condition.startswith("only while one driver lives and the store loses nothing")


DOUBLED = {5, 8, 11, 14}
"""The marker's writes, after the entries: two of the start, then what is open, entries and marker of each batch."""


def test_a_state_in_memory_is_made_again_of_frozen_batches_whatever_its_kind(tmp_path: Path, forks: Any) -> None:
    """More than is promised for nonTransactional: entries die with the driver that half-wrote them."""
    for kind in ("transactional", "opaque", "nonTransactional"):
        folder = tmp_path / kind
        folder.mkdir()
        for point in ("commit.state.after:2", "committed.before:1", ""):
            ended = lived(forks, "transactional", getattr(MemoryMapState, kind)(), folder, point)
            assert ended == -(signal.SIGKILL if point else signal.SIGUSR1)
        with openState("t", "counts", folder / "c") as counts:
            assert Counter(dict(counts.items())) == ONCE
