"""The contracts of stores, spouts and outputs, as pytest classes to inherit. They need pytest and hypothesis."""

from trident.base.errors import MissingPackageError

try:
    import hypothesis  # noqa: F401
    import pytest
except ImportError as error:
    raise MissingPackageError(
        f"the contracts of trident.testing are pytest classes, and {error.name} is not installed: "
        f"pip install 'trident-pyspark[testing]'"
    ) from error

# pytest rewrites the asserts of collected modules only. With this line, asserts of these imported modules also show the
# compared values.
_CONTRACTS = ("outputs", "queues", "sources", "spouts", "stores")
pytest.register_assert_rewrite(*(f"{__name__}.{contract}" for contract in _CONTRACTS))
