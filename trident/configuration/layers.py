"""The layers of configuration, and the value of each option of a start after all layers."""

import logging
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trident.base.errors import TopologyError
from trident.base.names import did_you_mean
from trident.base.user_config import UserConfig, shown_value
from trident.configuration.file import DEFAULT_FILE, ConfigurationFile, check_value, read_file
from trident.configuration.start_options import OUTSIDE

logger = logging.getLogger(__name__)

PREFIX = "TRIDENT_START_"
"""The beginning of the environment variables of options: TRIDENT_START_MAX_ATTEMPTS is maxAttempts."""

USER_PREFIX = "TRIDENT_USER_"
"""The beginning of the environment variables of the user configuration."""

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
    file, profile = _file_and_profile(variables, profile)
    for section, table in file.sections(topology, profile) if file else ():
        where = f"{file.path}, {section}" if file else section
        _add(values, {name: Configured(check_value(where, name, value), where) for name, value in table.items()})
    return _add(values, _from_environment(variables))


def _add(values: dict[str, Configured], later: Mapping[str, Configured]) -> dict[str, Configured]:
    """Put the options of a later layer into `values`, and return it."""
    for name, each in later.items():
        before, value = values[name], OUTSIDE[name].kind.joined(values[name].value, each.value)
        both = before.layer != DEFAULT and value != each.value
        values[name] = Configured(value, f"{before.layer}; {each.layer}" if both else each.layer)
    return values


def _file_and_profile(variables: Mapping[str, str], profile: str | None) -> tuple[ConfigurationFile | None, str | None]:
    file = _file(variables)
    profile = profile or variables.get(PROFILE) or (file.default_profile if file else None)
    if file is None and profile is not None:
        raise TopologyError(
            f"profile {profile!r}: there is no {DEFAULT_FILE} in the working directory; {FILE}= can name another file"
        )
    return file, profile


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


def user_values(
    topology: str, profile: str | None = None, environment: Mapping[str, str] | None = None
) -> dict[str, Configured]:
    """Return the values of the user configuration in the file and the environment; see `configured`.

    A variable sets the key of the file with the same letters, or else the key in camelCase. A text becomes a number or
    a boolean if the file has one for the key.

    >>> user_values("wordcount", environment={"TRIDENT_USER_MAX_PRICE": "3"})
    {'maxPrice': Configured(value='3', layer='TRIDENT_USER_MAX_PRICE')}
    """
    variables = os.environ if environment is None else environment
    file, profile = _file_and_profile(variables, profile)
    values: dict[str, Configured] = {}
    for section, table in file.user_sections(topology, profile) if file else ():
        where = f"{file.path}, {section}" if file else section
        values |= {key: Configured(value, where) for key, value in table.items()}
    keys = {_letters(key): key for key in values}
    for variable, text in variables.items():
        if variable.startswith(USER_PREFIX) and (letters := _letters(variable.removeprefix(USER_PREFIX))):
            key = keys.get(letters) or _camel_case(variable.removeprefix(USER_PREFIX))
            value = _as_before(variable, text, values[key]) if key in values else text
            values[key] = Configured(value, variable)
    return values


def user_config(topology: str) -> UserConfig:
    """Return the user configuration of a topology, as far as the file and the environment set it."""
    return UserConfig({key: each.value for key, each in user_values(topology).items()})


def _letters(name: str) -> str:
    return name.replace("_", "").lower()


def _camel_case(name: str) -> str:
    first, *others = filter(None, name.lower().split("_"))
    return first + "".join(each.capitalize() for each in others)


_OF_TEXT: Mapping[type, Callable[[str], Any]] = {
    str: str,
    int: int,
    float: float,
    bool: lambda text: {"true": True, "false": False}[text.lower()],
}


def _as_before(variable: str, text: str, before: Configured) -> Any:
    """Return a text of the environment as a value of the type that the file has."""
    kind = type(before.value)
    if kind not in _OF_TEXT:
        raise TopologyError(f"{variable}: {before.layer} has a {kind.__name__} here, which a variable cannot replace")
    try:
        return _OF_TEXT[kind](text)
    except (KeyError, ValueError):
        shown = shown_value(variable, text)
        raise TopologyError(f"{variable}={shown!r}: expected a {kind.__name__}, as in {before.layer}") from None


def given_user(topology: str, call: Mapping[str, Any]) -> dict[str, Any]:
    """Return the option `user` of a call with the values of the file and the environment; nothing if there are none."""
    own = call.get("user") or {}
    if not isinstance(own, Mapping):  # `start` refuses it
        return {}
    beside = user_values(topology)
    taken = {_letters(key) for key in own}
    values = {key: each for key, each in beside.items() if _letters(key) not in taken}
    for key, each in values.items():
        shown = shown_value(key, each.value)
        logger.info("topology %r: user.%s=%r from %s", topology, key, shown, each.layer, extra={"topology": topology})
    return {"user": {key: each.value for key, each in values.items()} | dict(own)} if values else {}


_OMITTED_BY_NONE = ("engine", "name", "checkpointLocation")
"""The options for which None means that the call omits them."""


def with_configured(call: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a call of `start`, and the other options that the file or the environment sets."""
    given = {option: value for option, value in call.items() if value is not None or option not in _OMITTED_BY_NONE}
    name = given.get("name", "topology")
    user = given_user(name, given) if isinstance(name, str) else {}
    values = configured(name) if isinstance(name, str) else {}  # `start` itself refuses a value that is not a name
    beside = {}
    for option, each in values.items():
        value = joined(option, each.value, given)
        if each.layer == DEFAULT or (option in given and value == given[option]):
            continue
        shown = shown_value(option, each.value)
        logger.info("topology %r: %s=%r from %s", name, option, shown, each.layer, extra={"topology": name})
        beside[option] = value
    return given | beside | user


def joined(option: str, value: Any, later: Mapping[str, Any]) -> Any:
    """Return the value of an option after a later layer that may also have the option."""
    return OUTSIDE[option].kind.joined(value, later[option]) if option in later else value
