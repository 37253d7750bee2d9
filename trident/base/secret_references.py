"""Secrets that a program names but does not contain; see `trident_client.secret_references`."""

from trident_client.secret_references import *  # noqa: F403
