"""``trident config``: the options of a start, and the layer from which each has its value."""

import dataclasses
from typing import Any

import click

from trident.base.user_config import shown_value
from trident.cli.output import format_option, show
from trident.configuration.layers import configured, user_values


@click.command()
@click.option("--name", default="topology", show_default=True, help="The topology, which may have its own table.")
@click.option("--profile", envvar="TRIDENT_PROFILE", help="The profile of the file. [env: TRIDENT_PROFILE]")
@format_option
def config(name: str, profile: str | None, form: str | None) -> None:
    """Show the options of a start, each with its value and source (a default, trident.toml, the environment).

    Arguments of start() in the program outrank all of these. Secrets are not shown.
    """
    rows = [
        {"option": option, "value": _shown(option, each.value), "from": each.layer}
        for option, each in configured(name, profile).items()
    ]
    rows += [
        {"option": f"user.{key}", "value": shown_value(key, each.value), "from": each.layer}
        for key, each in user_values(name, profile).items()
    ]
    show(rows, ["option", "value", "from"], form)


def _shown(option: str, value: Any) -> Any:
    """Return a value in JSON form, without passwords."""
    return repr(value) if dataclasses.is_dataclass(value) else shown_value(option, value)
