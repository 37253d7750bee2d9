"""Plants faults in a copy of the sources, one at a time, and counts the schedules until the first comes out wrong.

python -m tests.simulator.planted             all of them, as a Markdown table; ends non-zero if one is not found
python -m tests.simulator.planted positions   those whose name begins so

The faults are of the kinds that only a program which changes, or user code that misbehaves, brings to light; and those
of verbs with states of their own and of several aggregates, which are looked for in the programs of `verbs.py`; and
those of executors that write and ask states; and those of states in Delta tables.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.simulator.families import DELTA, DELTA_CHANGING, EVOLVING, EXECUTORS, LOOSE, SAVEPOINTS
from tests.simulator.fleet import some

ROOT = Path(__file__).parents[2]
COPIED = ("trident", "state", "spouts", "tests")
MOST = int(os.environ.get("TRIDENT_PLANTED", "5000"))
"""Schedules after which a fault counts as not found."""
_AT_ONCE = 20


@dataclass(frozen=True)
class Fault:
    """What is broken: where (file, text), and what stands there then. `of`: what happens where it shows. `also`: a
    second place, where another check would catch what the first one lets through."""

    of: str
    name: str
    file: str
    text: str
    instead: str
    also: tuple[str, str, str] | None = None
    flow: str = ""
    """How the names of the unchanging programs begin in which it is looked for; "": in programs that change; LOOSE: in
    those that begin with a loose query; EVOLVING: in those whose states evolve; EXECUTORS: where these write and ask
    states; DELTA and DELTA_CHANGING: where states are Delta tables."""

    @property
    def places(self) -> list[tuple[str, str, str]]:
        """File, text, and what stands there then."""
        return [(self.file, self.text, self.instead), *([self.also] if self.also else [])]


FAULTS = [
    Fault(
        "rename",
        "a renamed stream is a new one, and nobody asks",
        "trident/recovery/stream_records.py",
        "    if not gone or not new:\n",
        "    if True:\n",
    ),
    Fault(
        "rename",
        "formerly says nothing",
        "trident/recovery/stream_records.py",
        "            last = known.streams.get(former or spout.stream)\n",
        "            last = known.streams.get(spout.stream)\n",
    ),
    Fault(
        "merge",
        "a merged group goes on with the lower txids",
        "trident/recovery/group_membership.py",
        "max(free, key=lambda name: (reached[name], name in waiting",
        "min(free, key=lambda name: (reached[name], name in waiting",
    ),
    Fault(
        "merge",
        "positions are forgotten when a stream comes into another group",
        "trident/recovery/stream_records.py",
        "    return StreamRecord(group.name, last.position, source, True",
        "    same = last.group == group.name\n"
        "    return StreamRecord(group.name, last.position if same else None, source, True",
    ),
    Fault(
        "split",
        "two groups that part go on with the same txids",
        "trident/recovery/group_membership.py",
        "if name in reached and name not in names.values()\n",
        "if name in reached\n",
    ),
    Fault(
        "split",
        "an output may see txids again",
        "trident/recovery/group_membership.py",
        "    if reached.get(former, 0) > reached[group.name]:\n",
        "    if False:\n",
    ),
    Fault(
        "removed",
        "a group that is gone may wait for ever",
        "trident/recovery/acquisition.py",
        "        _check_groups_known(program, log)\n        check_readers",
        "        check_readers",
    ),
    Fault(
        "put back",
        "a stream that is away loses its position",
        "trident/recovery/stream_records.py",
        "replace(stream, active=False, feeds=(),",
        "replace(stream, active=False, position=None, feeds=(),",
    ),
    Fault(
        "put back",
        "a state that missed batches goes on after them",
        "trident/recovery/stream_records.py",
        "    if missed:\n",
        "    if False:\n",
        (
            "trident/commits/store_writes.py",
            "        if found is not None:\n            return found\n        raise missed(",
            "        if found is None:\n"
            "            outputs = [output for stage in self.group.stages for output in stage.frozen]\n"
            "            found = next(output for output in outputs if output.name == state).schema.empty_table()\n"
            "        if found is not None:\n            return found\n        raise missed(",
        ),
    ),
    Fault(
        "engines",
        "a stage gives the result of the attempt before",
        "trident/compiler/auto/engine.py",
        "replace(slot.run(stage, inputs, attempt, scratch), engine=side)",
        "self.__dict__.setdefault('kept', {}).setdefault(\n"
        "                (stage.number, attempt.txid), "
        "replace(slot.run(stage, inputs, attempt, scratch), engine=side)\n"
        "            )",
        flow="several,recent",
    ),
    Fault(
        "changes",
        "the changes of a table take rows away with their new values",
        "trident/commits/state_queries.py",
        "before = {name: self._born(name, txid - 1) for name in (*tables, *index)}",
        "before = {name: self._born(name, txid) for name in (*tables, *index)}",
        flow="changes",
    ),
    Fault(
        "changes",
        "a row whose number is zero within a batch is nothing",
        "trident/operations/retractions.py",
        "return None if not tuples and",
        "return None if not tuples or",
        flow="changes",
    ),
    Fault(
        "changes",
        "a deletion leaves the row in the table",
        "trident/compiler/states/table_rows.py",
        "mask=_gone(tuples, change)",
        "mask=None",
        flow="changes",
    ),
    Fault(
        "upserts",
        "a tombstone is a row",
        "trident/operations/changes.py",
        'return "delete" if value is None else "insert"',
        'return "insert"',
        flow="upserts",
    ),
    Fault(
        "upserts",
        "the first message of a word in a batch decides",
        "trident/compiler/states/table_rows.py",
        "    last[encoded.indices.to_numpy()[rows]] = rows",
        "    last[encoded.indices.to_numpy()[rows[::-1]]] = rows[::-1]",
        flow="upserts",
    ),
    Fault(
        "upserts",
        "a message of a word that has a row only adds the new one",
        "trident/compiler/states/row_changes.py",
        "_without(len(old), at_old[same])",
        "_without(len(old), at_old)",
        flow="upserts",
    ),
    Fault(
        "lines swapped",
        "another program commits what waits, by names",
        "trident/recovery/program_compatibility.py",
        "    if match.differs is None:\n        _check_returned(",
        "    if True:\n        return {part.name: part.name for part in then.parts}\n        _check_returned(",
    ),
    Fault(
        "another schema",
        "what waits may have other fields",
        "trident/recovery/program_compatibility.py",
        "alike[part.stage, part.schema, part.shape, frozenset",
        "alike[part.stage, '', '', frozenset",
    ),
    Fault(
        "drop",
        "a reader goes on over a drop",
        "trident/access/replica.py",
        "        if self._incarnation not in (None, incarnation):\n",
        "        if False:\n",
    ),
    Fault(
        "reset",
        "a reader goes on over a reset",
        "trident/access/replica.py",
        "_Incarnation(manifest.log, birth.txid, birth.epoch)",
        "_Incarnation('', birth.txid, birth.epoch)",
        ("trident/access/replica.py", "        if last < self._reached:\n", "        if False:\n"),
    ),
    Fault(
        "source",
        "an empty page does not move the position",
        "spouts/trident_spouts/adapters/partitioned_executors.py",
        "        if not batch.parts and batch.after == batch.start:\n            self._moved = (logged, batch.after)\n",
        "        if not batch.parts:\n            self._moved = (logged, logged)\n",
    ),
    Fault(
        "source",
        "a partition that is away loses its position",
        "spouts/trident_spouts/adapters/partitioned_executors.py",
        "self.start, self.after = dict(start), dict(start)",
        "self.start, self.after = dict(start), Positions()",
    ),
    Fault(
        "older copy",
        "a position is not compared with the source",
        "tests/simulator/spouts.py",
        "COMPARES = True\n",
        "COMPARES = False\n",
    ),
    Fault(
        "older copy",
        "a plan that is refused counts as nothing there",
        "trident/batches/attempt_runs.py",
        "self._post(on.PlanFailed(attempt, error))\n",
        "self._post(on.NothingThere(attempt))\n",
    ),
    Fault(
        "older copy",
        "an output does not ask for its last batch",
        "trident/outputs/parquet_outlet.py",
        "                self._check_last()\n",
        "",
    ),
    Fault(
        "older copy",
        "a start does not compare what an output holds with what the log knows of it",
        "trident/outputs/parquet_outlet.py",
        "        if reached >= progress.reached:\n",
        "        if True:\n",
    ),
    Fault(
        "late log commands",
        "a late copy of a write of the log is done",
        "tests/simulator/fake_redis.py",  # as its script would
        "        if number < last:\n",
        "        if False:\n",
    ),
    Fault(
        "code that hangs",
        "calls of user code have no limit",
        "trident/user_calls/watched_calls.py",
        "overdue = [call for call in self._calls if not call.abandoned and now >= self._deadline(call)]",
        "overdue = list[_Call]()",
    ),
    Fault(
        "code that hangs",
        "a function that hangs is called again meanwhile",
        "trident/user_calls/watched_calls.py",
        'self._make(f"trident-{self._group}-{lane}", 1)',
        'self._make(f"trident-{self._group}-{lane}", None)',
    ),
    Fault(
        "code that hangs",
        "a stop waits for user code as long as it likes",
        "trident/batches/group_run.py",
        "                self._later(PATIENCE_SECONDS, self._give_up)\n",
        "",
    ),
    Fault(
        "restart",
        "a batch that was found frozen is handed over as for the first time",
        "trident/outputs/outlets.py",
        "attempt = self._run.memory.attempt(self._sink.name, txid, int(txid <= self._run.last_frozen))",
        "attempt = 0",
    ),
    Fault(
        LOOSE,
        "it is asked again in a turn that is repeated",
        "trident/commits/committer.py",
        "        frozen = self._frozen.stage(txid, stage.number)\n",
        "        frozen = self._frozen.stage(txid, stage.number) if stage.number == 1 else None\n",
        (
            "trident/commits/committer.py",
            "        if all(self.log.frozen(self.group.name, txid, stage.number) is not None for stage in later):\n",
            "        if not later:\n",
        ),
        flow=LOOSE,
    ),
    Fault(
        EVOLVING,
        "a state is read in its former shape",
        "trident/recovery/evolving_store.py",
        "return Found(self._shape.changed(found.values), found.asOf)",
        "return Found(found.values, found.asOf)",
        flow=EVOLVING,
    ),
    Fault(
        EVOLVING,
        "a state evolves that lacks the last batches of the former program",
        "trident/recovery/state_evolution.py",
        "    if lacking:\n",
        "    if False:\n",
        flow=EVOLVING,
    ),
    Fault(
        EVOLVING,
        "a batch that waits in the former shape is combined in the present one",
        "trident/recovery/state_evolution.py",
        'if frozen is not None and shape_of_result(thaw(frozen, f"batch {txid}")) != now:',
        "if False:",
        flow=EVOLVING,
    ),
    Fault(
        EVOLVING,
        "the former program goes on with the new values",
        "trident/recovery/state_compatibility.py",
        "if stored is not None and not shape.fits(stored) and declared_former(node, stored) is None:",
        "if False:",
        flow=EVOLVING,
    ),
    Fault(
        EVOLVING,
        "a state that was filled is filled again at each start",
        "trident/recovery/acquisition.py",
        "new = [node for node in writers if not births[node.state.name].founded]",
        "new = writers",
        flow=EVOLVING,
    ),
    Fault(
        EVOLVING,
        "a state that a former program began to create keeps its record",
        "trident/recovery/acquisition.py",
        "births[name] = replace(birth, epoch=lease.epoch)",
        "births[name] = birth",
        flow=EVOLVING,
    ),
    Fault(
        EVOLVING,
        "a reader goes by the store of a program that cannot combine its values",
        "trident/compiler/states/former_shapes.py",
        "Combine(former.meaning, _unwritten)",
        "replacing(former.meaning)",
        flow=EVOLVING,
    ),
    Fault(
        EVOLVING,
        "the batch before comes in the place of a content",
        "trident/log/frozen_batches.py",
        "if (content := self.log.content(state, txid)) is not None:",
        "if (content := self.log.content(state, txid)) is not None and txid < 0:",
        flow=EVOLVING,
    ),
    Fault(
        "stateful operation",
        "a batch that begins again finds what its first try left in memory",
        "trident/compiler/states/stateful.py",
        '        elif self._begun == txid and overrides(self._user, "preRollback"):\n',
        "        elif False:\n",
        flow="stateful",
    ),
    Fault(
        "stateful operation",
        "a checkpoint is not gone back to",
        "trident/compiler/states/stateful.py",
        '            self._call("rollback", checkpoint)\n',
        "            pass\n",
        flow="stateful",
    ),
    Fault(
        "stateful operation",
        "a restart begins without its checkpoint",
        "trident/compiler/states/stateful.py",
        '            self._call("initState", checkpoint)\n',
        '            self._call("initState", None)\n',
        flow="stateful",
    ),
]


_JOIN, _DEDUP = "trident/compiler/windows/interval_joins.py", "trident/compiler/windows/duplicates.py"
_WINDOW_JOIN = "trident/compiler/windows/window_joins.py"
_TIMERS, _SERVER = "trident/compiler/windows/timers.py", "tests/simulator/fake_redis.py"

OVER_TIME = [
    Fault(
        "interval join",
        "a tuple without a partner leaves again with each batch",
        _JOIN,
        "            return (clock.before < ends) & (ends <= clock.after)\n",
        "            return ends <= clock.after\n",
        flow="interval",
    ),
    Fault(
        "interval join",
        "it goes by the faster stream",
        _JOIN,
        "Clock(min(each.before for each in clocks), min(each.after for each in clocks))",
        "Clock(max(each.before for each in clocks), max(each.after for each in clocks))",
        flow="interval",
    ),
    Fault(
        "interval join",
        "tuples go that may still be a partner",
        _JOIN,
        "if start + kept <= clock.after]",
        "if start <= clock.after]",
        flow="interval",
    ),
    Fault(
        "window join",
        "a window leaves again with each batch",
        _WINDOW_JOIN,
        "starts[(clock.before < ends) & (ends <= clock.after)]",
        "starts[ends <= clock.after]",
        flow="window join",
    ),
    Fault(
        "window join",
        "it goes by the faster stream",
        _WINDOW_JOIN,
        "Clock(min(each.before for each in clocks), min(each.after for each in clocks))",
        "Clock(max(each.before for each in clocks), max(each.after for each in clocks))",
        flow="window join",
    ),
    Fault(
        "window join",
        "tuples go with the first of their windows",
        _WINDOW_JOIN,
        "panes[self._lattice.last_end(panes) <= clock.after]",
        "panes[panes + self._lattice.pane <= clock.after]",
        flow="window join",
    ),
    Fault(
        "window join",
        "a tuple for a window that closes with its batch stays away from it",
        _WINDOW_JOIN,
        "tuples = pa.concat_tables([old, new])",
        "tuples = pa.concat_tables([old, new.slice(0, 0)])",
        flow="window join",
    ),
    Fault(
        "window join",
        "a tuple with a partner leaves alone, too",
        _WINDOW_JOIN,
        "                alone[met] = False\n",
        "                alone[met[:0]] = False\n",
        flow="window join full",
    ),
    Fault(
        "late tuples",
        "a batch's own tuples make it late",
        _JOIN,
        "on_time(tables[number], clock.before)",
        "on_time(tables[number], clock.after)",
        flow="interval",
    ),
    Fault(
        "late tuples",
        "the stream of late tuples goes by the faster stream",
        "trident/compiler/windows/late_tuples.py",
        "before = min(watermark(stored)",
        "before = max(watermark(stored)",
        flow="interval",
    ),
    Fault(
        "watermark",
        "it goes back",
        "trident/compiler/windows/time_windows.py",
        "max(mark.watermark, min(max(latest - config.lateness, FIRST), LAST))",
        "min(max(latest - config.lateness, FIRST), LAST)",
        flow="recent,interval",
    ),
    Fault(
        "dedup",
        "a key that came again is forgotten by its former time",
        _DEDUP,
        "(until != NEVER) & (until < watermark)",
        "until != NEVER",
        flow="recent",
    ),
    Fault(
        "dedup",
        "a key is never forgotten",
        _DEDUP,
        "if (bucket + 1) * self._bucket <= watermark]",
        "if False]",
        flow="recent",
    ),
    Fault(
        "several aggregates",
        "the first one is combined twice",
        "state/trident_state/value_rules.py",
        '        combined(part, before, after, f"{where}: field',
        '        combined(part, before if at != 1 else combined(part, before, after), after, f"{where}: field',
        flow="several",
    ),
    Fault(
        "several aggregates",
        "the first and the last tuple are told by their places within the batches",
        "trident/operations/aggregates/ordered.py",
        "(batch < of_b) | ((batch == of_b) & (at < at_b))",
        "at < at_b",
        flow="several",
    ),
    Fault(
        "timers",
        "a timer fires again in each batch",
        _TIMERS,
        "            overlay.delete_timer(number, name)\n            key =",
        "            key =",
        flow="timers",
    ),
    Fault(
        "timers",
        "a timer fires that another one of its batch has removed",
        _TIMERS,
        "            if overlay.timer(number, name) != at:",
        "            if False:",
        flow="timers",
    ),
    Fault(
        "timers",
        "a timer fires in the batch after the one whose watermark reached it",
        _TIMERS,
        "self.clock.after if self.rest is None",
        "self.clock.before if self.rest is None",
        flow="timers",
    ),
    Fault(
        "timers",
        "the index of timers is not read again after a batch that failed",
        "trident/compiler/windows/open_windows.py",
        "        before, self._txid = self._txid, None",
        "        before, self._txid = self._txid, txid - 1",
        flow="timers",
    ),
    Fault(
        "timers",
        "a start does not know the timers that were set before it",
        "trident/compiler/windows/open_windows.py",
        "        if before != txid - 1:",
        "        if before not in (None, txid - 1):",
        flow="timers",
    ),
    Fault(
        "timers",
        "a put does not note when the timers of its key are due",
        _SERVER,
        "            self._note_dues(undo, keys[0], keys[-1], fields, argv[8])",
        "            pass",
        flow="timers",
    ),
    Fault(
        "timers by batch time",
        "a timer fires by the time of the try that computes it",
        "trident/commits/committer.py",
        "before = PreviousStates(self.stores, self._frozen,",
        "before = PreviousStates(self.stores, type('Now', (), {'time': lambda _, txid: self.clock.time()})(),",
        flow="reminders",
    ),
    Fault(
        "timers by batch time",
        "no batch is made for a timer while the source is silent",
        "trident/batches/attempt_runs.py",
        "None if due == math.inf else",
        "None if due >= 0 else",
        flow="reminders",
    ),
    Fault(
        "timers by batch time",
        "after a start nothing counts as due",
        "trident/commits/due_states.py",
        "return math.inf if birth.txid >= txid and not birth.filled else -math.inf",
        "return math.inf",
        flow="reminders",
    ),
    Fault(
        "timers by batch time",
        "a later timer fires before those that are left for the next batch",
        _TIMERS,
        "return self.clock.after if self.rest is None else min(self.clock.after, self.rest)",
        "return self.clock.after",
        flow="reminders",
    ),
    Fault(
        "timers by batch time",
        "the timers that are left wait for a tuple",
        _TIMERS,
        "            return AT_ONCE\n",
        "            return None\n",
        flow="reminders",
    ),
    Fault(
        "backfill",
        "the tuples that came after the last round are left out",
        "trident/run/backfill.py",
        "        run = self._read_up_to(pending)\n        return {name",
        "        run = self._run[1] if self._run is not None else self._read_up_to(pending)\n        return {name",
        flow="backfill",
    ),
    Fault(
        "backfill",
        "the positions of the first round stay",
        "trident/run/backfill.py",
        "            self._ends.update(positions)\n",
        "            self._ends = {**positions, **self._ends}\n",
        flow="backfill",
    ),
    Fault(
        "backfill",
        "only the first stream of a state is read again",
        "trident/recovery/backfills.py",
        "{stream: members.streams[stream].position for stream in streams}",
        "{stream: members.streams[stream].position for stream in streams[:1]}",
        flow="backfill",
    ),
    Fault(
        "backfill",
        "a state whose start died before it was founded is not filled again",
        "trident/recovery/backfills.py",
        "if name not in births or not births[name].founded}",
        "if name not in births}",
        flow="backfill",
    ),
    Fault(
        "backfill",
        "a content stays that a start recorded before the former program went on",
        "trident/recovery/acquisition.py",
        "goes_on = name in known_states or (birth == new and not filled)",
        "goes_on = True",
        flow="backfill",
    ),
    Fault(
        "backfill",
        "what waits for the former program is not committed first",
        "trident/run/backfill.py",
        "                backfill.commit_waiting(log)\n",
        "                pass\n",
        flow="backfill",
    ),
    Fault(
        "savepoint",
        "it is taken without the lease",
        "trident/run/savepoints.py",
        "        log.sync(context.begun.lease)\n",
        "        pass\n",
        flow=SAVEPOINTS,
    ),
    Fault(
        "savepoint",
        "batches go on while it is taken",
        "trident/run/savepoints.py",
        '            with self.switches.paused("savepoint", limit, "no savepoint was taken, and it continues"):\n',
        "            with contextlib.nullcontext():\n",
        flow=SAVEPOINTS,
    ),
    Fault(
        "savepoint",
        "the keys that changed while it was written keep their former values",
        "trident/run/savepoint_states.py",
        "for txid in range(since + 1, upto + 1):",
        "for txid in range(since + 2, upto + 1):",
        flow=SAVEPOINTS,
    ),
    Fault(
        "savepoint",
        "a key that changed since counts twice",
        "trident/recovery/savepoint.py",
        "table = parts[0] if not keys else _last_of_each(pa.concat_tables(parts), keys)",
        "table = parts[0] if not keys else pa.concat_tables(parts)",
        flow=SAVEPOINTS,
    ),
    Fault(
        "savepoint",
        "a page of a server that fell back counts",
        "state/trident_state/redis/store.py",
        "            check_reached(self._where, txids[-1], least)\n",
        "",
        flow=SAVEPOINTS,
    ),
    Fault(
        "savepoint",
        "a page without entries of a server that fell back counts",
        "state/trident_state/redis/reader.py",
        "max(page.num_rows, 1)",
        "page.num_rows",
        flow=SAVEPOINTS,
    ),
    Fault(
        "fork",
        "it begins at the beginning of its streams",
        "trident/access/forking.py",
        "return Members(streams, {}, self._saved.groups)",
        "return Members({}, {}, self._saved.groups)",
        flow=SAVEPOINTS,
    ),
    Fault(
        "fork",
        "its states are born without their content",
        "trident/access/forking.py",
        "self._log.born(lease, state, birth, frozen_content(self._settings, lease, birth, content))",
        "self._log.born(lease, state, birth)",
        flow=SAVEPOINTS,
    ),
    Fault(
        "fork",
        "a start does not ask whether it is complete",
        "trident/recovery/fork_origin.py",
        "    if not origin.complete:\n",
        "    if False:\n",
        flow=SAVEPOINTS,
    ),
    Fault(
        "fork",
        "it cannot be made again after a crash",
        "trident/access/forking.py",
        "if begun is None and log.groups():",
        "if log.groups():",
        flow=SAVEPOINTS,
    ),
    Fault(
        "restore",
        "its streams stay where they are",
        "trident/access/restored_streams.py",
        "        return saved.record\n",
        "        return known[name]\n",
        flow=SAVEPOINTS,
    ),
    Fault(
        "restore",
        "its states are born without their content",
        "trident/access/restoring.py",
        "            contents[name] = frozen_content(self._settings, lease, birth, content)\n",
        "            frozen_content(self._settings, lease, birth, content)\n",
        flow=SAVEPOINTS,
    ),
    Fault(
        "restore",
        "stores keep the values of an earlier life",
        "trident/recovery/incarnations.py",
        "    return any(group.lease is not None and group.lease.epoch < birth.epoch for group in report.groups)\n",
        "    return False\n",
        flow=SAVEPOINTS,
    ),
    Fault(
        "early results",
        "the row before a change is the one after it",
        "trident/compiler/windows/gathered_windows.py",
        "earlier = pc.not_equal(keys.column(BATCH), txid)",
        "earlier = pc.not_equal(keys.column(BATCH), -txid)",
        flow="early",
    ),
    Fault(
        "early results",
        "a late tuple changes the result of a window that has closed",
        "trident/compiler/windows/gathered_windows.py",
        "open_ = self._lattice.ends(starts) > clock.before",
        "open_ = starts > starts - 1",
        flow="early",
    ),
    Fault(
        "early results",
        "a session that entered another one stays",
        "trident/compiler/windows/session_windows.py",
        "[*former[1:], *former[:1]]",
        "former[:1]",
        flow="early",
    ),
]
"""The faults that the programs of `verbs.py` show."""

_META = "tests/simulator/fake_meta.py"
_WRITER = "state/trident_state/redis/writer.py"

BY_EXECUTORS = [
    Fault(
        "a zombie's task",
        "a put is not fenced by the lease",
        _META,  # as its script would
        '        if refused is not None:\n            return refused\n        return b"CLOSED"',
        '        return b"CLOSED"',
        flow=EXECUTORS,
    ),
    Fault(
        "a late task",
        "a put is done though its batch is not open",
        _META,
        'return b"CLOSED" if self.open != argv[2] else None',
        "return None",
        flow=EXECUTORS,
    ),
    Fault(
        "a doubled task",
        "a put that comes again counts again",
        "tests/simulator/records.py",
        "if t == self._txid:",
        "if False:",
        flow=EXECUTORS,
    ),
    Fault(
        "lost puts",
        "the number of keys is not compared at the commit",
        _SERVER,
        "        if moved != argv[3]:\n",
        "        if False:\n",
        flow=EXECUTORS,
    ),
    Fault(
        "lost puts",
        "puts that were confirmed and then lost end the run",
        _WRITER,
        "if moved < keys:",
        "if False:",
        flow=EXECUTORS,
    ),
    Fault(
        "a repeated turn",
        "a group that holds the batch is put into again",
        _WRITER,
        "return 0 if group in task.opened else None",
        "return 0",
        ("state/trident_state/redis/writer.py", "return self.opened is None or group in self.opened", "return True"),
        flow=EXECUTORS,
    ),
    Fault(
        "an asked state",
        "it is read as it stands, not as of the batch before",
        "state/trident_state/redis/open_snapshot.py",
        "reader.read(placed, self.asOf, self.lease, self.cutoff)",
        "reader.read(placed, None, self.lease, self.cutoff)",
        flow=f"{EXECUTORS},query",
    ),
    Fault(
        "a job that failed",
        "the parts that have reported are committed",
        "trident/compiler/spark/state_puts.py",
        "            if counted != part.rows:\n",
        "            if False:\n",
        ("tests/simulator/workers.py", "            job.error = error\n", "            job.tasks = len(job.reports)\n"),
        flow=EXECUTORS,
    ),
    Fault(
        "sessions",
        "nobody asks the state which keys are due",
        "trident/compiler/keyed_job.py",
        "(0 if self.clock is None else self.snapshot.groups)",
        "0",
        flow=f"{EXECUTORS},sessions",
    ),
    Fault(
        "sessions",
        "a put does not note when its key is due",
        _SERVER,
        "            self._note_dues(undo, keys[0], keys[-1], fields, argv[8])",
        "            pass",
        flow=f"{EXECUTORS},sessions",
    ),
    Fault(
        "sessions",
        "each task goes by the latest time of its own tuples",
        "trident/compiler/windows/time_windows.py",
        "    if batch.clock is not None:\n        return batch.clock\n",
        "    if batch.clock is not None:\n"
        "        return Clock(batch.clock.before, _after(config, batch.clock.before, latest, batch))\n",
        flow=f"{EXECUTORS},sessions",
    ),
    Fault(
        "files",
        "a start deletes the files of batches that wait",
        "trident/commits/committer.py",
        "folder not in named:",
        "True:",
        flow=EXECUTORS,
    ),
]
"""The faults that executors show which write and ask states."""


_TABLE, _COMPACTION = "state/trident_state/delta/table.py", "state/trident_state/delta/compaction.py"

IN_TABLES = [
    Fault(
        "a repeated batch",
        "a batch that the table has is written again",
        "state/trident_state/delta/store.py",
        "            if version.marker >= update.txid:\n                return Applied(read_again",
        "            if False:\n                return Applied(read_again",
        flow=DELTA,
    ),
    Fault(
        "a version that comes late",
        "a commit follows the last version, not the one that was checked",
        _TABLE,
        "            table = self._at(base.version)\n            table.create_write_transaction(",
        "            table = self._writer = self._open(None)\n            table.create_write_transaction(",
        flow=DELTA,
    ),
    Fault(
        "two merges",
        "two merges of the same files do not collide",
        _COMPACTION,
        "self._table.commit(base, {COMPACTIONS: count}, becomes",
        "self._table.commit(base, {}, becomes",
        flow=DELTA,
    ),
    Fault(
        "merge",
        "it takes the files of the last batch too",
        _COMPACTION,
        "    while runs and runs[-1][0].high >= marker:\n",
        "    while False:\n",
        (
            "state/trident_state/delta/past_files.py",
            "            if run[0].high <= txid:\n",
            "            if run[0].low <= txid:\n",
        ),
        flow=DELTA,
    ),
    Fault(
        "merge",
        "a removed value comes back from an older file",
        _COMPACTION,
        "    if not added and gone is None:\n        return keys, values, txids\n",
        "",
        flow=f"{DELTA},changes,upserts,stateful,recent,timers,sessions,interval",
    ),
    Fault(
        "merge",
        "a content counts as expired",
        _COMPACTION,
        "without_expired(values, txids, gone or 0)",
        "without_expired(values, txids + 1, (gone or 0) + 1)",
        flow=DELTA_CHANGING,
    ),
    Fault(
        "vacuum",
        "a merge that slept names files that were cleaned up",
        "state/trident_state/delta/vacuum.py",
        "{KEPT: kept, COMPACTIONS: merges, TAGS",
        "{KEPT: kept, TAGS",
        flow=DELTA,
    ),
    Fault(
        "vacuum",
        "the files of a batch under way are cleaned up",
        "state/trident_state/delta/vacuum.py",
        " if first_batch(name) <= version.marker]",
        "]",
        flow=f"{EXECUTORS},{DELTA}",
    ),
    Fault(
        "vacuum",
        "a file that was cleaned up during a read is damage",
        "state/trident_state/delta/store.py",
        "            if now is not None and version is not None and now.version == version.version:\n",
        "            if True:\n",
        flow=DELTA,
    ),
    Fault(
        "drop",
        "a merge that comes first leaves its files in the table",
        "state/trident_state/delta/store.py",
        "{DROPPED: 1, COMPACTIONS: merges, TAGS: 0, **lease_numbers(held)}",
        "{DROPPED: 1, TAGS: 0, **lease_numbers(held)}",
        flow=DELTA_CHANGING,
    ),
    Fault(
        "object store",
        "a look at the files of puts that fails ends the run",
        "state/trident_state/delta/shared_table.py",
        "    except SourceUnreadableError as error:\n        raise StateUnavailableError",
        "    except ZeroDivisionError as error:\n        raise StateUnavailableError",
        flow=f"{EXECUTORS},{DELTA}",
    ),
    Fault(
        "object store",
        "the last version is not looked for",
        _TABLE,
        "return self.folder.stamp(_commit(version + 1)) is None and ",
        "return ",
        flow=DELTA,
    ),
]
"""The faults that states in Delta tables show."""


def main(begins: str) -> int:
    asked = [fault for fault in [*FAULTS, *OVER_TIME, *BY_EXECUTORS, *IN_TABLES] if fault.name.startswith(begins)]
    print("| what happens | planted fault | found after schedules | what the first one said |\n|---|---|---|---|")
    lost = not asked
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        for name in COPIED:
            shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        for fault in asked:
            stale = [file for file, text, _ in fault.places if (ROOT / file).read_text().count(text) != 1]
            found = (f"its text is not in {stale[0]}", "") if stale else _looked(copy, fault)
            lost = lost or not found[0].isdigit()
            print(f"| {fault.of} | {fault.name} | {found[0]} | {found[1]} |", flush=True)
    return int(lost)


def _looked(copy: Path, fault: Fault) -> tuple[str, str]:
    """How many schedules it took, and the first wrong one's text. Schedules that are wrong without the fault too do not
    count."""
    first = 0
    while True:
        for file, text, instead in fault.places:  # both may be in one file
            (copy / file).write_text((copy / file).read_text().replace(text, instead))
        number, told = _in_process(copy, first, MOST, fault.flow)
        for file, *_ in fault.places:
            shutil.copyfile(ROOT / file, copy / file)
        if not number.isdigit() or not _in_process(copy, int(number) - 1, int(number), fault.flow)[0].isdigit():
            return number, told
        first = int(number)


def _in_process(copy: Path, first: int, until: int, flow: str) -> tuple[str, str]:
    """What a process finds whose sources are the copy."""
    paths = os.pathsep.join(str(copy / part) for part in ("", "state", "spouts"))
    command = [sys.executable, "-m", "tests.simulator.planted", "--look", str(first), str(until), flow]
    env = {**os.environ, "PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(command, cwd=copy, env=env, capture_output=True, text=True)
    number, _, text = done.stdout.strip().partition(" ")
    return number or "failed", text or done.stderr[-300:]


def look(first: int, until: int, flow: str) -> None:
    """Run schedules until one is wrong: of these unchanging programs, or of programs that change."""
    for begin in range(first, until, _AT_ONCE):
        wrong = some(range(begin, min(until, begin + _AT_ONCE)), every=0 if flow else 1, flow=flow).wrong
        if wrong:
            seed = min(wrong)
            print(seed + 1, wrong[seed].replace("\n", " ")[:160])
            return
    print(f"not-in-{until}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--look"]:
        look(int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
        sys.exit(0)
    sys.exit(main(" ".join(sys.argv[1:])))
