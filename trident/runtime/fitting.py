"""Whether what an earlier run froze fits the topology that is to apply it."""

from collections.abc import Mapping

import pyarrow as pa

from trident.base.errors import CodeChangedError
from trident.base.types import same_types
from trident.compiler.engine import Result
from trident.compiler.program import Group, Stage
from trident.runtime.frozen import thaw, without_skipped
from trident.runtime.log import Birth, TransactionLog, there_before


def demand_fitting(group: Group, log: TransactionLog, births: Mapping[str, Birth], txid: int) -> None:
    """Raises CodeChangedError where a frozen batch does not fit this topology."""
    for stage in group.stages:
        frozen = log.frozen(group.name, txid, stage.number)
        if frozen is not None:
            where = f"group {group.name!r}, batch {txid}"
            results, _ = without_skipped({name: thaw(output, f"{where}, {name!r}") for name, output in frozen.items()})
            demand_known(results, stage, births, txid)


def demand_known(results: Mapping[str, Result], stage: Stage, births: Mapping[str, Birth], txid: int) -> None:
    """Raises CodeChangedError where these results of a stage are not what the stage gives."""
    known = {output.name: output for output in stage.frozen}
    for name, result in results.items():
        if name not in known:
            raise CodeChangedError(
                f"batch {txid} was frozen by a topology with the step {name!r}, which this one does not have; "
                f"start the former code once so that it commits, or give up log and states with topology.reset"
            )
        if not same_types(result.schema, known[name].schema):
            raise CodeChangedError(
                f"batch {txid} was frozen with {name!r} as ({_shown(result.schema)}), this topology has "
                f"({_shown(known[name].schema)}); start the former code once so that it commits, or reset"
            )
    for name, output in known.items():
        missed = output.missed(there_before(births, txid))
        if name not in results and not missed and not output.optional:
            raise CodeChangedError(f"batch {txid} was frozen without {name!r}; start the former code once, or reset")


def _shown(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)
