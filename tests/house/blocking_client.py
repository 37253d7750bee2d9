"""Writes the clients that block from the clients for asyncio, in `trident_client` and in `trident/client`.

To run it: ``python -m tests.house.blocking_client``. The two clients differ only in the words of `_WORDS`, so only one
of them is written by hand. `test_blocking_client.py` fails while the written file is another one.
"""

import re
from pathlib import Path

from tests.house.sources import ROOT

FILES = {
    ROOT / "trident_client" / "async_client.py": ROOT / "trident_client" / "client.py",
    ROOT / "trident" / "client" / "async_drpc_client.py": ROOT / "trident" / "client" / "drpc_client.py",
}
"""The files that are written by hand, each with the one that is written from it."""

_HEADER = (
    '"""DRPCClient: a client for the DRPC functions and states of a topology that a server answers over HTTP.\n\n'
    "`python -m tests.house.blocking_client` writes this file from `{}`. Change that one.\n"
    '"""'
)

_WORDS = {
    r"import asyncio\nfrom": "import time\nfrom",
    r"( *>>> )import asyncio\n": "",
    r"asyncio\.run\((.*?)\)\)$": r"\1)",
    r"asyncio\.sleep": "time.sleep",
    r"Many tasks of one event loop may use it at once": "Any thread may use it",
    r"One task at a time": "One thread at a time",
    r"AsyncGenerator, AsyncIterator, Iterable": "Generator, Iterable, Iterator",
    r"\b(async|await) ": "",
    r"\bAsync(?=[A-Z])": "",
    r"\basync_(?=client)": "",
    r"\banext\(": "next(",
    r"__a(enter|exit|next)__": r"__\1__",
    r"\ba(close|read|iter_bytes)\b": r"\1",
}
"""Patterns of the source, and their texts in the target, in the order in which they are replaced."""


def blocking(file: Path) -> str:
    """Return the text of the client that blocks, for the file of the other one."""
    source = file.read_text(encoding="utf-8")
    text = source
    for pattern, word in _WORDS.items():
        text = re.sub(pattern, word, text, flags=re.MULTILINE)
    # Last, because it names the source by words that are replaced.
    return re.sub(r'\A""".*?"""', lambda _: _HEADER.format(file.name), text, count=1, flags=re.DOTALL)


if __name__ == "__main__":
    for written, target in FILES.items():
        target.write_text(blocking(written), encoding="utf-8")
