"""Names as users write them, and suggestions for misspelt ones; see `trident_client.names`."""

from trident_client.names import *  # noqa: F403
