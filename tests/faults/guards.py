"""Takes each guard of exactly-once out of a copy of the sources, one at a time, and shows which test notices.

python -m tests.faults.guards            all of them, as a Markdown table; ends non-zero if one goes unnoticed
python -m tests.faults.guards fence      those whose name begins so
"""

import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
COPIED = ("trident", "state", "spouts", "tests", "pyproject.toml", "README.md")


@dataclass(frozen=True)
class Guard:
    """A guard: what it is for, where it stands (file, text), what is left without it, and the tests to ask."""

    name: str
    prevents: str
    file: str
    text: str
    without: str
    tests: str
    also: tuple[str, str] | None = None
    """A second line of defence in the same file, taken out with it: text, and what is left."""


GUARDS = [
    Guard(
        "freeze",
        "a batch that was written in parts is computed again, with other tuples",
        "trident/runtime/sqlite_log.py",
        "return History(committed, self._json(positions), waiting, tuple(planned))",
        "return History(committed, self._json(positions), (), tuple(planned))",
        "tests/faults/test_kill_points.py -k freeze.after",
    ),
    Guard(
        "freeze order (coordinator)",
        "a batch freezes before the one whose end it starts from",
        "trident/runtime/coordinator.py",
        "batch = self._batches.get(self.frozen + 1)",
        "batch = next((b for b in self._batches.values() if b.status is Status.RAN), None)",
        "tests/runtime/test_coordinator.py",
    ),
    Guard(
        "freeze order (log)",
        "two drivers, or a bug, freeze one txid twice or leave one out",
        "trident/runtime/sqlite_log.py",
        "UPDATE groups SET frozen = ?, positions = ? WHERE name = ? AND frozen = ?",
        "UPDATE groups SET frozen = ?, positions = ? WHERE name = ? AND ? >= 0",
        "tests/runtime/test_sqlite_log.py",
    ),
    Guard(
        "what was frozen is what is committed",
        "the late result of a discarded attempt is written under the txid of the living one",
        "trident/runtime/group_run.py",
        "written = self._committer.commit(txid, self._at_hand.get(txid))",
        "written = self._committer.commit(\n"
        "                txid, {a.txid: h.result.results for a, h in list(self._held.items())}.get(txid)\n"
        "            )",
        "tests/runtime/test_replays_that_differ.py",
        also=(
            "            if self._over(attempt):\n"
            "                self._held.pop(attempt, None)\n"
            "                return\n",
            "",
        ),
    ),
    Guard(
        "living attempt",
        "a message of an attempt that is over counts for the one that lives",
        "trident/runtime/coordinator.py",
        "return batch if batch is not None and batch.attempt == attempt and batch.status is status else None",
        "return batch if batch is not None and batch.status is status else None",
        "tests/runtime/test_coordinator.py",
    ),
    Guard(
        "void plans",
        "batches go on that were planned from where another plan would have ended",
        "trident/runtime/coordinator.py",
        "        if batch.plan is not None and batch.plan != event.plan:\n"
        "            self._discard_after(event.attempt.txid)\n",
        "",
        "tests/runtime/test_coordinator.py",
    ),
    Guard(
        "commit order",
        "a later batch reaches a state before an earlier one",
        "trident/runtime/coordinator.py",
        "        txid = self.committed + 1\n        batch = self._batches.get(txid)\n",
        "        txid = max((t for t, b in self._batches.items() if b.status is Status.FROZEN), default=0)\n"
        "        batch = self._batches.get(txid)\n",
        "tests/runtime/test_coordinator.py",
    ),
    Guard(
        "fence (log)",
        "a driver that was taken over goes on writing the log",
        "trident/runtime/sqlite_log.py",
        "        if (epoch, token) != (lease.epoch, lease.token):",
        "        if False:",
        "tests/runtime/test_sqlite_log.py",
    ),
    Guard(
        "fence (Redis)",
        "a driver that was taken over goes on writing the state",
        "state/trident_state/redis/lua/answer.lua",
        "if token == ARGV[1] and epoch == ARGV[2] then return nil end",
        "if true then return nil end",
        "tests/state/redis/test_contract.py -k under_the_older_lease",
    ),
    Guard(
        "fence (memory)",
        "a driver that was taken over goes on writing the state",
        "state/trident_state/memory/store.py",
        "if held is not None and held != lease and held.epoch >= lease.epoch:",
        "if False:",
        "tests/state/memory -k older",
    ),
    Guard(
        "marker (Redis)",
        "a batch is applied to a store that lost the ones before it",
        "state/trident_state/redis/lua/open.lua",
        "if done < txid - 1 then return answer('BEHIND') end",
        "",
        "tests/state/redis/test_contract.py -k gap",
    ),
    Guard(
        "marker (memory)",
        "a batch is applied to a store that lost the ones before it",
        "state/trident_state/memory/store.py",
        "        if marker < txid - 1:",
        "        if False:",
        "tests/state/memory -k gap",
    ),
    Guard(
        "key count (Redis)",
        "a batch is committed of which a chunk never arrived",
        "state/trident_state/redis/lua/commit.lua",
        "if moved ~= ARGV[4] then return answer('COUNT', moved) end",
        "",
        "tests/state/redis -k 'twice or chunk or count'",
    ),
    Guard(
        "value rule (Redis)",
        "a chunk that is sent again after a lost reply counts twice",
        "state/trident_state/redis/lua/merge.lua",
        "      if t < txid then\n        if absent",
        "      if t <= txid then\n        if absent",
        "tests/state/redis -k 'lost or again or resent'",
    ),
    Guard(
        "healing",
        "a store that lost its last writes goes on without them",
        "trident/runtime/committer.py",
        "        if behind >= upto:\n            return\n",
        "        return\n",
        "tests/faults/test_rewind.py -k empty",
    ),
    Guard(
        "trim",
        "frozen batches go that a state in memory has not secured yet",
        "trident/runtime/group_run.py",
        "needed = min([store.durable() for store in self._committer.stores.values()] + [self.committed])",
        "needed = self.committed",
        "tests/runtime/test_recovery.py -k secured",
    ),
    Guard(
        "rows that come once",
        "a batch that is planned anew asks a source again that gives its rows once",
        "spouts/trident_spouts/adapters/batch.py",
        "        if txid in self._kept:",
        "        if False:",
        "tests/runtime/test_misbehaviour.py -k once",
    ),
    Guard(
        "lost state",
        "an empty store is taken for a new one, and everything before is forgotten",
        "trident/runtime/begin.py",
        "            if birth is not None and frozen > birth.txid and any(g.marker is None for g in report.groups):",
        "            if False:",
        "tests/runtime/test_begin.py",
    ),
    Guard(
        "log behind the state",
        "an old copy of the log gives txids away again that a state has seen",
        "trident/runtime/begin.py",
        "    if ahead > frozen:",
        "    if False:",
        "tests/runtime/test_begin.py",
    ),
]


def without(guard: Guard, folder: Path) -> bool:
    """Whether a test notices that the guard is gone."""
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, folder / name)
    path = folder / guard.file
    mutant = path.read_text()
    for text, left in [(guard.text, guard.without), *([guard.also] if guard.also else [])]:
        assert mutant.count(text) == 1, f"{guard.name}: its text stands {mutant.count(text)} times in {guard.file}"
        mutant = mutant.replace(text, left)
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *_words(guard.tests)]
    assert subprocess.run(command, cwd=folder, capture_output=True).returncode == 0, f"{guard.tests}: fails as it is"
    path.write_text(mutant)
    return subprocess.run(command, cwd=folder, capture_output=True).returncode == 1


def _words(tests: str) -> list[str]:
    import shlex

    return shlex.split(tests)


def main(prefix: str) -> int:
    print("| without this guard | this could happen | noticed by |\n|---|---|---|")
    unnoticed = 0
    for guard in GUARDS:
        if not guard.name.startswith(prefix):
            continue
        with tempfile.TemporaryDirectory() as folder:
            noticed = without(guard, Path(folder))
        unnoticed += not noticed
        print(f"| {guard.name} | {guard.prevents} | {f'`{guard.tests}`' if noticed else '**nothing**'} |", flush=True)
    return 1 if unnoticed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else ""))
