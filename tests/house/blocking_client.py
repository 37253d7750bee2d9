"""Writes `trident/client/drpc_client.py`, the client that blocks, from `async_drpc_client.py`.

To run it: ``python -m tests.house.blocking_client``. The two clients differ only in the words of `_WORDS`, so only one
of them is written by hand. `test_blocking_client.py` fails while the written file is another one.
"""

import re

from tests.house.sources import ROOT

SOURCE = ROOT / "trident" / "client" / "async_drpc_client.py"
TARGET = ROOT / "trident" / "client" / "drpc_client.py"

_HEADER = (
    '"""DRPCClient: a client for the DRPC functions and states of a topology that a server answers over HTTP.\n\n'
    "`python -m tests.house.blocking_client` writes this file from `async_drpc_client.py`. Change that one.\n"
    '"""'
)

_WORDS = {
    r"import asyncio\nfrom": "import time\nfrom",
    r"( *>>> )import asyncio\n": "",
    r"asyncio\.run\((.*?)\)\)$": r"\1)",
    r"asyncio\.sleep": "time.sleep",
    r"Many tasks of one event loop may ask at once": "Any thread may ask",
    r"One task at a time": "One thread at a time",
    r"AsyncGenerator, AsyncIterator, Iterable": "Generator, Iterable, Iterator",
    r"\b(async|await) ": "",
    r"\bAsync(?=[A-Z])": "",
    r"\banext\(": "next(",
    r"__a(enter|exit|next)__": r"__\1__",
    r"\ba(close|read|iter_lines)\b": r"\1",
}
"""Patterns of the source, and their texts in the target, in the order in which they are replaced."""


def blocking(source: str) -> str:
    """Return the text of the client that blocks."""
    text = re.sub(r'\A""".*?"""', lambda _: _HEADER, source, count=1, flags=re.DOTALL)
    for pattern, word in _WORDS.items():
        text = re.sub(pattern, word, text, flags=re.MULTILINE)
    return text


if __name__ == "__main__":
    TARGET.write_text(blocking(SOURCE.read_text(encoding="utf-8")), encoding="utf-8")
