"""A kit for tests of topologies, stores and spouts: ``from trident.testing import TestSource, start_local``.

- `TestSource`: a source made of a list of batches, with marks (`FAIL`, `CRASH`, `PAUSE`, `END`) between them;
- `TestOutput`: an output that keeps every batch that it gets;
- `start_local`: a run without Spark; `run_through`: a run that is started again after each crash; `engines`: a pytest
  fixture that runs each test on each engine;
- `ManualClock`: a clock that stops until the test moves it;
- `crash_at`, `kill_at`, `CRASH_POINTS`: drivers that crash at a chosen point of the commit protocol;
- `StoreContract`, `ExpiryContract`, `SpoutContract`, `SourceContract` (with `ChangingSource`), `QueueContract` (with
  `MessageQueue`), `OutputContract` (with `OutputPlace`): the requirements of every store, spout and output, as tests to
  inherit.

A name is imported when it is first used, because some need more packages: the contracts pytest and hypothesis (the
extra ``testing``), `engines` pytest. The other names need neither.
"""

from trident.base.lazy_names import lazy_names
from trident.base.names import did_you_mean

__getattr__, __dir__, __all__ = lazy_names(__name__, lambda name: did_you_mean(name, __all__))
