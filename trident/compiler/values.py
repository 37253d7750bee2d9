"""Python values and Arrow columns. They live in `trident.base.values`, because spouts and states need them too."""

from trident.base.values import NotAccepted, conform, exact_type, to_arrow, to_python, type_name

__all__ = ["NotAccepted", "conform", "exact_type", "to_arrow", "to_python", "type_name"]
