"""Evidence about files that a stream read long ago, which reveals new and changed files among them.

For the latest of these files the stream keeps checksums of name and content, with length and inode. For the earlier
files it keeps only their number, one checksum over all of them, and the time of the latest change of a file at the last
check.
"""

import hashlib
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from trident_spouts.files.file_ranges import tag_checksum
from trident_spouts.files.storage import ListedFile

KNOWN_BY_CHECKSUM = 3
"""The number of forgotten files whose checksums the log keeps, for each remembered file."""

_NAME, _PROOF = 6, 4
"""The sizes (bytes) of the checksums of a name and of a content."""


class Known(NamedTuple):
    """One forgotten file: its inode (0: none), the number of bytes that were read, and their checksum."""

    inode: int
    end: int
    proof: int
    """The `digest` of the content, or for an object the checksum of its ETag; 0 if it is not known."""

    def fits(self, file: ListedFile) -> bool:
        """Return whether `file` may be this file, unchanged. An object is compared by its ETag."""
        same_tag = not file.tag or tag_checksum(file.tag) == self.proof
        return file.size == self.end and self.inode in (0, file.inode) and same_tag


class Sums(NamedTuple):
    """Three checksums of a listed file: of its name, of its name and status, and of its inode and status."""

    name: int
    status: int
    inode: int

    @classmethod
    def of(cls, file: ListedFile) -> "Sums":
        inode = _sum(f"{file.inode}\0{file.size}\0{file.mtime}") if file.inode else 0
        return cls(_sum(file.name), _sum(f"{file.name}\0{file.size}\0{file.mtime}\0{file.tag}"), inode)


class Fingerprint(NamedTuple):
    """The number of files in a set, and two checksums over their sizes and times, for any order of the files.

    One checksum includes the names of the files, the other includes their inodes.
    """

    number: int = 0
    names: int = 0
    inodes: int = 0

    def plus(self, sums: Sequence["Sums"]) -> "Fingerprint":
        """Return the fingerprint of these files and of the files with the checksums `sums`."""
        names = self.names + sum(each.status for each in sums)
        inodes = self.inodes + sum(each.inode for each in sums)
        return Fingerprint(self.number + len(sums), names % (1 << 8 * _NAME), inodes % (1 << 8 * _NAME))

    def fits(self, other: "Fingerprint") -> bool:
        """Return whether two fingerprints belong to the same files; the files may all be renamed, or all copied."""
        return self.names == other.names or (self.number == other.number and 0 < self.inodes == other.inodes)


class Look(NamedTuple):
    """The result of a check of files without an entry."""

    late: frozenset[str]
    """The names of new files whose sort order says that they were read."""

    suspects: Mapping[str, Known]
    """The evidence of files whose content must be compared, by their present names."""

    doubtful: tuple[ListedFile, ...]
    """The files for which it is not known whether, or up to which byte, they were read."""

    guesses: str = ""
    """The assumption on which this result is based, in words; empty if there is none."""


def _guesses(new: bool, counted: Sequence[ListedFile], undated: bool) -> str:
    """Return the assumptions about files that were read long ago, some of which are gone; "" if there are none.

    `new` files are read, although they may have been read before. `counted` files count as read, although one may be
    new: they are `undated`, or objects whose time may be the beginning of the upload.
    """
    guesses = list[str]()
    if new:
        guesses.append(f"a new file that has the name of a removed one{', or was touched,' * undated} is read")
    if counted and (undated or any(file.tag for file in counted)):
        guesses.append("a new file whose time is as old as theirs counts as read")
    return f"some of them were removed, and {' and '.join(guesses)}" if guesses else ""


@dataclass(frozen=True, slots=True)
class Forgotten:
    """The evidence of files that were read and have no entry any more."""

    known: dict[int, Known] = field(default_factory=dict)
    """The latest of these files, by the checksum of the name, the oldest first."""

    more: bool = False
    """True if even earlier files were read, which are covered only by the common checksum."""

    born: int = 0
    """The latest birth (ms) of a forgotten file."""

    present: Fingerprint = Fingerprint()
    """The fingerprint of the files that counted as read at the last check."""

    changed: int = 0
    """The latest change (ns) of any file that was listed at the last check."""

    summed: dict[ListedFile, Sums] = field(default_factory=dict, compare=False, repr=False)
    """The checksums of the files that counted as read at the last check, and perhaps of other files, for use at the
    next check."""

    complete: bool = field(default=True, compare=False)
    """True if the names of all files that counted as read at the last check are known. The log does not record this."""

    def plus(self, files: Iterable[tuple[str, Known, int]], present: Iterable[ListedFile]) -> "Forgotten":
        """Return the evidence after more files were forgotten, each with its name and its birth.

        `present` are those of these files that still exist.
        """
        files, there = list(files), list(present)
        known = {**self.known, **{_sum(name): known for name, known, _ in files}}
        born = max([self.born, *(born for *_, born in files)])
        changed = max([self.changed, *(file.changed for file in there)])
        return replace(self, known=known, born=born, present=self.present.plus(self._sums(there)), changed=changed)

    def _sums(self, files: Sequence[ListedFile]) -> list[Sums]:
        """Return the checksums of files."""
        summed = self.summed
        return [summed.get(file) or summed.setdefault(file, Sums.of(file)) for file in files]

    def knows(self, name: str) -> bool:
        """Return whether a file with this name was read."""
        return _sum(name) in self.known

    def gone(self, listing: Sequence[ListedFile]) -> int:
        """Return how many of the known files are not in a listing. A renamed file is found by its inode."""
        names, inodes = {_sum(file.name) for file in listing}, {file.inode for file in listing if file.inode}
        return sum(name not in names and known.inode not in inodes for name, known in self.known.items())

    # --- the check of listed files --------------------------------------------------------------------------------

    def look(
        self, past: Sequence[ListedFile], unread: Sequence[ListedFile], birth: Callable[[ListedFile], int]
    ) -> Look:
        """Check all listed files without an entry.

        `past` sort before the last file that was read, `unread` after it.
        """
        suspects, doubtful = dict[str, Known](), list[ListedFile]()
        unknown, unproved = list[ListedFile](), list[ListedFile]()
        inodes = {known.inode: known for known in self.known.values() if known.inode}
        sums = self._sums(past)
        for file, each in zip(past, sums, strict=True):
            known = self._known(file, each, inodes, birth)
            if known is None:
                unknown.append(file)
            elif not known.fits(file) or (self._is_fresh(file) and not file.tag):
                if known.proof:
                    suspects[file.name] = known
                else:
                    unproved.append(file)
        for file, each in zip(unread, self._sums(unread), strict=True):
            known = self._known(file, each, inodes, birth)
            if known is not None and known.proof:
                suspects[file.name] = known
            elif known is not None:
                doubtful.append(file)
        if not self.more:
            return Look(frozenset(file.name for file in unknown), suspects, (*doubtful, *unproved))
        arrived = [file for file in unread if self._is_fresh(file) and file.name not in suspects]
        if self.present.fits(Fingerprint().plus(sums)):
            guess = f"{len(unproved)} of them were changed but have their old sizes and times" if unproved else ""
            return Look(frozenset(), suspects, tuple(doubtful), guess)
        return self._look_far_back(past, unknown, unproved, arrived, birth, suspects, doubtful)

    def _look_far_back(
        self,
        past: Sequence[ListedFile],
        unknown: Sequence[ListedFile],
        unproved: Sequence[ListedFile],
        arrived: Sequence[ListedFile],
        birth: Callable[[ListedFile], int],
        suspects: Mapping[str, Known],
        doubtful: Sequence[ListedFile],
    ) -> Look:
        """Check files if some of them were read too long ago to have a separate record, and some have changed.

        If some files are gone and no other file has changed since the last check, no file was added. Otherwise it is
        unknown whether a file was added. A place without inodes and tags (HDFS) does not know when a file came. If it
        has no fewer files than at the last check, one was added.
        """
        undated = any(not file.inode and not file.tag for file in unknown)
        came = [file for file in unknown if self.complete or self._is_fresh(file)]
        if not came and len(past) >= self.present.number + (not undated):
            came = list(unknown)
        old = [] if self.complete else [file for file in arrived if file.inode and 0 < birth(file) <= self.born]
        new = not self.complete and len(arrived) > len(old)
        guesses = _guesses(new, () if came else unknown, undated)
        return Look(frozenset(), suspects, (*doubtful, *unproved, *came, *old), guesses)

    def _known(
        self, file: ListedFile, sums: Sums, inodes: Mapping[int, Known], birth: Callable[[ListedFile], int]
    ) -> Known | None:
        """Return the record of a file, by its name, or by its inode if it is as old as a forgotten file."""
        known = self.known.get(sums.name)
        if known is None and file.inode in inodes and birth(file) <= self.born:
            return inodes[file.inode]
        return known

    def _is_fresh(self, file: ListedFile) -> bool:
        """Return whether a file may have changed since the last check. Object stores give times in whole seconds."""
        return not file.changed or file.changed > self.changed - bool(file.tag)

    def looked(self, past: Sequence[ListedFile], listing: Iterable[ListedFile], late: frozenset[str]) -> "Forgotten":
        """Return the evidence after a check, in which no file is in doubt or all doubtful files count as read.

        While late files wait to be read, the time of the last change is not updated, because later checks notice these
        files by it.
        """
        read = [file for file in past if file.name not in late] if late else past
        sums = self._sums(read)
        there = zip(read, sums, strict=True)
        new = {each.name: Known(file.inode, file.size, 0) for file, each in there if each.name not in self.known}
        changed = self.changed if late else max((file.changed for file in listing), default=0)
        return replace(
            self,
            known={**new, **self.known} if new else self.known,
            present=Fingerprint().plus(sums),
            changed=max(self.changed, changed),
            summed=self.summed if len(self.summed) <= 2 * len(read) else dict(zip(read, sums, strict=True)),
            complete=True,
        )

    def rebased(self, past: Iterable[ListedFile], old_name: Callable[[ListedFile], str | None]) -> "Forgotten":
        """Return the evidence for another root.

        `old_name` returns the name that a file has under the old root; None if it is elsewhere.
        """
        old = {file.name: name for file in past if (name := old_name(file)) is not None}
        there = [file for file in past if file.name in old and (self.more or self.knows(old[file.name]))]
        again = {_sum(file.name): self.known[_sum(old[file.name])] for file in there if self.knows(old[file.name])}
        former = [file._replace(name=old[file.name]) for file in there]
        same = self.present.fits(Fingerprint().plus(self._sums(former)))
        present = Fingerprint().plus(self._sums(there)) if same else self.present
        return replace(self, known={**self.known, **again}, present=present)

    # --- as metadata ----------------------------------------------------------------------------------------------

    def to_json(self, most: int) -> list[Any]:
        """Return the evidence as JSON, with the records of the `most` latest files."""
        kept = list(self.known.items())[-most:]
        sums = b"".join(name.to_bytes(_NAME) + known.proof.to_bytes(_PROOF) for name, known in kept)
        inodes = [known.inode for _, known in kept]
        steps = [inode - before for inode, before in zip(inodes, [0, *inodes], strict=False)]
        more = int(self.more or len(kept) < len(self.known))
        ends = [known.end for _, known in kept]
        return [b64encode(sums).decode(), steps, ends, more, self.born, *self.present, self.changed]

    @classmethod
    def of_json(cls, evidence: Sequence[Any]) -> "Forgotten":
        """Return the evidence from `to_json`."""
        text, steps, ends, more, born, *present, changed = evidence
        sums, known, inode, size = b64decode(text), dict[int, Known](), 0, _NAME + _PROOF
        for at, (step, end) in enumerate(zip(steps, ends, strict=True)):
            inode += step
            name, proof = sums[at * size : at * size + _NAME], sums[at * size + _NAME : (at + 1) * size]
            known[int.from_bytes(name)] = Known(inode, end, int.from_bytes(proof))
        return cls(known, bool(more), born, Fingerprint(*present), changed, complete=not more)


def _sum(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "surrogateescape"), digest_size=_NAME).digest())
