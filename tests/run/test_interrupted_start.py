"""Ctrl-C in the last step of a start, which starts the threads of the run."""

import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tests.access.small_topologies import counting, fixed
from trident import active, openState
from trident.testing import start_local


@pytest.mark.parametrize("before", [False, True], ids=["after", "before"])
@pytest.mark.parametrize("name", ["trident-watch", "trident-words"])
def test_a_run_that_is_interrupted_while_its_threads_start_ends(
    name: str, before: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start, hit = threading.Thread.start, list[str]()

    def interrupted(thread: threading.Thread) -> None:
        struck = thread.name == name and not hit
        if not (struck and before):
            start(thread)
        if struck:
            hit.append(name)
            raise KeyboardInterrupt

    where: dict[str, Any] = {"name": "wc", "checkpointLocation": tmp_path}
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", interrupted)
        began = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            start_local(counting(fixed(["a"], ["a", "b"])), **where)
    assert hit and not active() and time.monotonic() - began < 10
    with start_local(counting(fixed(["a"], ["a", "b"])), **where) as running:
        running.processAllAvailable(timeout=20)
    with openState("wc", "counts", tmp_path) as counts:
        assert dict(counts.items()) == {"a": 2, "b": 1}
