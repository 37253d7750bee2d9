"""Durations as users write them; see `trident_client.durations`."""

from trident_client.durations import *  # noqa: F403
