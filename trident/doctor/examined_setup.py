"""The setup that the checks examine: a machine, the options of a start, and possibly a program."""

import os
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from trident.base.cached_property import cached_property
from trident.base.errors import TopologyError
from trident.base.finding import Now
from trident.configuration.layers import configured, joined
from trident.log import RedisLog
from trident.plan.spout_options import with_spout_options
from trident.plan.topology_protocol import TopologyPlan

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class ExaminedSetup:
    """A start that is being considered. Fields that are None were not named."""

    name: str = "topology"
    program: TopologyPlan | None = None
    given: Mapping[str, Any] = field(default_factory=dict)
    """The options of the start that the call names; they take precedence over trident.toml and the environment."""
    profile: str | None = None
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ)
    port: int | None = None
    """The port at which the run is to be served."""
    host: str = "127.0.0.1"
    now: Now = time.time
    session: "Callable[[], AbstractContextManager[SparkSession]] | None" = None
    """Starts Spark, if it is to be examined."""
    spark_secs: float = 120.0

    @cached_property
    def options(self) -> Mapping[str, Any]:
        """The options of the start that can be read. The check `configuration` reports the others."""
        try:
            outside = {name: each.value for name, each in configured(self.name, self.profile, self.environment).items()}
        except TopologyError:
            outside = {}
        return dict(self.given) | {option: joined(option, value, self.given) for option, value in outside.items()}

    @cached_property
    def plan(self) -> TopologyPlan | None:
        """The program, whose spouts have the options of the start as far as these fit."""
        try:
            return self.program and with_spout_options(self.program, self.options.get("spouts"))
        except TopologyError:  # the check `program` reports it
            return self.program

    @property
    def log(self) -> RedisLog | None:
        """The log in Redis that the start would use; None if the log is in the checkpoint."""
        return self.options.get("log")

    @property
    def on_spark(self) -> bool:
        """Return whether the start may use Spark."""
        return bool(self.options.get("engine", "spark") != "embedded")
