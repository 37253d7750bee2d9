"""The fields of a dead letter, and the updater that keeps dead letters in a state."""

from collections.abc import Sequence
from typing import Any

from pyspark.sql.types import StructType

from trident.base.argument_checks import check_whole_number
from trident.base.spark_types import parse_schema

LETTER: StructType = parse_schema(
    "id string, stream string, step string, function string, error string, message string, tuple string, txid long, "
    "attempt int"
)
"""The fields of a dead letter.

`id` identifies the letter. `stream` and `step` locate the failure. `function` names the function with its
file and line, `error` the class of the error; `message` is the error's text. `tuple` is the tuple that entered the
step, as a JSON object by field. `txid` and `attempt` say in which attempt the function failed.
"""


class KeepLetters:
    """A StateUpdater for `partitionPersist` that keeps the newest dead letters in a state, at most `most`.

    The key is the letter's id, which grows with the txid.
    """

    keyFields = "id string"
    valueType = StructType([field for field in LETTER.fields if field.name != "id"])

    def __init__(self, most: int = 10_000) -> None:
        self.most = check_whole_number("most", most)

    def updateState(self, state: Any, tuples: Sequence[Any], collector: Any) -> None:
        """Store the batch's new letters.

        Remove the letters that the batch replays, and the oldest letters beyond `most`.
        """
        # A replayed letter has only its id; its other fields are null.
        step = LETTER.names.index("step")
        new = [tuple(letter) for letter in tuples if letter[step] is not None]
        state.multiPut([letter[0] for letter in new], [letter[1:] for letter in new])
        state.multiRemove([letter[0] for letter in tuples if letter[step] is None])
        ids = sorted(key for (key,) in state.getKeys())  # not getTuples: the values are large and not needed
        if len(ids) > self.most:
            state.multiRemove(ids[: len(ids) - self.most])
