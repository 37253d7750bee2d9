"""Functions of pandas Series and DataFrames, recognized by annotations, as in PySpark's ``pandas_udf``."""

import inspect
import sys
import typing
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from trident.base.errors import TypeDeclarationError
from trident.base.verb_call import Step
from trident.operations.annotations import LAZY, annotated_function, resolve_annotation
from trident.operations.functions import Call

Kind = Literal["Series", "DataFrame"]

_ACCEPTED = "f(a: pd.Series, b: pd.Series) -> pd.Series, f(df: pd.DataFrame) -> pd.DataFrame, or a mix of both"


@dataclass(frozen=True, slots=True)
class PandasForm:
    """The annotations of a function of pandas objects.

    `takes` is "Series" for one Series per field, "DataFrame" for one DataFrame of all fields. `gives` is None if the
    function returns one value for all tuples; then `value` is the annotation of that value.
    """

    takes: Kind
    gives: Kind | None
    value: Any = None

    @property
    def call(self) -> Call:
        """How the function is called."""
        return Call.SERIES if self.takes == "Series" else Call.PANDAS_FRAME


def read_pandas_form(target: Any, step: Step) -> PandasForm | None:
    """Return the form of a function of pandas objects; None for every other function.

    Raises TypeDeclarationError if only some of the annotations name pandas classes.
    """
    read = _read_annotations(target)
    if read is None:
        return None
    parameters, returned = read
    kinds = {name: _kind(hint) for name, hint in parameters.items()}
    gives = _kind(returned)
    _check_no_iterator((*parameters.values(), returned), step)
    if gives is None and not any(kinds.values()):
        return None
    _check_all_of_pandas(kinds, returned, step)
    takes: Kind = "DataFrame" if "DataFrame" in kinds.values() else "Series"
    return PandasForm(takes, gives, None if gives else returned)


def _check_no_iterator(hints: Iterable[Any], step: Step) -> None:
    if any(_of_pandas(hint) for hint in hints if _iterates(hint)):
        problem = (
            "it takes or returns an Iterator of pandas objects, but is called with one slice of the tuples at a time"
        )
        hint = "take and return the objects themselves; create resources once in the prepare(context) of an object"
        raise step.error(TypeDeclarationError, f"{problem}: {hint}")


def _check_all_of_pandas(kinds: Mapping[str, Kind | None], returned: Any, step: Step) -> None:
    other = [name for name, kind in kinds.items() if kind is None]
    if other or not kinds:
        listed = ", ".join(map(repr, other)) or "its parameters"
        raise step.error(
            TypeDeclarationError,
            f"some of its annotations are pandas classes, but {listed} not: annotate every parameter and the return "
            f"type, such as {_ACCEPTED}",
        )
    if returned is inspect.Signature.empty:
        raise step.error(
            TypeDeclarationError,
            "it takes pandas objects, but its return type is not annotated: write -> pd.Series or -> pd.DataFrame "
            "(one row for each tuple), or, for an aggregate, the type of its one value, such as -> float",
        )
    if "DataFrame" in kinds.values() and len(kinds) > 1:
        problem = "a DataFrame contains all input fields, so it must be the only parameter"
        raise step.error(TypeDeclarationError, f"{problem}: write {_ACCEPTED}")


def _read_annotations(target: Any) -> tuple[dict[str, Any], Any] | None:
    """Return the annotations of the parameters that a call fills, and of the result."""
    function = annotated_function(target)
    written: dict[str, Any] = getattr(function, "__annotations__", {})
    if not written:
        return None
    try:
        signature = inspect.signature(target)
    except (TypeError, ValueError):  # a builtin without a signature
        return None
    hints = {name: _resolved(function, hint) for name, hint in written.items()}
    empty = inspect.Signature.empty
    parameters = {
        name: hints.get(name, empty)
        for name, parameter in signature.parameters.items()
        if parameter.default is parameter.empty and parameter.kind is not parameter.VAR_KEYWORD
    }
    optional = {name: hints[name] for name in signature.parameters if name in hints and _kind(hints[name])}
    return parameters | optional, hints.get("return", empty)


def _resolved(function: Any, hint: Any) -> Any:
    """Return the object that an annotation names, or its text if it cannot be evaluated.

    pandas classes take no type arguments at run time: only type checkers can evaluate ``pd.Series[int]``.
    """
    if not isinstance(hint, str):
        return hint
    try:
        return resolve_annotation(function, hint)
    except Exception:  # the text may hold any expression, so its evaluation may raise anything
        head = _without_arguments(hint)
        if head == hint:
            return hint
        resolved = _resolved(function, head)
        return resolved if _kind(resolved) else hint


def _without_arguments(hint: str) -> str:
    """Return ``pd.Series`` for ``pd.Series[int]``. The annotation may be quoted twice."""
    return hint.strip("'\" ").partition("[")[0]


def _kind(hint: Any) -> Kind | None:
    """Return whether an annotation is a pandas Series or DataFrame; None if it is neither."""
    if isinstance(hint, str):  # pandas may be imported for type checkers only
        return _BY_TEXT.get(_without_arguments(hint))
    # without pandas there is no such annotation, nor while another thread imports it
    pandas = sys.modules.get("pandas")
    kinds: tuple[Kind, ...] = typing.get_args(Kind)
    return next((kind for kind in kinds if hint is not None and hint is getattr(pandas, kind, None)), None)


_BY_TEXT: dict[str, Kind] = {f"{module}{kind}": kind for module in ("pd.", "pandas.") for kind in typing.get_args(Kind)}


def _iterates(hint: Any) -> bool:
    return typing.get_origin(hint) in LAZY


def _of_pandas(hint: Any) -> bool:
    """Return whether an annotation contains a class of pandas, such as ``Iterator[tuple[pd.Series, ...]]``."""
    return _kind(hint) is not None or any(_of_pandas(inner) for inner in typing.get_args(hint))
