"""The layers of configuration, and the value of each option of a start after all layers."""

import logging
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trident.base.errors import TopologyError
from trident.base.names import did_you_mean
from trident.configuration.file import DEFAULT_FILE, ConfigurationFile, check_value, read_file
from trident.configuration.start_options import OUTSIDE

logger = logging.getLogger(__name__)

PREFIX = "TRIDENT_START_"
"""The beginning of the environment variables of options: TRIDENT_START_MAX_ATTEMPTS is maxAttempts."""

FILE = "TRIDENT_CONFIG"
"""The variable that names the file. If it is empty, no file is read."""

PROFILE = "TRIDENT_PROFILE"
"""The variable that names the profile."""

DEFAULT = "default"
"""The layer of values that no file, variable or call sets."""


@dataclass(frozen=True, slots=True)
class Configured:
    """The value of an option, and the layer from which it comes."""

    value: Any
    layer: str


def variable_of(option: str) -> str:
    """Return the environment variable of an option.

    >>> variable_of("maxAttempts")
    'TRIDENT_START_MAX_ATTEMPTS'
    """
    return PREFIX + re.sub(r"(?<!^)(?=[A-Z])", "_", option).upper()


def configured(
    topology: str, profile: str | None = None, environment: Mapping[str, str] | None = None
) -> dict[str, Configured]:
    """Return each option of a start with its value from the defaults, the file and the environment.

    Parameters
    ----------
    topology : the name of the topology, for which the file may have a separate table. profile : the profile of the file
    that applies; None: the profile that the environment or the file names. environment : the environment variables;
    None: those of this process.

    Raises
    ------
    TopologyError
        A layer has an unknown key or profile, or a value that the option does not accept. The message names the layer.

    >>> configured("wordcount", environment={"TRIDENT_START_MAX_ATTEMPTS": "3"})["maxAttempts"]
    Configured(value=3, layer='TRIDENT_START_MAX_ATTEMPTS')
    """
    variables = os.environ if environment is None else environment
    values = {name: Configured(option.default, DEFAULT) for name, option in OUTSIDE.items()}
    file = _file(variables)
    profile = profile or variables.get(PROFILE) or (file.default_profile if file else None)
    if file is None and profile is not None:
        raise TopologyError(
            f"profile {profile!r}: there is no {DEFAULT_FILE} in the working directory; {FILE}= can name another file"
        )
    for section, table in file.sections(topology, profile) if file else ():
        where = f"{file.path}, {section}" if file else section
        values |= {name: Configured(check_value(where, name, value), where) for name, value in table.items()}
    return values | _from_environment(variables)


def _file(variables: Mapping[str, str]) -> ConfigurationFile | None:
    """Return the file that the environment names, otherwise the default file, otherwise None.

    A named file must exist.
    """
    named = variables.get(FILE)
    if named is not None:
        return read_file(Path(named)) if named else None
    path = Path(DEFAULT_FILE)
    return read_file(path) if path.is_file() else None


def _from_environment(variables: Mapping[str, str]) -> dict[str, Configured]:
    options = {variable_of(name): name for name in OUTSIDE}
    values = {}
    for variable, text in variables.items():
        if not variable.startswith(PREFIX):
            continue
        if variable not in options:
            raise TopologyError(
                f"the environment variable {variable} sets no option{did_you_mean(variable, options)}; "
                f"the options are {', '.join(options)}"
            )
        name = options[variable]
        value = check_value(f"the environment variable {variable}", name, OUTSIDE[name].of_text(text))
        values[name] = Configured(value, variable)
    return values


_OMITTED_BY_NONE = ("engine", "name", "checkpointLocation")
"""The options for which None means that the call leaves them out."""


def with_configured(call: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a call of `start`, and the other options that the file or the environment sets."""
    given = {option: value for option, value in call.items() if value is not None or option not in _OMITTED_BY_NONE}
    name = given.get("name", "topology")
    values = configured(name) if isinstance(name, str) else {}  # `start` refuses a value that is not a name
    beside = {option: each for option, each in values.items() if each.layer != DEFAULT and option not in given}
    for option, each in beside.items():
        logger.info("topology %r: %s=%r from %s", name, option, each.value, each.layer, extra={"topology": name})
    return {option: each.value for option, each in beside.items()} | given
