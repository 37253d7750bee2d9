"""A place of files that refuses everything."""

import pytest

from trident.errors import FilesError
from trident.files.store import FileStore


def refusals(place: FileStore, kind: type[FilesError], said: str) -> None:
    """Expect an error of this kind, with this text, from each method that writes, reads or lists."""
    with pytest.raises(kind, match=said):
        place.create("one", b"1")
    with pytest.raises(kind, match=said), place.writer("one") as file:
        file.write(b"1")
    with pytest.raises(kind, match=said):
        place.read("one")
    with pytest.raises(kind, match=said):
        list(place.files())
    with pytest.raises(kind, match=said):
        place.folders("")
