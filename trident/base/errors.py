"""All errors that a user can get. They are those of the client, whose package has no dependencies."""

from trident_client.errors import *  # noqa: F403
