"""Let the asserts of the log contract tell what they compared, though its module is imported and not collected."""

import pytest

pytest.register_assert_rewrite("tests.log.log_contract")
