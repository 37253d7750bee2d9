"""The tests that `make test` leaves to `make test-all`: long ones, of rules that a cheaper test shows too.

There is one row for each kind. A row names tests by the beginning of their ids, the reason, and the tests that stay in
`make test` for the same rules. `tests/house/test_left_out.py` holds that both exist, and that each guard of
exactly-once keeps a test.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pytest

from tests.support.soak import is_soak


@dataclass(frozen=True)
class LeftOut:
    """Tests that `make test` leaves out: those whose ids begin with one of `tests`, but not with one of `stays`.

    With `cases`, it leaves out only cases whose parameters begin with one of them. With `one_in`, it runs one of so
    many cases of each test function: the first, and each so manyth after it.
    """

    why: str
    tests: tuple[str, ...]
    stays: tuple[str, ...] = ()
    one_in: int = 0
    cases: tuple[str, ...] = ()

    def has(self, test: str) -> bool:
        """Return whether the row is about this test."""
        named = test.startswith(self.tests) and not test.startswith(self.stays or ("-",))
        return named and (not self.cases or test.partition("[")[2].startswith(self.cases))


_KILLS = (
    "tests/access/test_watermarks.py",
    "tests/conformance/test_repartition.py",
    "tests/faults/test_disk.py",
    "tests/faults/test_guarantees.py",
    "tests/faults/test_kill_points",
    "tests/nexmark/test_nexmark.py::test_a_killed",
    "tests/outputs/kafka/test_changes.py::test_drivers_that_die_write_each_change_once",
    "tests/outputs/delta/test_changes.py::test_drivers_that_die_write_each_batch_once",
    "tests/reads/test_previous_reads.py",
    "tests/batches/test_attempts.py",
    "tests/commits/test_committed_queries.py",
    "tests/run/test_backfill.py",
    "tests/run/test_change_sources.py",
    "tests/run/test_dead_letter_branches.py",
    "tests/run/test_duplicates.py",
    "tests/run/test_early_results.py",
    "tests/run/test_interrupted_starts.py",
    "tests/run/test_interval_joins.py",
    "tests/run/test_several_aggregates.py",
    "tests/run/test_windows.py",
    "tests/state/backing/test_contract.py",
    "tests/testing/test_crashes.py",
)

LEFT_OUT = (
    LeftOut(
        "starts a Spark with workers for a rule that another test shows on Spark, or without it",
        (
            "tests/cluster/test_puts.py",
            "tests/cluster/test_reading.py",
            "tests/cluster/test_spark_submit.py",
            "tests/cluster/test_stored_topologies.py",
            "tests/compiler/test_ledger_spark.py",
            "tests/compiler/test_spark_errors.py",
            "tests/access/test_spark_source.py",
            "tests/doctor/test_spark.py::test_workers_that_lack",
            "tests/differential/test_differential.py::test_spark_agrees",
            "tests/faults/test_java.py",
            "tests/files/test_on_spark.py",
            "tests/outputs/test_outputs_spark.py",
            "tests/outputs/delta/test_changes.py::test_tables_hold_the_rows_that_spark_computed",
            "tests/commits/test_committed_queries.py::test_a_driver_that_dies_on_spark",
            "tests/run/test_dead_letters_spark.py",
            "tests/run/test_engine_change_spark.py",
            "tests/run/test_limits_spark.py",
            "tests/telemetry/test_metrics_spark.py",
            "tests/commits/test_readers_spark.py",
            "tests/run/test_early_results_spark.py",
            "tests/run/test_sessions_spark.py",
            "tests/commits/test_state_updates_spark.py",
            "tests/commits/test_updaters_spark.py",
            "tests/run/test_windows_spark.py",
            "tests/commits/test_writers_spark.py",
            "tests/spouts/delta/test_on_spark.py",
            "tests/spouts/kafka/test_on_spark.py",
            "tests/spouts/kafka/test_read_ahead.py",
            "tests/spouts/redis_streams/test_in_topologies.py::test_workers_that_are_killed",
            "tests/run/test_auto_spark.py",
            "tests/run/test_changes_spark.py::test_states_over_changes_on_spark",
            "tests/nexmark/test_nexmark.py::test_spark_gives",
            "tests/nexmark/test_yahoo.py::test_spark",
            "tests/nexmark/test_yahoo.py::test_foreach_batch",
            "tests/state/delta/test_on_spark.py",
        ),
        (
            "tests/commits/test_updaters_spark.py::test_auto_makes_what_is_the_same_in_parts",
            "tests/commits/test_writers_spark.py::test_counts",
            "tests/commits/test_writers_spark.py::test_keys_that_workers_left_out",
            "tests/commits/test_writers_spark.py::test_the_driver_writes_and_asks_a_state_without_a_txid",
            "tests/compiler/test_ledger_spark.py::test_a_loss_on_an_edge_names_its_step",
            "tests/commits/test_writers_spark.py::test_a_job_that_fails_after_a_confirmed_put_runs_again",
            "tests/commits/test_readers_spark.py::test_executors_of_a_later_stage_ask_as_of_the_batch_before",
            "tests/spouts/delta/test_on_spark.py::test_the_last_change_of_a_key",
            "tests/spouts/kafka/test_read_ahead.py::test_workers_keep",
            "tests/stream/test_on_spark.py",
            "tests/spouts/test_on_spark.py",
            "tests/compiler/test_spark.py",
        ),
    ),
    LeftOut(
        "runs a whole program, a browser, or the tools that build the package and its pages",
        (
            "tests/containers/test_containers.py::test_the_commands_start_answer_probes_and_end_by_sigterm",
            "tests/demo/",
            "tests/gallery/test_gallery.py::test_a_dashboard_compares_with_before_and_a_job_reads_the_same_table",
            "tests/house/test_client_wheel.py",
            "tests/house/test_java.py",
            "tests/house/test_public_api.py",
            "tests/house/test_recipes.py",
            "tests/house/test_site.py",
            "tests/house/test_soak.py::test_a_soak_runs_only_while_minutes_are_left",
            "tests/house/test_typing_of_programs.py",
            "tests/house/test_wheel.py",
            "tests/notebooks/",
            "tests/run/test_sigterm.py",
            "tests/server/test_openapi.py",
            "tests/server/test_page.py",
            "tests/server/test_serve_program.py",
        ),
        (
            "tests/house/test_pages_of_the_guide.py",
            "tests/run/test_sigterm.py::test_a_program_stops_in_good_order",
            "tests/server/test_page_answers.py",
            "tests/cli/test_run.py",
        ),
    ),
    LeftOut(
        "holds one more store, place or source to a contract that others of its kind stay for",
        (
            "tests/compatibility/test_golden.py::test_a_checkpoint_with_the_disk_of_its_broker_continues",
            "tests/nexmark/test_nexmark.py::test_messages_of_kafka",
            "tests/doctor/test_planted_servers.py::test_faults_of_kafka",
            "tests/doctor/test_planted_servers.py::test_faults_of_an_object_store",
            "tests/files/test_hdfs.py",
            "tests/files/test_hdfs_runs.py",
            "tests/files/test_output_contract.py::TestParquetOnHdfs",
            "tests/outputs/kafka/test_contract.py",
            "tests/outputs/kafka/test_coordinator.py::test_outputs_that_begin",
            "tests/outputs/kafka/test_exactly_once.py::test_a_transaction_that_kafka_ended",
            "tests/spouts/jdbc/test_changing.py",
            "tests/spouts/jdbc/test_contract.py",
            "tests/spouts/kafka/test_contract.py",
            "tests/spouts/kafka/test_histories.py",
            "tests/spouts/kafka/test_outages.py",
            "tests/spouts/messages/test_rabbit.py",
            "tests/state/redis/test_cluster.py",
            "tests/state/redis/test_cluster_contract.py",
            "tests/state/redis/test_numbers.py",
        ),
        (
            "tests/compatibility/test_golden.py::test_a_stored_checkpoint",
            "tests/doctor/test_planted_servers.py::test_a_fault_of_redis",
            "tests/files/test_output_contract.py::TestParquetOnAnObjectStore",
            "tests/files/test_hdfs.py::test_every_block_is_flushed",
            "tests/files/test_hdfs.py::test_a_create_whose_reply_is_lost",
            "tests/outputs/kafka/test_contract.py::TestKafka::test_a_driver_that_was_taken_over",
            "tests/outputs/kafka/test_contract.py::TestKafka::test_a_copy_of_the_log",
            "tests/outputs/kafka/test_coordinator.py::test_offsets_are_read",
            "tests/outputs/kafka/test_exactly_once.py::test_a_driver_that_was_taken_over",
            "tests/spouts/kafka/test_outages.py::test_a_partition_without_an_offset",
            "tests/outputs/test_contract.py",
            "tests/spouts/jdbc/test_history.py",
            "tests/spouts/jdbc/test_changing.py::TestTables::test_rows_that_come_between",
            "tests/spouts/kafka/test_partition_identity.py",
            "tests/spouts/redis_streams/test_contract.py",
            "tests/spouts/test_contract.py",
            "tests/state/redis/test_contract.py",
        ),
    ),
    LeftOut(
        "holds files on HDFS to a contract that files on a disk and in an object store stay for",
        ("tests/files/test_contract.py",),
        ("tests/files/test_hdfs.py::test_a_create_whose_reply_is_lost",),
        cases=("hdfs",),
    ),
    LeftOut(
        "waits for limits, leases and time-outs to pass",
        (
            "tests/state/delta/test_refusing_server.py",
            "tests/faults/test_standby.py",
            "tests/run/test_timers_at_takeovers.py",
            "tests/batches/test_group_run.py::test_a_program_that_ends",
            "tests/batches/test_idle.py",
            "tests/run/test_limits.py::test_a_function_of_a_later_stage_that_hangs",
            "tests/run/test_limits.py::test_a_store_of_the_users_own_that_hangs",
            "tests/run/test_limits.py::test_an_ack_that_hangs",
            "tests/run/test_limits.py::test_an_updater_that_hangs",
            "tests/run/test_limits.py::test_stop_leaves_a_later_stage",
            "tests/run/test_limits.py::test_stop_leaves_an_ack",
            "tests/server/test_connections.py",
            "tests/server/test_endpoints.py",
            "tests/server/test_hostile.py",
        ),
        (
            "tests/run/test_standby.py",
            "tests/run/test_timers_model.py",
            "tests/run/test_limits.py::test_an_output",
            "tests/run/test_limits.py::test_stop_leaves_an_output",
            "tests/batches/test_time_limit_bound.py",
            "tests/server/test_connections.py::test_a_request_without_an_end_is_cut",
            "tests/server/test_endpoints.py::test_a_token_is_asked_for_at_every_door",
        ),
    ),
    LeftOut(
        "runs more schedules of the simulator, or takes more guards out of it",
        (
            "tests/simulator/test_simulator.py::test_a_library_without_one_of_its_guards",
            "tests/simulator/test_simulator.py::test_another_process_with_other_hashes",
            "tests/simulator/test_simulator.py::test_tries_of_tasks",
        ),
        ("tests/simulator/test_simulator.py::test_random_fault_schedules",),
    ),
    LeftOut(
        "takes more than five seconds for a rule that shorter tests show",
        (
            "tests/batches/test_batch_sizes.py::test_a_batch_that_was_planned",
            "tests/cli/test_serve_processes.py::test_processes_that_answer",
            "tests/cli/test_state.py::test_it_is_a_program",
            "tests/cluster/test_cluster_model.py::test_a_standby_plans_nothing",
            "tests/cluster/test_stored_operation.py::test_a_relative_path",
            "tests/commits/test_evolving_spark.py",
            "tests/compatibility/test_formats.py::test_a_start_refuses_the_number",
            "tests/compiler/test_skipping_kernels.py::test_where_spark_goes_on",
            "tests/compiler/test_frozen_files.py::test_a_result_that_was_large",
            "tests/compiler/test_interval_joins.py::test_every_pair_and_every_lonely_tuple",
            "tests/compiler/test_cached_plans.py::test_a_plan_with_a_shuffle",
            "tests/compiler/test_keyed_sessions.py::test_sessions_close_alike",
            "tests/compiler/test_median.py::test_it_is_the_median_of_spark",
            "tests/compiler/test_pinned_confs.py::test_tuples_that_are_lost_between",
            "tests/compiler/test_small_stages.py::test_small_stages_give_the_same",
            "tests/compiler/test_spark.py::test_cancel_stops_this_batch",
            "tests/expressions/test_forms.py::test_spark_gives_the_same_values_in_each_time_zone",
            "tests/faults/test_exhaustive.py::test_no_step_that_fails",
            "tests/faults/test_kill_points_updates.py::test_a_server_that_loses_its_last_writes",
            "tests/faults/test_rewind.py::test_a_server_that_loses_its_last_writes",
            "tests/house/test_reset_texts.py::test_only_one_module",
            "tests/house/test_server.py::test_a_password",
            "tests/outputs/kafka/test_changes.py::test_the_topic_holds",
            "tests/run/test_backfill.py::test_spark_fills",
            "tests/run/test_dead_letter_branches.py::test_spark_lets_letters_enter",
            "tests/run/test_early_results.py::test_replays_that_differ",
            "tests/run/test_interval_joins.py::test_flights_meet_the_weather",
            "tests/run/test_over_time_spark.py::test_both_engines",
            "tests/run/test_savepoints.py::test_batches_in_flight",
            "tests/run/test_stateful_each_spark.py",
            "tests/server/test_sql.py::test_limits_of_the_server",
            "tests/server/test_sql.py::test_other_answers_come",
            "tests/simulator/test_simulator.py::test_more_random_fault_schedules",
            "tests/spouts/files/test_folder_fields.py::test_values_are_those_of_spark",
            "tests/spouts/kafka/test_partition_identity.py::test_a_restored_partition_that_has_grown_on",
            "tests/spouts/messages/test_named_streams.py::test_spark_reads_the_same_streams",
            "tests/spouts/postgres_changes/test_losses.py::test_a_restored_server_is_noticed",
            "tests/spouts/postgres_changes/test_losses.py::test_a_server_that_is_restored_between",
            "tests/spouts/postgres_changes/test_losses.py::test_a_slot_that_was_recreated_on",
            "tests/spouts/postgres_changes/test_rows_in_parts.py::test_parts_beside_random_writers",
            "tests/spouts/test_streaming_spout.py::test_between_two_triggers",
            "tests/state/delta/test_objects.py::test_batches_merges_a_restart",
            "tests/state/redis/test_lost_replies.py::test_a_commit_cut_off",
            "tests/telemetry/test_steps_on_spark.py::test_steps_on_spark_have",
            "tests/testing/test_contracts.py::test_a_share_that_workers_lose",
            "tests/testing/test_crashes.py::test_a_process_is_killed",
        ),
        (
            "tests/batches/test_batch_sizes.py::test_the_batches_of_a_slow_topology",
            "tests/cli/test_serve_processes.py::test_all_processes_end",
            "tests/cluster/test_cluster_model.py::test_without_a_driver",
            "tests/compatibility/test_golden.py::test_a_stored_checkpoint",
            "tests/compiler/test_cached_plans.py::test_a_plan_that_is_executed_again",
            "tests/compiler/test_pinned_confs.py::test_tuples_for_several_readers",
            "tests/expressions/test_forms.py::test_spark_fails_for_the_same_tuples",
            "tests/faults/test_exhaustive.py::test_the_loop_fails_each_step",
            "tests/faults/test_kill_points_evolving.py",
            "tests/faults/test_kill_points_updates.py::test_an_update_is_made_once",
            "tests/faults/test_rewind.py::test_a_server_that_comes_back_empty",
            "tests/run/test_early_results.py::test_a_driver_that_dies_anywhere",
            "tests/run/test_interval_joins.py::test_a_driver_that_dies_anywhere",
            "tests/run/test_savepoints.py::test_a_fork_at_any_batch",
            "tests/run/test_stateful_each.py",
            "tests/server/test_sql.py::test_errors",
            "tests/simulator/test_simulator.py::test_random_fault_schedules",
            "tests/spouts/kafka/test_partition_identity.py::test_a_restore_under_a_running_stream",
            "tests/spouts/postgres_changes/test_losses.py::test_another_server_or_database",
            "tests/spouts/postgres_changes/test_rows_in_parts.py::test_each_change_between",
            "tests/spouts/test_streaming_spout.py::test_a_query_that_is_slow",
            "tests/state/delta/test_reads_beside_commits.py::test_each",
            "tests/testing/test_contracts.py::test_a_planted_fault",
        ),
    ),
    LeftOut("kills, fails or restarts at each of many places of one path: some of them stay", _KILLS, one_in=8),
    LeftOut(
        "asks one rule on both engines, or of several values, kinds, stores and faults: every fifth case stays",
        ("tests/",),
        _KILLS,
        one_in=5,
    ),
    LeftOut(
        "reads for seconds while batches commit",
        ("tests/sql/test_one_txid.py", "tests/state/delta/test_reads_beside_commits.py::test_spark"),
        (
            "tests/sql/test_one_txid.py::test_an_opened",
            "tests/sql/test_one_txid.py::test_two_groups",
            "tests/state/delta/test_reads_beside_commits.py::test_each",
        ),
    ),
)


def left_out(tests: Iterable[str], rows: Iterable[LeftOut] = LEFT_OUT) -> Iterator[tuple[str, LeftOut]]:
    """Yield the ids of the tests that `make test` leaves out, each with its row."""
    rows, cases = tuple(rows), Counter[tuple[str, LeftOut]]()
    for test in tests:
        for row in rows:
            if not row.has(test):
                continue
            each = test.partition("[")[0], row
            cases[each] += 1
            if not row.one_in or (cases[each] - 1) % row.one_in:
                yield test, row
                break


def mark_left_out(items: list[pytest.Item]) -> None:
    """Mark the tests that `make test` leaves out with their reason, for ``-m "not full"``."""
    by_id = {item.nodeid: item for item in items if not is_soak(item)}
    for test, row in left_out(by_id):
        by_id[test].add_marker(pytest.mark.full(row.why))
