"""Delta tables, written by the package deltalake."""

import pytest

pytest.importorskip("deltalake", reason="tests of DeltaSpout need the package deltalake")
