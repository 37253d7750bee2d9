"""Checks of the options by which text is read as values."""

from typing import get_args
from zoneinfo import ZoneInfo

from pyspark.sql.types import ArrayType, MapType, StructType

from trident.base.argument_checks import check_choice
from trident.base.errors import TopologyError, TypeDeclarationError
from trident.base.spark_types import type_ddl
from trident_spouts.files.value_conversion import Numbers


def check_values(spout: str, numbers: str, zone: str | None) -> None:
    """Raise TopologyError, with the name of the spout, if an option of `ValueReader` is wrong."""
    check_choice(f"{spout}: numbers", numbers, get_args(Numbers))
    try:
        if zone is not None:
            ZoneInfo(zone)
    except (KeyError, TypeError, ValueError, OSError):
        raise TopologyError(f"{spout}: timeZone={zone!r}: expected a zone's name, such as 'Europe/Berlin'") from None


def check_flat(source: str, fields: StructType) -> None:
    """Raise TypeDeclarationError, with the name of the source, if a field has a nested type."""
    for field in fields.fields:
        if isinstance(field.dataType, ArrayType | MapType | StructType):
            raise TypeDeclarationError(
                f"{source} has no values of type {type_ddl(field.dataType)}, the type of "
                f"{field.name!r}; declare it as a string, and convert the string with each(...)"
            )
