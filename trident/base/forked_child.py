"""Connections and locks in a forked child; see `trident_client.forked_child`."""

from trident_client.forked_child import *  # noqa: F403
