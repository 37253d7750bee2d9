"""The contract's asserts tell what they compared, though its module is imported and not collected."""

import pytest

pytest.register_assert_rewrite("tests.runtime.log_contract")
