"""Programs that run beside a measurement, in processes of their own, until it is over."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from benchmarks.check import WrongAnswerError


@dataclass
class Program:
    """A program that runs beside: the first line that it printed, and, after the block, all others."""

    first: str
    rest: str = ""


@contextmanager
def beside(module: str, *arguments: str) -> Iterator[Program]:
    """Run a module of the benchmarks until the end of the block, when its standard input ends.

    Raises WrongAnswerError if it prints no first line.
    """
    command = [sys.executable, "-m", f"benchmarks.{module}", *arguments]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None and process.stdout is not None
        program = Program(process.stdout.readline().rstrip("\n"))
        if not program.first:
            raise WrongAnswerError(f"benchmarks.{module} did not start")
        yield program
        process.stdin.close()
        program.rest = process.stdout.read()
