"""The types of options with possibly secret values. Other users of the machine see a command line.

Each option that may take a secret has one of these types; `tests/cli/test_secrets.py` checks all commands.
"""

from typing import TYPE_CHECKING, Any

import click

from trident.base.errors import TopologyError
from trident.base.redis_address import redacted
from trident.base.secret_references import SOURCES
from trident.configuration.value_kinds import pairs_of

if TYPE_CHECKING:
    Text = click.ParamType[str]
else:
    Text = click.ParamType  # the lowest allowed version of click takes no type arguments

_SEEN = "other users of the machine can see a command line; write env:NAME or file:path"


class Secret(Text):
    """A secret, given as ``env:NAME`` or ``file:path``."""

    name = "secret"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the value. Fails, without showing it, if it is the secret itself."""
        if not value.startswith(SOURCES):
            self.fail(_SEEN, param, ctx)
        return value


class SecretUrl(Text):
    """A url. A url that contains a password may come from the environment, but not from the command line."""

    name = "url"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the value. Fails, without showing it, if it has a password that others could see."""
        source = None if ctx is None or param is None else ctx.get_parameter_source(str(param.name))
        if redacted(value) != value and source is click.core.ParameterSource.COMMANDLINE:
            self.fail(f"the url has a password, and {_SEEN} that contains the url", param, ctx)
        return value


class Setting(Text):
    """A setting ``name=value``; the value may be a url."""

    name = "name=value"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the setting. Fails, without showing its value, if the value is a url with a password."""
        name, _, text = value.partition("=")
        if "://" in text and redacted(text) != text:
            self.fail(f"the url of {name} has a password, and {_SEEN} that contains the url", param, ctx)
        return value


class StorageOptions(Text):
    """Options of an object store, ``name=value,name=value``. A secret is given as ``env:NAME`` or ``file:path``."""

    name = "name=value,..."

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the options. Fails, without showing the value, if a value is a secret itself."""
        from trident.files.object_options import Storage

        try:
            Storage.of(pairs_of(value), "--files-storage")
        except TopologyError as error:
            self.fail(str(error), param, ctx)
        return value
