"""Checks of the options for reading values, and of the options that a FileSpout has for one format only."""

from typing import get_args
from zoneinfo import ZoneInfo

from pyspark.sql.types import ArrayType, MapType, StructType

from trident.base.checks import check_choice
from trident.base.errors import TopologyError, TypeDeclarationError
from trident.base.types import type_ddl
from trident_spouts.files.csv_rows import CsvOptions
from trident_spouts.files.values import Numbers


def check_options(format: str, csv: CsvOptions, numbers: str, timeZone: str | None) -> None:
    """Raise TopologyError if an option is wrong, or is not an option of the format."""
    _check_signs(csv)
    check_values("FileSpout", numbers, timeZone)
    changed = [name for name, value in vars(csv).items() if value != getattr(CsvOptions, name)]
    if changed and format != "csv":
        raise TopologyError(f"FileSpout: {changed[0]}= is an option of format='csv', and the format is {format!r}")
    given = [name for name, value in (("numbers", numbers != "strict"), ("timeZone", timeZone)) if value]
    if given and format not in ("json", "csv"):
        raise TopologyError(
            f"FileSpout: {given[0]}= is an option of format='json' and format='csv', and the format is {format!r}"
        )


def _check_signs(csv: CsvOptions) -> None:
    for name, sign in (("sep", csv.sep), ("quote", csv.quote), ("escape", csv.escape or csv.quote or "x")):
        empty = name == "quote" and sign == ""
        if not isinstance(sign, str) or not (empty or (len(sign) == 1 and sign.isascii() and sign not in "\r\n\0")):
            raise TopologyError(
                f"FileSpout: {name}={sign!r}: expected one character of ASCII that is no newline"
                f"{', or the empty text for values that are never quoted' if name == 'quote' else ''}"
            )
    if csv.sep in (csv.quote, csv.escape):
        raise TopologyError(f"FileSpout: sep={csv.sep!r} is the {'quote' if csv.sep == csv.quote else 'escape'} too")
    for name, flag in (("header", csv.header), ("multiLine", csv.multiLine)):
        if not isinstance(flag, bool):
            raise TopologyError(f"FileSpout: {name}={flag!r}: expected True or False")
    if not isinstance(csv.nullValue, str):
        raise TopologyError(f"FileSpout: nullValue={csv.nullValue!r}: expected a text, such as 'NA'")


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
                f"{field.name!r}; declare it as a string, and read the string with each(...)"
            )
