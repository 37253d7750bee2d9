"""The tags of a state, stored in a file of its table. A tag lists the data files of the state as of its txid.

The record has the number of the current tags file, so tags change with a version of the table. The list of files makes
a tag independent of later merges: no footer of a replaced file is needed.
"""

import secrets

import msgspec

from trident.base.discard_advice import RESTORE
from trident.base.errors import StateCorruptError
from trident.files.delta_folder import TableFolder
from trident_state.delta.data_files import DataFile, file_of, make_durable
from trident_state.tags import StateTag

_NUMBER_BITS = 48
_PREFIX = "_tags-"
"""The prefix of file names that Delta cleaners of other programs leave alone."""


class TaggedFiles(StateTag, frozen=True):
    """A tag, and the paths and sizes of the data files with the rows up to its txid."""

    files: tuple[tuple[str, int], ...] = ()

    def data_files(self, where: str) -> tuple[DataFile, ...]:
        """Return the data files, in the order of their batches."""
        return tuple(sorted(file_of(path, size, where) for path, size in self.files))


class TagSet(msgspec.Struct, frozen=True):
    """The tags in one version of a state's table, and the number of their file (0: no file)."""

    number: int = 0
    tags: tuple[TaggedFiles, ...] = ()

    def named(self, name: str) -> TaggedFiles | None:
        """Return the tag of this name; None if there is none."""
        return next((tag for tag in self.tags if tag.name == name), None)

    def at(self, txid: int) -> TaggedFiles | None:
        """Return a tag of this txid; None if there is none."""
        return next((tag for tag in self.tags if tag.txid == txid), None)

    @property
    def paths(self) -> set[str]:
        """The paths of the data files that the tags need."""
        return {path for tag in self.tags for path, _ in tag.files}


NO_TAGS = TagSet()


def is_tag_file(name: str) -> bool:
    """Return whether a file of the table's folder holds tags.

    >>> is_tag_file("_tags-0000000000ab.json"), is_tag_file("3-5_0-65535_12_7_0000000000ab_x.parquet")
    (True, False)
    """
    return name.startswith(_PREFIX)


def path_of_tags(number: int) -> str:
    """Return the path of the tags file with this number.

    >>> path_of_tags(171)
    '_tags-0000000000ab.json'
    """
    return f"{_PREFIX}{number:012x}.json"


def write_tags(folder: TableFolder, tags: tuple[TaggedFiles, ...]) -> TagSet:
    """Write tags into a new file, whose number the next version records. On a local disk it is durable."""
    number = secrets.randbits(_NUMBER_BITS - 1) + 1
    with folder.output(path_of_tags(number)) as sink:
        sink.write(msgspec.json.encode({"tags": tags}))
    make_durable(folder, path_of_tags(number))
    return TagSet(number, tags)


def read_tags(folder: TableFolder, number: int, known: TagSet, where: str) -> TagSet | None:
    """Return the tags in the file with this number; None if it is missing. `known` tags are not read again."""
    if number == known.number:
        return known
    if not number:
        return NO_TAGS
    content = folder.read(path_of_tags(number))
    if content is None:
        return None
    try:
        return TagSet(number, msgspec.json.decode(content, type=dict[str, tuple[TaggedFiles, ...]])["tags"])
    except (msgspec.MsgspecError, KeyError) as error:
        raise StateCorruptError(
            f"{where}: the file {path_of_tags(number)} of its table is damaged: {error}. {RESTORE}"
        ) from None
