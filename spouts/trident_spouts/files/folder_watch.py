"""Watch: the rules by which a FileSpout handles a folder in which files appear and change."""

from dataclasses import dataclass
from typing import get_args

from trident.base.argument_checks import check_choice, check_whole_number
from trident.base.descriptions import described, keep
from trident.base.durations import Duration, read_seconds
from trident.base.option_names import known_options
from trident_spouts.files.file_recognition import OnForgotten
from trident_spouts.files.read_files import REMEMBERED


@dataclass(frozen=True, init=False, repr=False)
class Watch:
    """The rules by which a FileSpout watches its files: when a file is complete, and how many read files it remembers.

    Parameters
    ----------
    completeAfterSecs : duration
        A file that was modified less than this time ago (seconds, ``"1 minute"``, a timedelta) counts as still being
        written: files of lines are read up to the last whole line; Parquet and compressed files are not read yet. With
        0 a file counts as complete as soon as it appears (most writers move finished files into the folder).
    rememberedFiles : int
        The number of read files that are remembered one by one. For earlier files the stream keeps evidence by which it
        notices a new file and a changed file among them.
    onForgotten : "fail" or "skip"
        The reaction to a file that may have been read, wholly or in part, long ago. "fail" raises SpoutContractError.
        With "skip" it counts as read, and a warning names it: new data in it is lost.

    Examples
    --------
    >>> Watch(completeAfterSecs="1 minute", rememberedFiles=5_000)
    Watch(completeAfterSecs=60, rememberedFiles=5000)
    """

    completeAfterSecs: float
    rememberedFiles: int
    onForgotten: OnForgotten

    @known_options({"maxFileAge": "files are read regardless of their age; onForgotten='skip' skips doubtful ones"})
    def __init__(
        self, *, completeAfterSecs: Duration = 0, rememberedFiles: int = REMEMBERED, onForgotten: OnForgotten = "fail"
    ) -> None:
        check_whole_number("Watch: rememberedFiles", rememberedFiles)
        check_choice("Watch: onForgotten", onForgotten, get_args(OnForgotten))
        complete = read_seconds("Watch: completeAfterSecs", completeAfterSecs, zero=True)
        keep(self, completeAfterSecs=complete, rememberedFiles=rememberedFiles, onForgotten=onForgotten)

    __repr__ = described
