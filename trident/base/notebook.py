"""Notebook cells; see `trident_client.notebook`."""

from trident_client.notebook import *  # noqa: F403
