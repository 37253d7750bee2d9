"""What every store and every spout must do, as pytest classes to inherit. They need pytest and hypothesis."""

from trident.base.errors import MissingPackageError

try:
    import hypothesis  # noqa: F401
    import pytest
except ImportError as error:
    raise MissingPackageError(
        f"the contracts of trident.testing are pytest classes, and {error.name} is not installed: "
        f"pip install 'trident-pyspark[testing]'"
    ) from error

# Their asserts then say what they compared, though these modules are imported and not collected.
pytest.register_assert_rewrite("trident.testing.contracts.stores", "trident.testing.contracts.spouts")
