"""What a cluster must do: each call in each condition, drawn at random, against a model of the conditions."""

import random
import threading
from collections.abc import Callable
from pathlib import Path

from tests.support.waiting import wait_until
from trident import Count, LocalCluster, TridentTopology
from trident.base.errors import TopologyActiveError, TopologyConditionError, TopologyNotFoundError, TridentError
from trident.run.running import RunningTopology
from trident.spouts import PollingSpout
from trident.state import MemoryMapState

NAMES = ("a", "b")
KNOWN = (TopologyActiveError, TopologyConditionError, TopologyNotFoundError)
"""What a call in the wrong condition may raise."""


def topology() -> TridentTopology:
    """Count numbers that never end, ten in a batch: a state without a hole has as many as its last batch says."""
    made = TridentTopology()
    numbers = made.newStream("numbers", PollingSpout("n long", {"numbers": more}, maxRows=10)).parallelismHint(2)
    numbers.persistentAggregate(MemoryMapState.opaque(), Count(), "n", name="count")
    return made


def more(position: int | None, limit: int) -> tuple[list[int], int]:
    first = position or 0
    return list(range(first, first + limit)), first + limit


class ClusterModel:
    """A cluster, and the condition that each of its topologies must have."""

    def __init__(self, cluster: LocalCluster, draws: random.Random) -> None:
        self.cluster, self.draws = cluster, draws
        self.conditions: dict[str, str] = {}
        self.committed = dict.fromkeys(NAMES, 0)
        """The txid at which each topology was seen last: no later run may be before it."""
        self.history: list[str] = []
        self.calls: dict[str, Callable[[str], None]] = {
            "submit": self.submit,
            "submit inactive": lambda name: self.submit(name, active=False),
            "activate": self.activate,
            "deactivate": self.deactivate,
            "rebalance": self.rebalance,
            "kill": self.kill,
            "kill, interrupted": self.interrupted_kill,
            "stop": self.stop,
            "let run": self.let_run,
        }

    def step(self) -> None:
        """Do one drawn call, and compare all conditions."""
        call, name = self.draws.choice([*self.calls]), self.draws.choice(NAMES)
        self.history.append(f"{call} {name}")
        self.calls[call](name)
        assert self.cluster.topologies == self.conditions, self.history

    def refused(self, wanted: type[TridentError], call: Callable[[], object]) -> None:
        try:
            call()
        except wanted:
            return
        raise AssertionError(f"{wanted.__name__} was wanted after {self.history}")

    def _refusal(self, name: str, *allowed: str) -> type[TridentError] | None:
        condition = self.conditions.get(name)
        return TopologyNotFoundError if condition is None else None if condition in allowed else TopologyConditionError

    def submit(self, name: str, active: bool = True) -> None:
        if name in self.conditions:
            self.refused(TopologyActiveError, lambda: self.cluster.submitTopology(name, None, topology()))
            return
        running = self.cluster.submitTopology(name, {"active": active, "maxSpoutPending": 2}, topology())
        self.conditions[name] = "ACTIVE" if active else "INACTIVE"
        self._check_exact(name, running)

    def activate(self, name: str) -> None:
        if refusal := self._refusal(name, "ACTIVE", "INACTIVE"):
            self.refused(refusal, lambda: self.cluster.activate(name))
            return
        self.cluster.activate(name)
        self.conditions[name] = "ACTIVE"

    def deactivate(self, name: str) -> None:
        if refusal := self._refusal(name, "ACTIVE", "INACTIVE"):
            self.refused(refusal, lambda: self.cluster.deactivate(name))
            return
        assert self.cluster.deactivate(name, wait=None)
        self.conditions[name] = "INACTIVE"
        before = self.cluster.running(name).asOfTxid
        self._check_exact(name, self.cluster.running(name))
        assert self.cluster.running(name).asOfTxid == before, self.history

    def rebalance(self, name: str) -> None:
        hints = {"numbers": self.draws.randint(1, 4)}
        if refusal := self._refusal(name, "ACTIVE", "INACTIVE"):
            self.refused(refusal, lambda: self.cluster.rebalance(name, hints))
            return
        self.cluster.rebalance(name, hints)
        assert self.cluster.running(name).parallelismHints == {"numbers/1": hints["numbers"]}

    def kill(self, name: str) -> None:
        if refusal := self._refusal(name, "ACTIVE", "INACTIVE", "KILLED", "STOPPED"):
            self.refused(refusal, lambda: self.cluster.killTopology(name))
            return
        running = self.cluster.running(name)
        self.cluster.killTopology(name, waitSecs=self.draws.choice([0, 10]))
        assert not running.isActive
        self._remember(name, running)
        del self.conditions[name]

    def interrupted_kill(self, name: str) -> None:
        """Ctrl-C comes while a kill waits, or between its last two steps."""
        if self._refusal(name, "ACTIVE", "INACTIVE", "KILLED", "STOPPED") is not None:
            return
        step = self.draws.choice(["_drain", "_remove"])
        setattr(self.cluster, step, _interrupt)
        try:
            self.cluster.killTopology(name)
        except KeyboardInterrupt:
            self.conditions[name] = "KILLED"
        finally:
            delattr(self.cluster, step)

    def stop(self, name: str) -> None:
        if name not in self.conditions:
            return
        self.cluster.running(name).stop()
        if self.conditions[name] != "KILLED":
            self.conditions[name] = "STOPPED"

    def let_run(self, name: str) -> None:
        if self.conditions.get(name) == "ACTIVE":
            running = self.cluster.running(name)
            until = running.asOfTxid["numbers"] + 1
            wait_until(lambda: running.asOfTxid["numbers"] >= until, 30)
            self._check_exact(name, running)

    def _remember(self, name: str, running: RunningTopology) -> None:
        self.committed[name] = max(self.committed[name], running.status["groups"]["numbers"]["committed"])

    def _check_exact(self, name: str, running: RunningTopology) -> None:
        """What is read is one batch's: it has each number up to it once, and no run falls behind an earlier one."""
        value, txid = running.state("count").value, running.asOfTxid["numbers"]
        assert value is None or value % 10 == 0, self.history
        assert (value or 0) <= 10 * txid and txid >= self.committed[name], self.history
        self.committed[name] = txid


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def interleave(cluster: LocalCluster, draws: random.Random, threads: int, calls: int) -> list[BaseException]:
    """Let threads call at random, all on one name. Return the errors that no condition explains."""
    unexplained: list[BaseException] = []

    def call(each: random.Random) -> None:
        for _ in range(calls):
            verb = each.choice(["submit", "activate", "deactivate", "rebalance", "kill", "kill", "status"])
            try:
                if verb == "submit":
                    cluster.submitTopology("a", {"active": each.random() < 0.7}, topology())
                elif verb == "rebalance":
                    cluster.rebalance("a", {"numbers": each.randint(1, 4)}, waitSecs=20)
                elif verb == "kill":
                    cluster.killTopology("a", waitSecs=each.choice([0, 5]))
                elif verb == "status":
                    cluster.status("a")
                else:
                    getattr(cluster, verb)("a")
            except KNOWN:
                pass
            except BaseException as error:
                unexplained.append(error)

    workers = [threading.Thread(target=call, args=(random.Random(draws.random()),)) for _ in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(120)
        if worker.is_alive():
            unexplained.append(TimeoutError("a call hangs"))
    return unexplained


def check_history(folder: Path, seed: int, steps: int) -> None:
    """Draw a history of calls, check it, and check that nothing is left at its end."""
    draws = random.Random(seed)
    with LocalCluster(engine="embedded", checkpointLocation=folder / str(seed)) as cluster:
        model = ClusterModel(cluster, draws)
        for _ in range(steps):
            model.step()
        for name in [*model.conditions]:
            model.kill(name)
        assert cluster.topologies == {}


def check_interleaving(folder: Path, seed: int, calls: int) -> None:
    """Let three threads call at random; then the name is free, or can be killed, and can be submitted."""
    draws = random.Random(seed)
    with LocalCluster(engine="embedded", checkpointLocation=folder / f"i{seed}") as cluster:
        assert interleave(cluster, draws, 3, calls) == [], f"seed {seed}"
        if cluster.topologies:
            cluster.killTopology("a")
        running = cluster.submitTopology("a", {"active": False}, topology())
        txid = running.asOfTxid["numbers"]
        assert (running.state("count").value or 0) == 10 * txid, f"seed {seed}"
        cluster.killTopology("a")
