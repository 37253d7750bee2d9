"""Notebook cells: the cell run in progress, the names of cells in messages, short tracebacks."""

import linecache
import os
import sys
import traceback
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class CellRun:
    """One run of a notebook cell.

    `cell` is the front end's id of the cell. If the front end sends none, it is the cell's source text; an edited cell
    then counts as another cell.
    """

    cell: str
    request: str
    """The id of the front end's request to run the cell. It is different for each run."""
    number: int
    """The number that the front end shows beside the cell."""

    def __str__(self) -> str:
        return f"In[{self.number}]"


def current_run() -> CellRun | None:
    """Return the cell run in progress; None outside a notebook."""
    shell = _shell()
    if shell is None or not hasattr(shell, "get_parent"):  # IPython in a terminal has no cells
        return None
    request = shell.get_parent()
    cell = request.get("metadata", {}).get("cellId") or request.get("content", {}).get("code", "")
    return CellRun(cell, request.get("header", {}).get("msg_id", ""), shell.execution_count)


def is_cell(file: str) -> bool:
    """Return whether the file name of a code object belongs to a notebook cell."""
    folder, name = os.path.split(file)
    return os.path.basename(folder).startswith("ipykernel_") or name.startswith("<ipython-input")


def cell_name(file: str) -> str:
    """Return the name of a cell as tracebacks show it, such as ``In[3]``; "cell" for a cell of another process."""
    shell = _shell()
    label = None if shell is None else shell.compile.format_code_name(file)
    return "cell" if label is None else str(label[1])


def short_traceback(error: BaseException) -> list[str]:
    """Return the lines that a notebook shows for an error of this library: the error, the user's line, the cause."""
    shell = _shell()
    if shell is not None and getattr(shell.InteractiveTB, "mode", "") == "Verbose":
        return traceback.format_exception(error)
    lines = [f"{type(error).__name__}: {error}"]
    for frame, number in reversed([*traceback.walk_tb(error.__traceback__)]):
        file = frame.f_code.co_filename
        if is_cell(file):
            source = linecache.getline(file, number, frame.f_globals).strip()
            lines.append(f"  at {cell_name(file)} line {number}: {source}")
            break
    if error.__cause__ is not None:
        lines.append(f"  cause: {type(error.__cause__).__name__}: {next(iter(str(error.__cause__).splitlines()), '')}")
    return [*lines, "  (%xmode Verbose, and then %tb, shows the whole traceback)"]


def _shell() -> Any:
    """Return IPython's shell; None if this Python runs outside IPython."""
    if "IPython" not in sys.modules:
        return None
    from IPython import get_ipython

    return get_ipython()
