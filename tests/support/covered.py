"""The tests with many cases of which `make test-all` runs some, and `make soak` the others.

There is one row for each strength and reason. The cases that run are chosen by `covering`: with strength 1 each value
of each parameter is in one of them, with strength 2 each pair of values of two parameters.
"""

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import pytest

from tests.support.soak import is_soak


@dataclass(frozen=True)
class Covered:
    """Tests whose ids begin with one of `tests`. Of each, cases run in which any `strength` values meet that can."""

    why: str
    strength: int
    tests: tuple[str, ...]


COVERED = (
    Covered(
        "the other cases have the same values in other pairs, and the parameters do not depend on each other",
        1,
        (
            "tests/access/test_opening.py::test_a_stopped_topologys_state_reads_as_a_running_ones",
            "tests/faults/test_kill_points.py::test_attempts_that_fail_at_random",
            "tests/faults/test_kill_points_backfill.py::test_each_tuple_is_in_the_new_states_once",
            "tests/spouts/jdbc/test_changing.py::TestTables::test_an_older_copy_is_refused",
            "tests/spouts/jdbc/test_changing.py::TestTables::test_another_source_of_the_name_is_refused",
            "tests/spouts/jdbc/test_contract.py::TestTables::test_a_topology_gets_every_row_once_though_its_driver_dies",
            "tests/spouts/jdbc/test_history.py::test_a_table_that_was_emptied_and_filled_again",
            "tests/spouts/jdbc/test_history.py::test_rows_that_were_read_may_be_cleaned_up",
            "tests/spouts/kafka/test_contract.py::TestPlainTopics::test_a_topology_gets_every_row_once_though_its_driver_dies",
            "tests/spouts/redis_streams/test_contract.py::TestRedisStreamSpout::test_a_topology_gets_every_row_once_though",
            "tests/spouts/test_csv_through_crashes.py::test_every_row_counts_once",
            "tests/state/backing/test_contract.py::TestFenced::test_a_range_is_a_part",
            "tests/state/backing/test_contract.py::TestInPieces::test_a_range_is_a_part",
            "tests/state/delta/test_rounding.py::test_values_as_of_each_txid",
            "tests/state/memory/test_contract.py::TestMemoryStore::test_a_range_is_a_part",
            "tests/state/redis/test_cluster_contract.py::TestCluster::test_a_range_is_a_part",
            "tests/state/redis/test_cluster_contract.py::TestCluster::test_a_value_of_any_type",
            "tests/state/redis/test_contract.py::TestJson::test_a_range_is_a_part",
            "tests/state/redis/test_contract.py::TestJson::test_a_value_of_any_type",
            "tests/state/redis/test_contract.py::TestPacked::test_a_range_is_a_part",
            "tests/state/redis/test_contract.py::TestPacked::test_a_value_of_any_type",
        ),
    ),
    Covered(
        "what goes wrong needs two of the values",
        2,
        (
            "tests/access/test_dropped_while_open.py::test_a_topology_that_reads_a_state_stops",
            "tests/access/test_dropped_while_open.py::test_an_opened_state_reads_nothing",
            "tests/access/test_dropped_while_open.py::test_an_opened_topology_reads_nothing",
            "tests/access/test_watermarks.py::test_a_death_within_a_drop_is_told",
            "tests/access/test_watermarks.py::test_a_state_that_was_dropped_as_the_refusal_says",
            "tests/access/test_watermarks.py::test_a_watermark_whose_state_is_gone",
            "tests/compiler/test_aggregator_conditions.py::test_groups_of_a_batch",
            "tests/state/redis/test_numbers.py::test_the_server_combines_as_arrow_does",
        ),
    ),
)


def covering(cases: Sequence[Mapping[str, Hashable]], strength: int) -> list[int]:
    """Return the places of some of the cases, in which any `strength` values meet that meet in one of all.

    The next one is always the case with the most new meetings; of several, the one whose values were chosen least.
    """
    meetings = [set(combinations(sorted(case.items()), min(strength, len(case)))) for case in cases]
    left, chosen, used = set[Any]().union(*meetings), list[int](), Counter[Any]()
    while left:
        at = max(range(len(cases)), key=lambda at: (len(meetings[at] & left), -sum(used[v] for v in cases[at].items())))
        chosen.append(at)
        left -= meetings[at]
        used.update(cases[at].items())
    return chosen


def leave_covered(items: Iterable[pytest.Item], rows: Iterable[Covered] = COVERED) -> None:
    """Make soaks of the cases that others cover."""
    tests = defaultdict[str, list[Any]](list)
    for item in items:
        if not is_soak(item) and getattr(item, "callspec", None) is not None:
            tests[item.nodeid.partition("[")[0]].append(item)
    for row in rows:
        for test, its in tests.items():
            if test.startswith(row.tests):
                # All cases with a value have the same object; it need not be hashable, and need not come in an order.
                cases = [{name: id(value) for name, value in item.callspec.params.items()} for item in its]
                chosen = covering(cases, row.strength)
                for at, item in enumerate(its):
                    if at not in chosen:
                        item.add_marker(pytest.mark.soak)
