"""What operators' commands must do to a stored topology, whose drivers are processes that die: drawn at random.

The model knows what was wanted last. After each step the line of `trident list` and the stored wish are compared with
it; at the end the counts are exact.
"""

import contextlib
import os
import random
import signal
import subprocess
from collections.abc import Callable, Iterator

from tests.cluster.stored import Stored, expected
from tests.support.waiting import wait_until
from trident.cluster.stored_topology import Report

PATIENCE = 240
"""The most seconds to wait for what a process does; a busy machine needs half a minute to start one."""
ENDS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGKILL)


class StoredModel:
    """A stored topology named wc, its drivers, and what it must be."""

    def __init__(self, stored: Stored, draws: random.Random) -> None:
        self.stored, self.draws = stored, draws
        self.exists, self.active, self.hint = False, True, 2
        self.driver: subprocess.Popen[bytes] | None = None
        self.standby: subprocess.Popen[bytes] | None = None
        self.held: int | None = None
        """The txid at which an inactive topology stands still."""
        self.history: list[str] = []
        self.calls: dict[str, Callable[[], None]] = {
            "submit": self.submit,
            "resume": self.resume,
            "resume --standby": self.resume_standby,
            "end the driver": self.end_driver,
            "activate": lambda: self.switch(True),
            "deactivate": lambda: self.switch(False),
            "rebalance": self.rebalance,
            "kill": self.kill,
            "kill, interrupted": self.interrupted_kill,
        }

    def step(self, call: str | None = None) -> None:
        """Do one drawn call, and compare."""
        chosen = call or self.draws.choice([*self.calls])
        self.history.append(chosen)
        try:
            self.calls[chosen]()
            self._check()
        except BaseException as error:
            error.add_note(f"after {self.history}")
            raise

    # --- commands ------------------------------------------------------------------------------------------------

    def submit(self) -> None:
        if self.exists:
            self.stored.submit("--no-start", code=1)
            return
        inactive = self.draws.random() < 0.3
        self.stored.submit("--no-start", "--set", "leaseSecs=1", *(["--inactive"] if inactive else []))
        self.exists, self.active, self.hint = True, not inactive, 2

    def resume(self) -> None:
        if not self.exists or self._is_driven():
            with self._ended(self.stored.resume()) as code:
                assert code == 1
            return
        self.driver = self.stored.resume()
        self._awaits_driver()

    def resume_standby(self) -> None:
        if self.exists and self.standby is None:
            waiting = self._said().count("waits as a standby")
            self.standby = self.stored.resume("--standby")
            if self._is_driven():
                wait_until(lambda: self._said().count("waits as a standby") > waiting, PATIENCE)
                return
            self.driver, self.standby = self.standby, None
            self._awaits_driver()

    def end_driver(self) -> None:
        """A driver ends, in good order or not; a standby takes its place, if there is one."""
        if self.driver is None:
            return
        self.driver.send_signal(self.draws.choice(ENDS))
        self.driver.wait(PATIENCE)
        self.driver, self.standby = self.standby, None
        if self.driver is not None:
            self._awaits_driver()

    def switch(self, active: bool) -> None:
        said = self.stored.shell("activate" if active else "deactivate", "wc", code=0 if self.exists else 1)
        if self.exists:
            wanted = "is ACTIVE" if active else "is INACTIVE"
            assert (wanted if self._is_driven() else "has no driver; the change applies to the next one") in said
            self.active = active

    def rebalance(self) -> None:
        count = self.draws.randint(1, 4)
        self.stored.shell("rebalance", "wc", f"words={count}", code=0 if self.exists else 1)
        self.hint = count if self.exists else 2

    def kill(self) -> None:
        self.stored.shell("kill", "wc", "--wait", str(self.draws.choice([0, 5])), code=0 if self.exists else 1)
        self._gone()

    def interrupted_kill(self) -> None:
        """The command ends after it has stored what is wanted; the driver goes on, or the next command does."""
        if not self.exists:
            return
        self.stored.home.change("wc", kill=5.0)
        if self.driver is None:
            assert self.stored.line()["condition"] == "KILLED"
            self.stored.shell("activate", "wc", code=1)
            with self._ended(self.stored.resume()) as code:
                assert code == 0
        self._gone()

    # --- what must be --------------------------------------------------------------------------------------------

    def _gone(self) -> None:
        """Nothing is left of a killed topology: no driver, no standby that goes on, no folder."""
        for process in (self.driver, self.standby):
            if process is not None:
                assert process.wait(PATIENCE) == 0
        wait_until(lambda: not self.stored.home.at("wc").folder.exists(), PATIENCE)
        self.exists, self.driver, self.standby, self.held = False, None, None, None

    def _check(self) -> None:
        names = [each.name for each in self.stored.home.all()]
        assert names == (["wc"] if self.exists else [])
        if not self.exists:
            return
        wish = self.stored.home.find("wc").wish()
        assert wish is not None and (wish.active, wish.hints.get("words/1", 2)) == (self.active, self.hint)
        condition = self.stored.line()["condition"]
        if self._is_driven():
            assert condition == ("ACTIVE" if self.active else "INACTIVE")
            if self.active:
                self.stored.reaches(self.stored.committed() + 1)
        else:
            assert condition in ("STORED", "STOPPED", "DIED"), condition
        self._check_held()

    def _check_held(self) -> None:
        """An inactive topology commits what was planned, and no more, over all drivers."""
        if self.active or not self._is_driven():
            self.held = self.held if not self.active else None
            return
        if self.held is None:
            self.held = self._settled()
        assert self._settled() == self.held

    def _settled(self) -> int:
        """Return the txid once a driver has committed what was planned: in two looks a second apart it is the same."""
        looks = [-1, self.stored.committed()]
        while looks[-1] != looks[-2]:
            with contextlib.suppress(TimeoutError, AssertionError):
                wait_until(lambda: self.stored.committed() != looks[-1], 1.2)
            looks.append(self.stored.committed())
        return looks[-1]

    def _said(self) -> str:
        file = self.stored.folder / "resumed.txt"
        return file.read_text() if file.exists() else ""

    def _is_driven(self) -> bool:
        return self.driver is not None

    def _awaits_driver(self) -> None:
        driver, wanted = self.driver, "ACTIVE" if self.active else "INACTIVE"
        assert driver is not None

        def speaks() -> bool:
            assert driver.poll() is None, self._said()[-2000:]
            report: Report | None = self.stored.home.find("wc").report()
            return report is not None and (report.pid, report.condition) == (driver.pid, wanted)

        wait_until(speaks, PATIENCE)

    @contextlib.contextmanager
    def _ended(self, process: "subprocess.Popen[bytes]") -> Iterator[int]:
        yield process.wait(PATIENCE)

    def end(self) -> None:
        """Kill the topology; the counts are those of whole batches, each once."""
        if self.exists:
            self.step("kill")
        if (self.stored.home.checkpoints / "wc").exists():
            counts = self.stored.counted()
            assert counts == expected(sum(counts.values()))

    def close(self) -> None:
        """End what is left of a history that has failed."""
        for process in (self.driver, self.standby):
            if process is not None and process.poll() is None:
                os.kill(process.pid, signal.SIGKILL)
                process.wait()
