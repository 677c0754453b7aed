"""The header of each answer and what the answer does are one."""

from __future__ import annotations

import re

import duckdb
import pytest

from profframe import schema
from profframe.errors import UnknownNameError
from profframe.query.catalogue import selects
from profframe.query.header import Answer, sql_directory
from profframe.query.run import run
from tests.cases import bare

ANSWERS = selects()
PLACES = {
    "collectives.size": ("run", "process_group", "collective", "dtype", "bytes", "ranks"),
    "collectives": ("run", "number", "rank"),
    "expert_balance": ("run", "step", "collective", "process_group", "number", "rank"),
    "exposed_communication": ("run", "rank", "start_ns"),
    "flame": ("run", "rank", "node_id"),
    "time_breakdown.combination": ("run", "rank", "classes"),
    "key_averages": ("run", "rank", "first_occurrence"),
    "op_kernels": ("run", "rank", "first_event_id"),
    "phases": ("run", "rank", "start_ns", "event_id"),
    "pipeline_actions": ("run", "rank", "start_ns", "event_id", "stage", "microbatch"),
    "queue_depth": ("run", "rank", "device", "stream", "time_ns"),
    "rank_balance": ("run", "step", "place"),
    "run_samples": ("run", "rank", "step", "what", "label"),
    "sequences": ("run", "rank", "first_event_id"),
    "step_times": ("run", "rank", "start_ns", "event_id"),
    "fragmentation.piece": ("run", "rank", "device", "segment_id", "piece"),
    "snapshot_timeline": ("run", "rank", "device", "event_id", "place"),
    "stragglers": ("run", "rank", "before_op", "before_kernel"),
    "work_rates": ("run", "rank", "device", "time_ns"),
}
"""What tells the rows of an answer apart in its order, where that is not its grain."""


def empty(*tables: str) -> duckdb.DuckDBPyConnection:
    connection = bare()
    for name in tables:
        connection.register(name, schema.TABLES[name].arrow.empty_table())
    return connection


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda answer: answer.name)
class TestHeader:
    def test_its_needs_are_enough_for_a_result_with_the_declared_columns(
        self, answer: Answer
    ) -> None:
        with empty(*answer.needs) as connection:
            relation = run(connection, answer)
            found = list(zip(relation.columns, map(str, relation.types), strict=True))
            assert found == [(column.name, column.type) for column in answer.columns]
            assert relation.fetchall() == []

    def test_starts_with_run_and_rank(self, answer: Answer) -> None:
        first, second = ((c.name, c.type) for c in answer.columns[:2])
        assert first == ("run", "VARCHAR")
        assert second in {("rank", "INTEGER"), ("ranks", "BIGINT")}

    def test_units_follow_from_names(self, answer: Answer) -> None:
        for column in answer.columns:
            unit = next(
                (
                    unit
                    for pattern, unit in (
                        (r".*_ns", "ns"),
                        (r"(.*_)?bytes", "bytes"),
                        (r"(.*_)?bytes_per_s", "bytes/s"),
                        (r"(.*_)?flop_per_s", "FLOP/s"),
                        (r"(.*_)?gb_per_s", "GB/s"),
                        (r"flop_per_byte", "FLOP/byte"),
                        (r"(.*_)?share|[mh]fu", "0..1"),
                        (r".*flops", "FLOP"),
                        (r".*_j", "J"),
                        (r".*_w", "W"),
                    )
                    if re.fullmatch(pattern, column.name)
                ),
                None,
            )
            assert column.unit == unit, column.name

    def test_every_need_is_used(self, answer: Answer, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(
            "profframe.query.run._raise_error_of_rule", lambda *_: None
        )  # asks every rule anew
        for missing in answer.needs:
            others = [need for need in answer.needs if need != missing]
            with empty(*others) as connection, pytest.raises(UnknownNameError):
                run(connection, answer)

    def test_every_variable_is_a_parameter_with_its_default(self, answer: Answer) -> None:
        used = set(re.findall(r"coalesce\(getvariable\('(\w+)'\), '?([\w.\[\]]*)'?\)", answer.sql))
        declared = {(p.name, str(p.default).lower()) for p in answer.parameters}
        choosing = {form.choice.parameter for form in answer.forms if form.choice}
        assert used <= declared
        assert {name for name, _ in declared - used} <= choosing
        assert answer.sql.count("getvariable") == len(
            re.findall(r"coalesce\(getvariable\('", answer.sql)
        )

    def test_is_one_ordered_select(self, answer: Answer) -> None:
        (statement,) = duckdb.extract_statements(answer.sql)
        assert statement.type == duckdb.StatementType.SELECT
        last_clause = answer.sql.rindex("\nORDER BY ")
        assert "\nSELECT" not in answer.sql[last_clause:]

    def test_no_two_rows_have_the_same_place(self, answer: Answer) -> None:
        """So that rows come in one order: it ends in all that tells rows apart."""
        columns = {column.name for column in answer.columns}
        inside = re.match(r"One row per \(([^)]*)\)", answer.grain)
        grain = {part.split()[0] for part in inside[1].split(",")} & columns if inside else set()
        apart = PLACES.get(answer.name, (*grain, *({"event_id"} & columns)))
        order = answer.sql[answer.sql.rindex("\nORDER BY ") :]
        assert [name for name in apart if not re.search(rf"\b{name}\b", order)] == []

    def test_kind_lists_are_the_schemas(self, answer: Answer) -> None:
        known = {frozenset(schema.HOST_KINDS), frozenset(schema.DEVICE_KINDS)}
        for words in re.findall(r"kind IN \(([^)]*)\)", answer.sql):
            assert frozenset(re.findall(r"\w+", words)) in known

    def test_lines_are_readable(self, answer: Answer) -> None:
        assert answer.sentence.endswith(".")
        assert answer.grain.startswith("One row per ")
        assert all(one.grain.endswith(".") for one in answer.selects)
        text = (sql_directory() / "answers" / f"{answer.name}.sql").read_text(encoding="utf-8")
        assert max(map(len, text.splitlines())) <= 130


@pytest.mark.parametrize("answer", [one for one in ANSWERS if one.forms], ids=lambda one: one.name)
class TestForms:
    def test_each_value_chooses_one_select(self, answer: Answer) -> None:
        choices = [form.choice for form in answer.forms if form.choice]
        assert len(choices) == len(answer.forms)
        assert len({choice.parameter for choice in choices}) == 1
        (parameter,) = (p for p in answer.parameters if p.name == choices[0].parameter)
        values = [value for choice in choices for value in choice.values]
        assert len({*values}) == len(values)
        assert {*values} < {*parameter.choices}
        assert parameter.default not in values

    def test_a_parameter_is_one_in_all_of_them(self, answer: Answer) -> None:
        choosing = {form.choice.parameter for form in answer.forms if form.choice}
        declared: dict[str, set[tuple[str, object]]] = {}
        for select in answer.selects:
            for one in select.parameters:
                declared.setdefault(one.name, set()).add((one.type, one.default))
        assert all(len(found) == 1 for name, found in declared.items() if name not in choosing)


def test_answers_that_compare_ranks_have_one_default_for_clocks() -> None:
    found = {
        answer.name: (parameter.default, parameter.doc)
        for answer in ANSWERS
        for parameter in answer.parameters
        if parameter.name == "corrected"
    }
    assert {"collectives", "stragglers", "pipeline_bubbles"} <= {*found}
    doc = "correct clocks by the offsets of clock_skew, if all are known"
    assert {*found.values()} == {(True, doc)}
    waits = [answer.sql for answer in ANSWERS if "collective_waits(" in answer.sql]
    assert all("coalesce(getvariable('corrected'), true)" in sql for sql in waits)


def test_columns_are_fixed() -> None:
    columns = {answer.name: " ".join(c.name for c in answer.columns[2:]) for answer in ANSWERS}
    sums = (
        "calls cpu_ns self_cpu_ns device_ns self_device_ns cpu_bytes self_cpu_bytes "
        "device_bytes self_device_bytes torch_flops"
    )
    assert columns == {
        "advice": (
            "rule severity finding evidence_events events estimated_gain_ns gain_basis where "
            "suggestion link ranks steps"
        ),
        "clock_skew": "clock base_ns reference_rank offset_ns error_ns collectives note",
        "collectives.size": (
            "process_group collective dtype bytes calls mismatches total_ns mean_ns min_ns p50_ns "
            "max_ns skew_ns max_skew_ns algorithm_gb_per_s bus_gb_per_s is_corrected"
        ),
        "collective_progress": (
            "process_group process_group_description group_ranks is_loaded first_seq last_seq "
            "completed_seq missing_calls kind state created_ns stack"
        ),
        "hangs": (
            "process_group process_group_description group_ranks kind collective_seq line finding "
            "late_ranks waiting_ranks other_ranks not_loaded_ranks since_ns all_waiting_ns "
            "is_cause late_at waiting_stack late_stack"
        ),
        "hangs.rank": (
            "process_group process_group_description collective_seq line finding role record_id "
            "kind called_group called_seq input_sizes input_dtypes output_sizes output_dtypes "
            "state created_ns stack"
        ),
        "collective_traffic": "peer_rank process_group calls bytes",
        "collectives": (
            "number rank process_group collective collective_seq matched_by expected_ranks "
            "missing_ranks mismatch step dtype bytes imbalance event_id kernels start_ns dur_ns "
            "wait_ns transfer_ns start_skew_ns end_skew_ns last_rank latency_ns algorithm_gb_per_s "
            "bus_gb_per_s is_corrected"
        ),
        "step_communication": (
            "step ranks start_ns span_ns compute_ns communication_ns hidden_ns exposed_ns "
            "wait_ns transfer_ns unknown_ns hidden_share exposed_share wait_share "
            "compute_over_mean exposed_over_mean wait_over_mean step_ns host_ns device_start_ns "
            "device_window_ns lag_ns"
        ),
        "expert_balance": (
            "step collective process_group number ranks calls sent_bytes received_bytes "
            "received_over_mean received_max_over_mean most_received_rank dur_ns wait_ns "
            "transfer_ns transfer_over_mean transfer_max_over_mean slowest_rank is_corrected"
        ),
        "input_balance": (
            "step ranks calls load_ns step_share wait_ns mean_wait_ns median_wait_ns max_wait_ns "
            "over_median_ns wait_over_mean slowest_rank"
        ),
        "pipeline_actions": (
            "step pass stage microbatch phase event_id name start_ns dur_ns idle_ns source"
        ),
        "pipeline_bubbles": (
            "step pass stages microbatches actions start_ns window_ns busy_ns bubble_ns "
            "bubble_share warmup_ns steady_ns cooldown_ns pipeline_ranks ideal_share "
            "is_corrected"
        ),
        "rank_balance": "step class min_ns max_ns mean_ns std_ns max_over_mean min_rank max_rank",
        "stragglers": (
            "before_op before_kernel collectives times_last last_share times_first held_up_ns "
            "max_held_up_ns shared_ns excess excess_ns late_ns mean_late_ns max_late_ns wait_ns "
            "mean_wait_ns communication_ns is_corrected"
        ),
        "runs": (
            "clock start_ns events kernels span_ns steps step_mean_ns step_min_ns step_p50_ns "
            "step_p90_ns step_p99_ns step_max_ns throughput_per_s op_self_ns kernel_ns "
            "device_span_ns compute_ns exposed_communication_ns exposed_copy_ns unrecorded_ns "
            "idle_ns busy_ns busy_share exposed_communication_share peak_device_bytes "
            "peak_host_bytes"
        ),
        "run_samples": (
            "step what name device calls spent_ns device_ns flops flops_ns bytes bytes_ns "
            "compute_ps compute_ns memory_ps memory_ns"
        ),
        "step_times": (
            "step start_ns step_ns host_ns device_start_ns device_window_ns lag_ns busy_ns "
            "compute_ns exposed_communication_ns exposed_copy_ns unrecorded_ns idle_ns "
            "other_steps_ns busy_share is_steady lack"
        ),
        "counter_series": "name series pid thread counter_id device unit time_ns value",
        "counter_series.counter": (
            "name series pid counter_id device unit samples start_ns span_ns "
            "mean_value min_value max_value last_value"
        ),
        "op_idle_queue": (
            "event_id parent_id name kind step start_ns dur_ns self_ns idle_ns idle_share "
            "queue_depth"
        ),
        "exposed_communication": "start_ns dur_ns",
        "flame": (
            "node_id parent_id depth name kind direction calls self_ns total_ns self_device_ns "
            "device_ns event_id"
        ),
        "memory_owners": (
            "device_type device origin name blocks bytes share max_bytes steps op_id source"
        ),
        "work_rates": "device time_ns flop_per_s bytes_per_s",
        "gaps": (
            "device stream start_ns dur_ns share cause before_id before_name after_id after_name "
            "thread owner_id owner_sort owner_name owner_ns line_id line_name line_ns "
            "module_id module_name module_ns op_id op_name op_ns "
            "annotation_id annotation_name annotation_ns frame_id frame_name frame_ns "
            "call_id call_name call_ns"
        ),
        "idle": (
            "device stream cause gaps idle_ns mean_ns max_ns share span_share busy_ns span_ns "
            "line_name line_ns module_name module_ns op_name op_ns annotation_name annotation_ns "
            "launch_wait_ns"
        ),
        "idle.owner": "device stream name gaps idle_ns share max_ns max_id",
        "annotations": (
            "step name calls host_ns kernels copies device_ns busy_ns p50_host_ns max_host_ns "
            "first_host_ns device_start_ns device_window_ns exposed_communication_ns idle_ns "
            "step_ns lag_ns"
        ),
        "annotations.call": (
            "step name event_id start_ns host_ns kernels copies device_ns busy_ns device_start_ns "
            "device_window_ns exposed_communication_ns idle_ns"
        ),
        "mfu": (
            "step name mfu hfu dtype peak_flop_per_s known_flops_share "
            "known_product_share model_flops recomputed_flops devices steps device_ns note"
        ),
        "modules": (
            "step name module_id modules calls host_ns self_host_ns backward_host_ns total_host_ns "
            "kernels device_ns self_device_ns backward_kernels backward_device_ns "
            "self_backward_device_ns total_device_ns total_self_device_ns busy_ns span_ns "
            "exposed_communication_ns idle_ns"
        ),
        "kernel_overlap": (
            "process_group collective event_id name start_ns calls communication_ns hidden_ns "
            "exposed_ns hidden_share"
        ),
        "kernel_categories": (
            "step device stream category class calls total_ns share busy_ns exposed_ns both_ns"
        ),
        "kernels.launch": (
            "name grid block registers shared_memory_bytes op calls total_ns mean_ns p50_ns min_ns "
            "max_ns share blocks_per_sm occupancy"
        ),
        "time_breakdown.combination": "classes total_ns share",
        "kernels": (
            "name calls total_ns mean_ns p50_ns std_ns min_ns max_ns share top_op top_op_share "
            "launch_site launch_site_share class class_share short_name category fused_ops "
            "precision tiny_calls tiny_share tiny_total_ns is_mixed"
        ),
        "key_averages": (
            f"name kind device_type input_dims stack overload_name {sums} node_id first_event_id"
        ),
        "launches": (
            "name calls calls_without_work kernels copies fills device_ns "
            "total_ns mean_ns p50_ns p90_ns p99_ns max_ns "
            "mean_delay_ns p50_delay_ns p90_delay_ns p99_delay_ns max_delay_ns "
            "short_kernels outlier_calls outlier_delays"
        ),
        "host_waits": (
            "name op call_site process top_caller calls total_ns max_ns device_idle_ns "
            "idle_after_ns host_share"
        ),
        "memory_bandwidth": (
            "device kind name calls unsized_calls bytes total_ns busy_ns bytes_per_s "
            "busy_bytes_per_s min_bytes_per_s max_bytes_per_s busy_share"
        ),
        "memory_peak": (
            "device_type device allocated_bytes before_trace_bytes reserved_bytes time_ns op_id "
            "op_name module_name line_name annotation_id annotation_name unfreed_blocks "
            "unfreed_bytes has_totals source"
        ),
        "memory_timeline": (
            "device_type device time_ns bytes allocated_bytes reserved_bytes op_id op_name"
        ),
        "op_kernels": (
            "name kind launch_site input_dims sequence kernels calls device_ns total_ns "
            "mean_op_delay_ns p50_op_delay_ns p90_op_delay_ns max_op_delay_ns "
            "mean_runtime_delay_ns p50_runtime_delay_ns p90_runtime_delay_ns max_runtime_delay_ns "
            "first_event_id"
        ),
        "optimizable_events": (
            "event_id name kind start_ns dur_ns self_ns idle_ns idle_share score source_location"
        ),
        "counters_by_op": (
            "op kernel device counter series unit mean_value total min_value max_value matched_by "
            "ops ranges slices total_ns covered_ns samples beside_share"
        ),
        "energy": (
            "device counter series unit note energy_j work_j idle_j measured_share mean_w min_w "
            "max_w samples start_ns span_ns sampled_ns longest_ns"
        ),
        "energy.step": (
            "device counter series step energy_j work_j idle_j mean_w start_ns step_ns sampled_ns "
            "samples"
        ),
        "energy.work": (
            "device counter series part name energy_j estimated_j share slices measured samples "
            "sampled_ns"
        ),
        "graph_layers": (
            "graph block layer phase replays kernels layers layer_kernels before after device_ns "
            "layers_ns share mean_ns p50_ns max_ns mean_span_ns before_ns after_ns slowest_layer "
            "slowest_ns slowest_ratio sequence first_launch_id first_id"
        ),
        "phases": (
            "phase execution is_warmup batch name event_id start_ns calls mean_batch tokens "
            "prefill_tokens decode_tokens host_ns span_ns p50_span_ns max_span_ns step_ns "
            "p50_step_ns max_step_ns device_start_ns device_window_ns lag_ns tokens_per_s "
            "kernels graphs device_ns graph_share busy_ns idle_ns idle_share communication_ns "
            "exposed_communication_ns known_share roofline_share"
        ),
        "python_lines": (
            "name calls total_ns self_ns self_share idle_ns kernels device_ns self_device_ns "
            "self_backward_device_ns device_share first_id only_waits lines_from"
        ),
        "python_pauses": (
            "thread thread_name step waits wait_ns max_wait_ns holder_name holder_share "
            "collections collection_ns max_collection_ns holds hold_ns max_hold_ns p50_wait_ns "
            "max_wait_start_ns holder"
        ),
        "overview": "events span_ns threads devices kernels device_busy_ns steps",
        "queue_depth": "device stream time_ns depth",
        "queue_depth.stream": (
            "device stream span_ns mean_depth min_depth max_depth p50_depth p90_depth p99_depth "
            "empty_ns empty_share blocked_ns blocked_share"
        ),
        "fragmentation": (
            "device_type device segment_id segment_type pool stream bytes active_bytes "
            "inactive_bytes free_blocks largest_free_bytes unused_bytes inactive_share "
            "request_bytes fits_block fits_segment is_releasable"
        ),
        "memory_stacks": (
            "device_type device stack_id name peak_ns peak_bytes peak_blocks peak_share end_bytes "
            "end_blocks unfreed_bytes unfreed_blocks allocations allocated_bytes stack"
        ),
        "memory_stacks.change": (
            "device_type device stack_id name from_bytes to_bytes change_bytes made_bytes "
            "made_blocks freed_bytes freed_blocks stack"
        ),
        "fragmentation.piece": (
            "device_type device segment_id segment_type segment_bytes offset_bytes bytes state "
            "blocks segments pieces"
        ),
        "snapshot_timeline": (
            "device_type device event_id time_ns stack_id name is_rest allocated_bytes "
            "active_bytes reserved_bytes"
        ),
        "tensor_traffic": (
            "name collective process_group process_group_description calls read_bytes "
            "written_bytes allocated_bytes largest_bytes largest_dtype largest_shape "
            "largest_node_id"
        ),
        "fx_nodes": (
            "graph name kernels calls total_ns device_ns split_ns share main_kernel main_share"
        ),
        "out_of_memory": (
            "device_type device allocator_event_id time_ns requested_bytes device_free_bytes "
            "missing_bytes held_bytes held_blocks reserved_bytes inactive_bytes largest_free_bytes "
            "segment_free_bytes fits_block fits_segment fits_sum frame "
            "holder_bytes holder_frame holder_stack_id stack"
        ),
        "recompute": ("module op calls launching self_host_ns kernels kernel_ns device_ns share"),
        "roofline": (
            "device name input_dims calls kernels total_ns share flops bytes flop_per_byte "
            "flop_per_s bytes_per_s peak_dtype peak_flop_per_s peak_bytes_per_s flop_share "
            "bandwidth_share bound limit_ns lost_ns note"
        ),
        "self_times": "name kind calls self_ns total_ns mean_ns min_ns max_ns self_share",
        "sequences": "name kind sequence kernels calls device_ns total_ns first_event_id",
        "time_breakdown": (
            "step span_ns compute_ns exposed_communication_ns exposed_copy_ns unrecorded_ns "
            "idle_ns hidden_communication_ns hidden_copy_ns other_steps_ns step_ns host_ns "
            "device_start_ns device_window_ns lag_ns lack"
        ),
        "key_averages.all": f"name {sums}",
        "utilization": (
            "device step span_ns kernel_ns busy_ns unrecorded_ns kernel_share busy_share "
            "sm_efficiency occupancy step_ns host_ns device_start_ns device_window_ns lag_ns"
        ),
        "memory_peak.block": (
            "device_type device address bytes time_ns op_id op_name step annotation_id "
            "annotation_name"
        ),
    }
