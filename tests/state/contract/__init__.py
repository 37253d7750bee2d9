"""What every store must do, as tests over the `Store` protocol. A store's own tests subclass `StoreContract`:

    class TestMemoryStore(StoreContract):
        @pytest.fixture
        def place(self, tmp_path) -> Place: ...

`Place` says what a place is.
"""

from tests.state.contract.expiring import ExpiryContract
from tests.state.contract.model import ModelContract
from tests.state.contract.place import FIRST, SECOND, Place, Setting
from tests.state.contract.reading import ReadContract
from tests.state.contract.starting import StartContract
from tests.state.contract.values import ValueContract
from tests.state.contract.writing import WriteContract


class StoreContract(StartContract, WriteContract, ReadContract, ValueContract, ModelContract):
    """All of it. (`ExpiryContract` is for those that can be told how long values live.)"""


__all__ = ["FIRST", "SECOND", "ExpiryContract", "Place", "Setting", "StoreContract"]
