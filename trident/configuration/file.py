"""The configuration file: TOML with options for all topologies, for one topology, and for each profile.

defaultProfile = "dev"

[start]                               # every topology
maxAttempts = 3

[topologies.wordcount]                # the topology of this name
maxSpoutPending = 4

[user]                                # the user configuration, of every topology
region = "eu"

[topologies.wordcount.user]
region = "us"

[spouts.orders]                       # the spout of the stream of this name
maxOffsetsPerBatch = 1000

[profiles.prod.start]                 # every topology, under this profile
requireExactlyOnce = true

[profiles.prod.topologies.wordcount]
checkpointLocation = "/data/checkpoint"
"""

import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trident.base.errors import TopologyError
from trident.base.names import did_you_mean
from trident.base.user_config import check_user_values
from trident.configuration.options_elsewhere import elsewhere
from trident.configuration.start_options import OUTSIDE

DEFAULT_FILE = "trident.toml"
"""The file that is read in the working directory, unless another file is named."""

SPOUTS = "spouts"
"""The option that may also be a table of the file: ``[spouts.orders]`` is ``[start.spouts.orders]``."""

USER = "user"
"""The table of the user configuration."""

_OF_PROFILE = ("start", SPOUTS, "topologies", USER)
_SECTIONS = ("defaultProfile", "profiles", *_OF_PROFILE)


@dataclass(frozen=True, slots=True)
class ConfigurationFile:
    """A file that was read and checked: its path, and the tables in it."""

    path: Path
    content: Mapping[str, Any]

    @property
    def default_profile(self) -> str | None:
        return self.content.get("defaultProfile")

    def sections(self, topology: str, profile: str | None) -> list[tuple[str, Mapping[str, Any]]]:
        """Return the tables of options for a topology, each with its name. A later table outranks an earlier table.

        Raises TopologyError if the file has no such profile.
        """
        tables = self._tables(profile)
        found = [(f"[{prefix}start]", content.get("start", {})) for prefix, content in tables]
        found += [(f"[{prefix}{SPOUTS}]", {SPOUTS: content[SPOUTS]}) for prefix, content in tables if SPOUTS in content]
        for prefix, content in tables:
            table = content.get("topologies", {}).get(topology, {})
            own = {option: value for option, value in table.items() if option != USER}
            found.append((f"[{prefix}topologies.{topology}]", own))
        return found

    def user_sections(self, topology: str, profile: str | None) -> list[tuple[str, Mapping[str, Any]]]:
        """Return the tables of the user's configuration for a topology, in the order of `sections`."""
        tables = self._tables(profile)
        of_all = [(f"[{prefix}{USER}]", content.get(USER, {})) for prefix, content in tables]
        of_one = [
            (f"[{prefix}topologies.{topology}.{USER}]", content.get("topologies", {}).get(topology, {}).get(USER, {}))
            for prefix, content in tables
        ]
        return of_all + of_one

    def _tables(self, profile: str | None) -> list[tuple[str, Mapping[str, Any]]]:
        """Return the whole file, and the tables of a profile, each with the beginning of its tables' names."""
        profiles = self.content.get("profiles", {})
        if profile is not None and profile not in profiles:
            known = f"its profiles are {', '.join(profiles)}" if profiles else "it has no profiles"
            raise TopologyError(f"{self.path} has no profile {profile!r}{did_you_mean(profile, profiles)}; {known}")
        return [("", self.content), *([] if profile is None else [(f"profiles.{profile}.", profiles[profile])])]


def read_file(path: Path) -> ConfigurationFile:
    """Return the configuration in a file.

    Raises TopologyError if the file cannot be read, is not TOML, or has a key or a value that no option takes.
    """
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise TopologyError(f"the configuration {path} cannot be read: {reason}") from None
    _check_keys(f"{path}", content, _SECTIONS)
    profile = content.get("defaultProfile")
    if not isinstance(profile, str | None):
        raise TopologyError(f"{path}: defaultProfile={profile!r}: expected the name of a profile")
    _check_sections(path, "", content)
    for name, tables in _table(path, "profiles", content.get("profiles", {})).items():
        prefix = f"profiles.{name}."
        _check_keys(f"{path}, [profiles.{name}]", _table(path, f"profiles.{name}", tables), _OF_PROFILE)
        _check_sections(path, prefix, tables)
    return ConfigurationFile(path, content)


def _check_sections(path: Path, prefix: str, content: Mapping[str, Any]) -> None:
    """Check every option in the tables "start", "topologies" and "user" of `content`."""
    check_user_values(f"{path}, [{prefix}{USER}]", content.get(USER, {}))
    tables = {"start": content.get("start", {})}
    if SPOUTS in content:
        check_value(f"{path}, [{prefix}{SPOUTS}]", SPOUTS, content[SPOUTS])
    topologies = _table(path, f"{prefix}topologies", content.get("topologies", {}))
    tables |= {f"topologies.{name}": table for name, table in topologies.items()}
    for name, table in tables.items():
        where = f"{path}, [{prefix}{name}]"
        options = dict(_table(path, f"{prefix}{name}", table))
        if name != "start":
            check_user_values(f"{where[:-1]}.{USER}]", options.pop(USER, {}))
        _check_keys(where, options, OUTSIDE)
        for option, value in options.items():
            check_value(where, option, value)


def check_value(where: str, option: str, value: Any) -> Any:
    """Return the value of an option in the form that `start` accepts.

    Raises TopologyError; its message says `where` the value is written.
    """
    try:
        return OUTSIDE[option].kind.read(option, value)
    except TopologyError as error:
        raise TopologyError(f"{where}: {error}") from None


def _table(path: Path, name: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise TopologyError(f"{path}: {name} is {value!r}; expected a table, [{name}]")
    return value


def _check_keys(where: str, table: Mapping[str, Any], known: Collection[str]) -> None:
    for key in table:
        if key not in known and (hint := elsewhere(key, tuple(OUTSIDE)) if known is OUTSIDE else None):
            raise TopologyError(f"{where}: there is no {key!r}: {hint}")
        if key not in known:
            raise TopologyError(
                f"{where}: there is no {key!r}{did_you_mean(key, known)}; the options are {', '.join(known)}"
            )
