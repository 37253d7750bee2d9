"""The processes of this machine, from /proc where there is one, else from ps: a small machine may lack that."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")


@dataclass(frozen=True)
class Process:
    """A process: its state as ps names it (T stopped, Z ended and not yet waited for), and its command line."""

    pid: int
    parent: int
    state: str
    command: str


def processes() -> dict[int, Process]:
    """All of them, by id."""
    if (_PROC / "self" / "stat").exists():
        ids = (int(entry.name) for entry in _PROC.iterdir() if entry.name.isdigit())
        return {pid: process for pid in ids if (process := _from_proc(pid))}
    return {process.pid: process for process in _from_ps("-A")}


def state_of(pid: int) -> str:
    """Return the state of a process; empty if it does not exist."""
    if (_PROC / "self" / "stat").exists():
        found = _from_proc(pid)
        return found.state if found else ""
    return next((process.state for process in _from_ps("-p", str(pid))), "")


def stop(pid: int) -> None:
    """Send SIGSTOP, and return when every thread of the process stands still: on a busy machine that takes a while."""
    os.kill(pid, signal.SIGSTOP)
    while state_of(pid) != "T" or any(state != "T" for state in _states_of_threads(pid)):
        time.sleep(0.001)


def _states_of_threads(pid: int) -> Iterator[str]:
    """Yield the states of a process's threads; none where the machine has no /proc."""
    for stat in (_PROC / str(pid) / "task").glob("*/stat"):
        with suppress(OSError):  # the thread has ended
            yield stat.read_text().rpartition(") ")[2][0]


def descendants(pid: int) -> dict[int, str]:
    """Return the command lines of all descendants of a process, by process id."""
    there = processes()
    found: dict[int, str] = {}
    parents = {pid}
    while parents:
        children = {each.pid: each.command for each in there.values() if each.parent in parents}
        found |= children
        parents = set(children)
    return found


def cpu_seconds() -> float:
    """Return the CPU time of this process and of its descendants so far, with those that have ended; needs /proc."""
    ticks = 0
    for pid in (os.getpid(), *descendants(os.getpid())):
        with suppress(OSError):  # it has ended meanwhile: its parent has its time
            fields = (_PROC / str(pid) / "stat").read_text().rpartition(") ")[2].split()
            ticks += sum(map(int, fields[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def _from_proc(pid: int) -> Process | None:
    with suppress(OSError):
        state, parent, *_ = (_PROC / str(pid) / "stat").read_text().rpartition(") ")[2].split()
        command = (_PROC / str(pid) / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
        return Process(pid, int(parent), state, command)
    return None


def _from_ps(*which: str) -> Iterator[Process]:
    told = subprocess.run(["ps", *which, "-ww", "-o", "pid=,ppid=,stat=,args="], capture_output=True, text=True).stdout
    for line in told.splitlines():
        pid, parent, state, *command = line.split(None, 3)
        yield Process(int(pid), int(parent), state[0], command[0] if command else "")
