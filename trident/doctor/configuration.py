"""The file trident.toml and the environment variables of options."""

from collections.abc import Iterable

from trident.base.errors import TopologyError
from trident.base.finding import Finding
from trident.configuration.layers import configured
from trident.configuration.start_options import checked
from trident.doctor.examined_setup import ExaminedSetup


def configuration(setup: ExaminedSetup) -> Iterable[Finding]:
    """Check for unknown options, wrong values and unknown profiles."""
    matters = "a start is refused, so that no option is ignored"
    try:
        configured(setup.name, setup.profile, setup.environment)
        checked(setup.given)
    except TopologyError as error:
        todo = "Correct the value that the message names; `trident config` shows the options, and where each comes from"
        yield Finding("the configuration", str(error), matters, todo)
