"""Packages that only some features need."""

import importlib
from typing import Any

from trident.base.errors import MissingPackageError


def optional_package(module: str, extra: str, need: str) -> Any:
    """Return a module. Raises MissingPackageError if it is not installed: `need` names the feature that needs it.

    >>> optional_package("json", "", "").dumps([1])
    '[1]'
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingPackageError(f"{need}: pip install 'trident-pyspark[{extra}]'") from error
