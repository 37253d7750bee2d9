"""Secrets that a program names but does not contain; see `trident_client.secrets`."""

from trident_client.secrets import *  # noqa: F403
