"""Every error that a user can get. They are those of the client, whose package depends on nothing."""

from trident_client.errors import *  # noqa: F403
