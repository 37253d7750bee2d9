"""Values and texts as errors show them; see `trident_client.short_texts`."""

from trident_client.short_texts import *  # noqa: F403
