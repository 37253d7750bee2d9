"""Pools of threads, where a signal interrupts the caller."""

import threading
from typing import Any

import pytest

from trident.user_calls.daemon_threads import Threads


def test_a_pool_closes_though_a_signal_came_before_its_thread_began(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(self: Any) -> None:
        raise SystemExit(0)

    threads = Threads("pool", most=1)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", interrupted)
        with pytest.raises(SystemExit):
            threads.submit(print)
    assert threads.close(1.0)
