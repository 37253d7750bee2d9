"""The fields of a state's value as queries see them."""

from pyspark.sql.types import StructField, StructType

from trident.base.errors import TypeDeclarationError
from trident.base.verb_call import Step
from trident.plan import nodes
from trident.plan.state_schema import function_of, shown_type, value_of


def shown_fields(held: nodes.HeldState, step: Step) -> StructType:
    """Return the fields of a state's value as queries see it: the struct's fields, or one field. All are nullable."""
    kind = shown_type(held)
    if kind is None:
        raise step.error(
            TypeDeclarationError,
            f"the type of the values is not declared: queries get the result of {function_of(held)}; annotate the "
            "return type of present(acc)",
        )
    return nullable_fields(
        kind if isinstance(kind, StructType) else StructType([StructField(value_of(held).name, kind)])
    )


def nullable_fields(fields: StructType) -> StructType:
    """Return the same fields as nullable fields."""
    return StructType([StructField(field.name, field.dataType) for field in fields.fields])
