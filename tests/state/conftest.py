"""The contract's asserts tell what they compared, though its modules are imported and not collected."""

import pytest

pytest.register_assert_rewrite("tests.state.contract")
