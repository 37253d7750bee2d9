"""Every error of this library, to be caught: ``from trident.errors import StateLostError``."""

from trident.base.errors import *  # noqa: F403
