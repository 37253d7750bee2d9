"""Tests of writeDelta, which read tables back with the package deltalake."""

import pytest

pytest.importorskip("deltalake", reason="tests of writeDelta need the package deltalake")
