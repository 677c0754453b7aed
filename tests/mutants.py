"""Faults that are planted one at a time, each of which a test has to find every time.

They were planted by hand once, and the tests let them live. Each has had a test of its own since,
beside the code that it proves; here is where that is, so that it can be proved again::

    python -m tests.mutants               # each fault once
    python -m tests.mutants --times 5     # each five times
    python -m tests.mutants 4 12 'gaps*'  # only these: numbers, or patterns of files
    python -m tests.mutants --list
    python -m tests.mutants --check       # every fault still has its place; nothing is run

The faults are planted in a copy of the tree. A mutant is dead if its test fails; what keeps pytest
from running it proves nothing, and is an error.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path, PurePath
from typing import Final, Literal

from tests.places import ROOT, TRACES

NEEDED: Final = ("profframe", "sql", "tests", "examples", "pyproject.toml")
LIMIT_S: Final = 300

Verdict = Literal["dead", "lived", "late", "not run"]


@dataclass(frozen=True, slots=True)
class Mutant:
    """A fault: text that a file has once, what stands in its place, and the test that finds it."""

    number: str
    says: str
    path: str
    was: str
    now: str
    tests: str


SERIOUS: Final = (
    Mutant(
        "1",
        "kernels whose pid is the index of their device lose their launch in a container",
        "profframe/facts/launch_calls.py",
        "(process[device] >= 0) & ~_on_device_line(events)[device]",
        "(process[device] >= 0)",
        "tests/unit/test_facts_launches.py::test_the_index_of_a_device_is_no_process",
    ),
    Mutant(
        "2",
        "what a killed batch has staged is taken up for other options",
        "profframe/conversion/staging.py",
        "parts = (source, content, options, facts_version())",
        "parts = (source, content, facts_version())",
        "tests/batch/test_convert.py"
        "::test_what_a_killed_batch_has_converted_is_not_taken_up_for_other_options",
    ),
    Mutant(
        "3",
        "the title of a saved drawing is not escaped",
        "profframe/pages/standalone.py",
        "<title>{html.escape(title)}</title>",
        "<title>{title}</title>",
        "tests/test_hostile.py::TestPages::test_flame_graph",
    ),
    Mutant(
        "4",
        "a pack has its name before it is on the disk",
        "profframe/store/maintenance/changing.py",
        "        _to_disk(fresh)\n",
        "",
        "tests/unit/test_store_races.py::test_a_pack_is_on_the_disk_before_it_has_its_name",
    ),
    Mutant(
        "catalogue-1",
        "the folder of a run is believed while a rank of it is not in the catalogue",
        "profframe/store/catalogue/listing.py",
        'is_same = pl.col("run_checksum") == pl.col("checksum").fill_null(0)',
        'is_same = pl.col("run_checksum").is_not_null()',
        "tests/unit/test_store_catalogue.py"
        "::test_a_rank_that_is_not_in_the_catalogue_is_not_hidden_by_one_that_is",
    ),
    Mutant(
        "catalogue-2",
        "the time of a run's folder is believed though the clock has not passed it",
        "profframe/store/catalogue/rows.py",
        "        if time_ns < now_ns:",
        "        if time_ns <= now_ns:",
        "tests/unit/test_store_catalogue.py::test_a_clock_that_does_not_tick_is_not_believed",
    ),
    Mutant(
        "catalogue-3",
        "what a segment has folded counts while it is still there",
        "profframe/store/catalogue/segments.py",
        "_FOLDS_KEY: json.dumps([*folds]),",
        "_FOLDS_KEY: json.dumps([]),",
        "tests/unit/test_store_catalogue.py"
        "::test_what_a_fold_replaces_does_not_count_while_it_is_still_there",
    ),
    Mutant(
        "catalogue-4",
        "of a run that is asked for, ranks of others are shown by a pack",
        "profframe/store/layout.py",
        "        if self.is_part:\n            return _any_key(self.visible)\n",
        "",
        "tests/unit/test_store_catalogue.py::test_packs_are_known_by_name",
    ),
    Mutant(
        "5a",
        "what is written again while it is packed is not looked for",
        "profframe/store/maintenance/changing.py",
        "if identity(folder) != expected:",
        "if False:",
        "tests/unit/test_store_races.py::test_what_is_written_while_it_is_packed_stays",
    ),
    Mutant(
        "5b",
        "what is written while its old state is deleted is not put back",
        "profframe/store/maintenance/changing.py",
        "if expected and not folder.name.startswith(SET_ASIDE) and identity(hidden) != expected:",
        "if False:",
        "tests/unit/test_store_races.py"
        "::test_what_is_written_while_its_old_state_is_deleted_is_put_back",
    ),
    Mutant(
        "6",
        "a copy in a bucket that fails half-way reads as complete",
        "profframe/conversion/bucket.py",
        'files.rm_file(f"{root}/{target}/traces.parquet")',
        "pass",
        "tests/batch/test_urls.py"
        "::test_what_is_replaced_elsewhere_is_incomplete_until_all_of_it_is",
    ),
    Mutant(
        "6b",
        "a remote file that changed while it was copied is kept as it was listed",
        "profframe/remote/file_systems.py",
        "if now.version == version:",
        "if True:",
        "tests/unit/test_remote.py"
        "::TestFiles::test_a_file_that_changes_while_it_is_copied_is_copied_again",
    ),
    Mutant(
        "6c",
        "a file without a version is taken from the cache, whatever it is now",
        "profframe/loaders/remote_copies.py",
        "if folder is None or file.version is None:",
        "if folder is None:",
        "tests/unit/test_remote.py::TestVersion::test_one_without_a_version_is_never_kept",
    ),
    Mutant(
        "6d",
        "a store below a URL is asked by its old listing after it was written again",
        "profframe/store/member_files.py",
        "return replace(self, path=root, places=PlaceList(current)) if is_new else None",
        "return replace(self, places=PlaceList(current)) if is_new else None",
        "tests/unit/test_remote.py::TestStores::test_what_was_written_again_is_read_as_it_is_now",
    ),
    Mutant(
        "6e",
        "a pack below a URL is there before all of its files are",
        "profframe/remote/uploads.py",
        "key=lambda name: (name == last, name))\n    with target",
        "key=lambda name: (name != last, name))\n    with target",
        "tests/unit/test_remote.py"
        "::TestMaintenance::test_a_kill_in_the_middle_leaves_the_old_or_the_new",
    ),
    Mutant(
        "6f",
        "a library's words about a URL show its password",
        "profframe/errors.py",
        "if len(value) >= _SHORTEST_SECRET:",
        "if False:",
        "tests/unit/test_remote.py::test_what_a_library_says_of_a_url_has_no_secrets",
    ),
    Mutant(
        "7",
        "escaped quotes count as raw ones",
        "profframe/readers/json/strings.py",
        """if '"' in marks:\n        repairs.append("raw_quote")""",
        """if '"' in text:\n        repairs.append("raw_quote")""",
        "tests/unit/test_json_repair.py"
        "::test_text_that_is_sound_stays_as_it_is_beside_what_is_mended",
    ),
    Mutant(
        "8a",
        "the chance of a metric is not corrected for the number of metrics",
        "profframe/analysis/run_limits.py",
        "p * number > regressions.LEVEL",
        "p > regressions.LEVEL",
        "tests/unit/test_history.py::TestCheck::test_many_metrics_are_corrected_for",
    ),
    Mutant(
        "8b",
        "the chance of a change is not corrected for series that are searched elsewhere",
        "profframe/analysis/stats/change_points.py",
        "places = (series or number) *",
        "places = number *",
        "tests/unit/test_history.py"
        "::TestChangePoints::test_the_chance_is_of_all_series_that_are_looked_at",
    ),
    Mutant(
        "8c",
        "the chance of an outlier is of one side",
        "profframe/analysis/stats/typical.py",
        "= student_chance(freedom, score[usable])",
        "= student_chance(freedom, score[usable]) / 2",
        "tests/unit/test_history.py::TestTypical::test_the_chance_is_of_both_sides",
    ),
    Mutant(
        "9",
        "what is faster at equal pace is listed as regressed",
        "profframe/analysis/regressions.py",
        'pl.col("change_ns") > 0, at_equal_pace > 0))',
        'pl.col("change_ns") > 0))',
        "tests/unit/test_history.py"
        "::TestRegressions::test_what_regressed_takes_longer_by_itself_and_at_equal_pace",
    ),
    Mutant(
        "10a",
        "a record of memory in no op of its thread goes to what started last anywhere",
        "profframe/facts/memory.py",
        "    search(any_slice, thread, record_thread)\n",
        "",
        "tests/unit/test_facts_memory.py"
        "::test_what_is_on_the_records_own_thread_goes_before_what_started_later_elsewhere",
    ),
    Mutant(
        "10b",
        "a call that returns as the work of its stream ends has not waited for it",
        "profframe/analysis/critical_path/graph.py",
        "last_until(works.stream, works.end, stream, until)",
        "last_until(works.stream, works.end, stream, until - 1)",
        "tests/parity/test_critical_path.py"
        "::test_a_call_that_returns_as_the_work_ends_has_waited_for_it",
    ),
    Mutant(
        "10c",
        "a call that returns as the last work of all streams ends has not waited for it",
        "profframe/analysis/critical_path/graph.py",
        "group[: call.size], until)",
        "group[: call.size], until - 1)",
        "tests/parity/test_critical_path.py"
        "::test_a_call_that_returns_as_the_work_ends_has_waited_for_it",
    ),
)

FACTS: Final = (
    Mutant(
        "11",
        "an op without an External id is a mismatch",
        "profframe/facts/launching_ops.py",
        "joined & has_id & has_id[op] & (external[op] != external)",
        "joined & has_id & (external[op] != external)",
        "tests/unit/test_facts_launches.py::test_only_ids_that_differ_are_a_mismatch",
    ),
    Mutant(
        "12",
        "of two calls that start together the outer one launched",
        "profframe/facts/launch_calls.py",
        "np.lexsort((preorder, start))",
        "np.lexsort((-preorder, start))",
        "tests/unit/test_facts_launches.py"
        "::test_of_calls_that_start_together_the_inner_one_launched",
    ),
    Mutant(
        "13",
        "a step is that of the launch or else of the op, row by row",
        "profframe/facts/steps.py",
        "cause = launch if (launch >= 0).any() else op",
        "cause = np.where(launch >= 0, launch, op)",
        "tests/unit/test_facts_launches.py::test_where_calls_are_known_an_op_gives_no_step",
    ),
    Mutant(
        "14",
        "as torch has it, work of an HPU has an op",
        "profframe/facts/torch_compat/alternatives.py",
        '("MTIA", "HPU")',
        '("MTIA",)',
        "tests/unit/test_facts_device_time.py::test_torch_gives_the_work_of_some_devices_to_no_op",
    ),
    Mutant(
        "15",
        "a forward op that ends in the nanosecond of its backward op is not found",
        "profframe/facts/forward.py",
        'np.searchsorted(key, at_end, side="right")',
        'np.searchsorted(key, at_end, side="left")',
        "tests/unit/test_facts_torch.py::test_a_forward_op_ends_no_later_than_its_backward_op",
    ),
    Mutant(
        "16",
        "an op inside has to do all of the work to say its type",
        "profframe/facts/op_work.py",
        "2 * op_work.flops[rows] >= op_work.flops[around[rows]]",
        "op_work.flops[rows] >= op_work.flops[around[rows]]",
        "tests/unit/test_facts_work.py::test_an_op_inside_says_it_if_it_does_half_of_the_work",
    ),
    Mutant(
        "17",
        "tf32 of a kernel without an owner spreads to all without one",
        "profframe/facts/op_work.py",
        "        in_tf32[-1] = False\n",
        "",
        "tests/unit/test_facts_work.py::test_tf32_is_of_the_kernels_of_one_owner",
    ),
    Mutant(
        "18",
        "linear_backward counts gradients that its mask leaves out",
        "profframe/facts/formulas/matrices.py",
        "sum(map(bool, mask[:2]))",
        "len(mask[:2])",
        "tests/unit/test_formulas.py::test_by_hand",
    ),
    Mutant(
        "19a",
        "keys of far times in many groups do not fit into 64 bits",
        "profframe/intervals.py",
        "_KEY_BITS: Final = 62",
        "_KEY_BITS: Final = 66",
        "tests/unit/test_intervals.py::test_far_times_of_many_groups_keep_their_order",
    ),
    Mutant(
        "19b",
        "where times are too far apart for one key, groups meet",
        "profframe/intervals.py",
        "group.astype(np.int64) * distinct.size +",
        "group.astype(np.int64) * (distinct.size - 1) +",
        "tests/unit/test_intervals.py::test_stab_with_times_too_far_apart_for_one_key",
    ),
    Mutant(
        "19c",
        "the last point until a moment is one before that moment",
        "profframe/intervals.py",
        'place = np.searchsorted(key[rows], moment_key, side="right") - 1',
        'place = np.searchsorted(key[rows], moment_key, side="left") - 1',
        "tests/unit/test_intervals.py::test_the_last_point_until_a_moment",
    ),
)

READERS: Final = (
    Mutant(
        "20",
        "damage at the end of a wave has the place of the next wave",
        "profframe/readers/json/stream.py",
        "pending + text, start if pending else begin",
        "pending + text, begin",
        "tests/unit/test_json_stream.py::test_the_place_is_that_of_the_first_wherever_waves_end",
    ),
    Mutant(
        "20a",
        "a thread that waits for Python's lock may be the one that holds it",
        "sql/answers/python_pauses.sql",
        "WHERE met.thread <> holds.thread AND greatest",
        "WHERE greatest",
        "tests/sql/test_golden.py::test_other_traces_beside_it_and_another_order_of_rows_change_nothing[python_pauses]",
    ),
    Mutant(
        "20b",
        "two threads hold Python's lock at a time",
        "sql/answers/python_pauses.sql",
        """        process, thread, start_ns,
        least(end_ns, lead(start_ns) OVER in_time) AS end_ns,
""",
        """        process, thread, start_ns,
        end_ns,
""",
        "tests/sql/test_golden.py::test_other_traces_beside_it_and_another_order_of_rows_change_nothing[python_pauses]",
    ),
    Mutant(
        "20c",
        "holding Python's lock is an annotation, in which kernels are launched",
        "profframe/facts/kinds.py",
        """    Rule("gil", category=r"NVTX", name=_GIL),
""",
        "",
        "tests/unit/test_python_pauses.py::test_the_lock_crosses_ranges_and_takes_no_part_in_them",
    ),
    Mutant(
        "21a",
        "the machine is named where there is only one",
        "profframe/readers/sqlite/nsys.py",
        "self._several_machines = len(machines) > 1",
        "self._several_machines = len(machines) > 0",
        "tests/unit/test_nsys.py::test_the_machine_is_named_only_where_there_are_several",
    ),
    Mutant(
        "21b",
        "of several processes the first has all kernels",
        "profframe/readers/sqlite/nvprof.py",
        "str(*pids) if len(pids) == 1 else None",
        "str(min(pids)) if pids else None",
        "tests/unit/test_nvprof.py::test_of_several_processes_a_kernel_has_none",
    ),
    Mutant(
        "22",
        "times that leave no room for a base are read",
        "profframe/readers/build/decimal_time.py",
        "np.abs(high) >= _MOST_WORDS",
        "np.abs(high) >= 2 * _MOST_WORDS",
        "tests/unit/test_decimal_time.py::test_what_leaves_no_room_for_a_base_is_bad",
    ),
)

TIES: Final = (
    Mutant(
        "23",
        "a gap is a sync's where the host had as much of it",
        "sql/lib/idle_causes.sql",
        "WHEN sync_ns > host_ns THEN 'sync'",
        "WHEN sync_ns >= host_ns THEN 'sync'",
        "tests/sql/test_golden.py::TestGolden::test_rows[idle-waits]",
    ),
    Mutant(
        "host-waits-1",
        "a call inside one that waits is counted again",
        "sql/answers/host_waits.sql",
        "blocks.parent_id = around.event_id",
        "blocks.event_id = -around.event_id",
        "tests/sql/test_golden.py::TestGolden::test_rows[host_waits-threads]",
    ),
    Mutant(
        "host-waits-2",
        "a copy that is only handed over counts as a wait",
        "sql/answers/host_waits.sql",
        "OR copies.end_ns <= calls.end_ns",
        "OR copies.end_ns IS NOT NULL",
        "tests/sql/test_golden.py::TestGolden::test_rows[host_waits-which_calls]",
    ),
    Mutant(
        "host-waits-3",
        "idle time after a wait goes on while another waits",
        "sql/answers/host_waits.sql",
        "least(gaps.end_ns, last.next_ns) - last.until_ns",
        "gaps.end_ns - last.until_ns",
        "tests/sql/test_golden.py::TestGolden::test_rows[host_waits-idle_after]",
    ),
    Mutant(
        "recompute-1",
        "shares of what ran again are of all steps",
        "sql/lib/recompute.sql",
        "sum(dur_ns) FILTER (ranks.steps IS NULL OR marks.step IS NOT NULL)",
        "sum(dur_ns)",
        "tests/sql/test_golden.py::TestGolden::test_rows[recompute-of_steps]",
    ),
    Mutant(
        "24",
        "of slices with equal parts of a gap the last one is named",
        "sql/answers/gaps.sql",
        "ORDER BY part_ns DESC, min(event_id))",
        "ORDER BY part_ns DESC, min(event_id) DESC)",
        "tests/sql/test_golden.py::TestGolden::test_rows[gaps-host]",
    ),
    Mutant(
        "25",
        "an op that ends as the call begins is not before it",
        "sql/answers/stragglers.sql",
        "ORDER BY lane, at_ns, is_call\n",
        "ORDER BY lane, at_ns, is_call DESC\n",
        "tests/sql/test_golden.py::TestGolden::test_rows[stragglers-by_op]",
    ),
    Mutant(
        "26",
        "as many changes as points are too many",
        "sql/answers/queue_depth.sql",
        "HAVING points > 0 AND count(*) > points",
        "HAVING points > 0 AND count(*) >= points",
        "tests/sql/test_golden.py::TestGolden::test_rows[queue_depth-points]",
    ),
    Mutant(
        "27",
        "work that takes as long by both peaks is bound by memory",
        "sql/answers/roofline.sql",
        "CASE WHEN compute_ps >= memory_ps THEN 'compute' WHEN compute_ps < memory_ps THEN",
        "CASE WHEN compute_ps > memory_ps THEN 'compute' WHEN compute_ps <= memory_ps THEN",
        "tests/sql/test_golden.py::TestGolden::test_rows[roofline-by_kernel]",
    ),
    Mutant(
        "28",
        "work that begins as its launch returns did not wait for that",
        "profframe/analysis/critical_path/graph.py",
        "returned = works.call_end <= works.start",
        "returned = works.call_end < works.start",
        "tests/parity/test_critical_path.py"
        "::test_work_that_begins_as_its_launch_returns_waited_for_that",
    ),
    Mutant(
        "29a",
        "collectives of ranks whose first steps differ begin anew in each step",
        "sql/lib/collectives.sql",
        "HAVING count(DISTINCT first_step) = 1 AND ",
        "HAVING ",
        "tests/sql/test_golden.py::TestGolden::test_rows[collectives-steps]",
    ),
    Mutant(
        "29b",
        "collectives of ranks whose last steps differ begin anew in each step",
        "sql/lib/collectives.sql",
        " AND count(DISTINCT last_step) = 1 AND ",
        " AND ",
        "tests/sql/test_golden.py::TestGolden::test_rows[collectives-steps]",
    ),
    Mutant(
        "29c",
        "collectives begin anew in each step where a rank has no steps",
        "sql/lib/collectives.sql",
        " AND count(first_step) = count(*)\n",
        "\n",
        "tests/sql/test_golden.py::TestGolden::test_rows[collectives-steps]",
    ),
)

MINOR: Final = (
    Mutant(
        "30a",
        "a duration is 1000.000 us",
        "profframe/show/units.py",
        "if size >= 999_999.5:",
        "if size >= 1_000_000:",
        "tests/unit/test_show.py::test_what_rounds_to_the_next_unit_has_it",
    ),
    Mutant(
        "30b",
        "U+2066 to U+2069 reorder what is shown",
        "profframe/show/units.py",
        r"\u2060-\u206f",
        r"\u2060-\u2065\u206a-\u206f",
        "tests/unit/test_show.py::test_what_acts_or_cannot_be_seen_is_an_escape",
    ),
    Mutant(
        "31a",
        "a file at work is called .parquet",
        "profframe/store/writing.py",
        'fresh / f"{name}{_UNFINISHED}"',
        'fresh / f"{name}.parquet"',
        "tests/unit/test_store_races.py::test_a_file_at_work_is_called_no_parquet",
    ),
    Mutant(
        "31b",
        "what was set aside is not put back first",
        "profframe/store/writing.py",
        "    if aside.exists() and not target.exists():\n        aside.rename(target)\n",
        "",
        "tests/unit/test_store_races.py::test_what_was_set_aside_is_put_back_before_anything_else",
    ),
)

RANKS: Final = (
    Mutant(
        "32a",
        "a rank holds up the job from when the first one came",
        "sql/lib/collectives.sql",
        "WHEN row_number() OVER arrival = ranks THEN lag(came_ns) OVER arrival",
        "WHEN row_number() OVER arrival = ranks THEN min(came_ns) OVER (PARTITION BY match)",
        "tests/parity/test_delays.py"
        "::test_the_last_rank_holds_up_a_collective_since_the_one_before_it",
    ),
    Mutant(
        "32b",
        "the middle rank of three is behind",
        "sql/lib/collectives.sql",
        "OVER arrival > (ranks + 1) // 2",
        "OVER arrival > ranks // 2",
        "tests/parity/test_blame.py::test_what_is_late_and_what_is_transfer",
    ),
    Mutant(
        "32c",
        "what makes a rank late to two groups counts twice",
        "sql/lib/blame.sql",
        "coalesce(counted.added_ns, waits.behind_ns) AS behind_ns",
        "waits.behind_ns",
        "tests/parity/test_blame.py::test_who_waits_for_a_late_rank_is_not_to_blame",
    ),
    Mutant(
        "32d",
        "waiting for a late rank is exposed communication",
        "sql/rules/exposed_communication.sql",
        "exposed_ns - waited_ns AS own_ns",
        "exposed_ns AS own_ns",
        "tests/sql/test_rules.py"
        "::test_order_and_other_traces_beside_it_change_nothing[exposed_communication]",
    ),
    Mutant(
        "32e",
        "a rank that is late because it waited is a finding",
        "sql/rules/straggler.sql",
        "WHERE causes.cause <> 'wait' AND ",
        "WHERE ",
        "tests/sql/test_rules.py::test_order_and_other_traces_beside_it_change_nothing[straggler]",
    ),
    Mutant(
        "32f",
        "what was not recorded is no part of a walk",
        "profframe/analysis/critical_path/blame.py",
        "        if since < 0:\n            taken.append((path, NONE, UNKNOWN, since, 0))\n",
        "",
        "tests/parity/test_blame.py::test_it_adds_up_where_not_all_clocks_are_known",
    ),
    Mutant(
        "32g",
        "mending what loads data mends all that a thread does",
        "profframe/analysis/simulation/remedies.py",
        "rows &= _within(own, its.is_load) == (cause == _INPUT)",
        "rows &= True",
        "tests/parity/test_gains.py::test_a_late_loader_gains_what_the_loader_costs",
    ),
    Mutant(
        "32h",
        "what is done between a backward pass and a message is a forward",
        "sql/lib/pipelines.sql",
        "THEN got_forward AND piece = min(piece) OVER of_part",
        "THEN true OR got_forward AND piece = min(piece) OVER of_part",
        "tests/parity/test_pipelines.py::test_what_torch_did_is_what_its_schedule_says[1F1B]",
    ),
    Mutant(
        "32i",
        "clocks are as they are unless asked",
        "sql/answers/stragglers.sql",
        "coalesce(getvariable('corrected'), true)",
        "coalesce(getvariable('corrected'), false)",
        "tests/sql/test_headers.py::test_answers_that_compare_ranks_have_one_default_for_clocks",
    ),
)

GATES: Final = (
    Mutant(
        "33a",
        "a change that may be noise breaks its limit",
        "profframe/analysis/fail_on.py",
        "is_above and not is_noise)",
        "is_above)",
        "tests/unit/test_limits.py::test_a_change_above_the_limit_that_is_noise_holds",
    ),
    Mutant(
        "33b",
        "the warm-up counts in the time of a step",
        "profframe/comparisons/fail_on_metrics.py",
        """steps.join(skipped_steps(side.trace, side.steps), on=["run", "step"], how="anti")""",
        "steps",
        "tests/unit/test_limits.py::test_only_steady_steps_count_unless_all_are_asked_for",
    ),
    Mutant(
        "33c",
        "a step lasts as long as on its shortest rank",
        "sql/lib/steps.sql",
        "max(completed_ns) AS completed_ns",
        "min(completed_ns) AS completed_ns",
        "tests/unit/test_limits.py::test_a_step_lasts_as_long_as_on_its_longest_rank",
    ),
    Mutant(
        "33d",
        "a slow step amid the others is of the warm-up",
        "sql/lib/steady_steps.sql",
        "PARTITION BY run, rank ORDER BY start_ns NULLS LAST, event_id ROWS UNBOUNDED PRECEDING",
        "PARTITION BY run, rank, event_id",
        "tests/sql/test_golden.py::TestGolden::test_rows[step_times-steady]",
    ),
    Mutant(
        "33e",
        "a name that is there is taken for a pattern",
        "profframe/comparisons/fail_on_metrics.py",
        "    return exact or [\n",
        "    return [\n",
        "tests/unit/test_limits.py::test_any_name",
    ),
    Mutant(
        "33f",
        "a bar in a name ends its cell",
        "profframe/show/comment.py",
        """_DELICATE: Final = re.compile(r"[|`]|""",
        """_DELICATE: Final = re.compile(r"[`]|""",
        "tests/unit/test_comment.py::test_a_name_is_read_as_it_is",
    ),
)

PLANTED_3A: Final = (
    Mutant(
        "M3",
        "the call before the first of a capture is its last one",
        "profframe/facts/graph_captures/replay_matching.py",
        "if offset and captured[offset - 1] == ran[0]:",
        "if captured[offset - 1] == ran[0]:",
        "tests/unit/test_graph_captures.py"
        "::test_a_replay_that_begins_with_its_capture_has_lost_nothing_before",
    ),
    Mutant(
        "M3a",
        "the first of several equal calls at the beginning of a capture was lost",
        "profframe/facts/graph_captures/replay_matching.py",
        "if offset and captured[offset - 1] == ran[0]:",
        "if False:",
        "tests/unit/test_graph_captures.py"
        "::test_which_of_equal_calls_at_an_end_was_lost_is_not_known",
    ),
    Mutant(
        "M3b",
        "the last of several equal calls at the end of a capture was lost",
        "profframe/facts/graph_captures/replay_matching.py",
        "if extra > offset and captured[offset + size] == ran[-1]:",
        "if False:",
        "tests/unit/test_graph_captures.py"
        "::test_which_of_equal_calls_at_an_end_was_lost_is_not_known",
    ),
    Mutant(
        "M3c",
        "work of two streams is of one call",
        "profframe/facts/graph_captures/replay_matching.py",
        "return result if np.unique(taken).size == taken.size else None",
        "return result",
        "tests/unit/test_graph_captures.py::test_work_of_two_streams_is_not_of_one_call",
    ),
    Mutant(
        "M5",
        "a graph for exactly twice the tokens fits",
        "profframe/facts/graph_captures/choosing.py",
        "s < max(_MOST_PADDING * size, 2)",
        "s <= max(_MOST_PADDING * size, 2)",
        "tests/unit/test_graph_captures.py::test_a_graph_for_twice_the_tokens_is_another_one",
    ),
    Mutant(
        "GS",
        "a graph node gets the stack of another graph than the one beside its number",
        "profframe/facts/graph_captures/recorded_stacks.py",
        "((graph < 0) | (graph == node >> GRAPH_BITS))",
        "(graph == graph)",
        "tests/unit/test_graph_stacks.py::TestWhatFitsNothing"
        "::test_a_node_whose_number_says_another_graph",
    ),
    Mutant(
        "GSa",
        "a file of stacks without a rank is of every rank",
        "profframe/facts/graph_captures/recorded_stacks.py",
        "(is_alone and (source.rank is None or",
        "((source.rank is None or",
        "tests/unit/test_graph_stacks.py::TestSeveralProcesses"
        "::test_a_file_without_a_rank_is_of_none_of_several",
    ),
    Mutant(
        "GSb",
        "of two stacks of a node the one of the first file counts",
        "profframe/facts/graph_captures/recorded_stacks.py",
        "np.where(low == high, low, -1)",
        "low",
        "tests/unit/test_graph_stacks.py::TestSeveralProcesses::test_two_files_that_disagree",
    ),
    Mutant(
        "GSc",
        "stacks count more than a capture",
        "profframe/facts/graph_captures/attribution.py",
        "np.where(has_op[runs.rows], -1, stack)",
        "stack",
        "tests/unit/test_graph_stacks.py::test_a_capture_wins",
    ),
    Mutant(
        "GSd",
        "captured frames count a replay for each kernel",
        "profframe/facts/graph_captures/attribution.py",
        "recorded_rows(leaves, launches.size)\n            part = _CaptureRows(rows, f",
        "recorded_rows(leaves, at.size)\n            part = _CaptureRows(rows, f",
        "tests/unit/test_graph_stacks.py::test_lines_modules_and_launch_sites",
    ),
    Mutant(
        "GSe",
        "the gap before a replay is of its first captured line",
        "sql/lib/gap_owners.sql",
        "    AND gaps.start_ns > begun.first_ns;",
        ";",
        "tests/unit/test_graph_stacks.py::test_gaps_inside_a_replay_are_of_the_captured_line",
    ),
    Mutant(
        "GSf",
        "module calls of the host hide the modules of graph kernels",
        "sql/answers/modules.sql",
        "AND (events.replays IS NULL OR events.thread = frames.thread)",
        "",
        "tests/unit/test_graph_stacks.py::test_modules_of_the_host_do_not_hide_those_of_graphs",
    ),
    Mutant(
        "M7",
        "a capture is complete in the nanosecond in which its last call begins",
        "profframe/facts/graph_captures/choosing.py",
        "until = np.searchsorted(complete, start[runs.launches])",
        'until = np.searchsorted(complete, start[runs.launches], side="right")',
        "tests/unit/test_graph_captures.py"
        "::test_a_graph_is_not_launched_while_its_last_call_is_captured",
    ),
    Mutant(
        "M7a",
        "launches of all threads are one pass",
        "profframe/facts/graph_captures/choosing.py",
        "np.unique(np.stack((thread, scope)), axis=1, return_inverse=True)",
        "np.unique(np.stack((scope, scope)), axis=1, return_inverse=True)",
        "tests/unit/test_graph_captures.py::test_each_thread_has_passes_of_its_own",
    ),
    Mutant(
        "M8",
        "a pass that is no whole number of rows begins with the first capture",
        "profframe/facts/graph_captures/choosing.py",
        "begins[0] == 0 and len(of_row) % len(row) == 0:",
        "begins[0] == 0:",
        "tests/unit/test_graph_captures.py"
        "::test_a_step_of_one_and_a_half_passes_may_begin_with_either_graph",
    ),
    Mutant(
        "M8a",
        "a whole pass begins with the first capture even if that does not fit",
        "profframe/facts/graph_captures/choosing.py",
        "is_whole and begins[0] == 0 and len",
        "is_whole and len",
        "tests/unit/test_graph_captures.py"
        "::test_a_step_that_begins_with_no_first_graph_may_begin_with_any_other",
    ),
    Mutant(
        "M8b",
        "launches in no annotation are a whole pass",
        "profframe/facts/graph_captures/choosing.py",
        "if len(begins) > 1 and is_whole and",
        "if len(begins) > 1 and",
        "tests/unit/test_graph_captures.py::test_launches_in_no_annotation_are_no_whole_pass",
    ),
    Mutant(
        "M8c",
        "launches of all steps are one pass",
        "profframe/facts/graph_captures/choosing.py",
        "np.unique(np.stack((thread, scope)), axis=1, return_inverse=True)",
        "np.unique(np.stack((thread, thread)), axis=1, return_inverse=True)",
        "tests/unit/test_graph_captures.py::test_each_step_is_a_pass_of_its_own",
    ),
    Mutant(
        "M10",
        "kernels with a category are unknown communication",
        "profframe/facts/kernel_categories.py",
        "of_interest = is_other & alike[names]",
        "of_interest = alike[names]",
        "tests/unit/test_facts_kernel_categories.py"
        "::test_what_has_a_category_is_no_unknown_communication",
    ),
    Mutant(
        "M12",
        "values may be fewer than their keys",
        "profframe/facts/formulas/attention.py",
        "query[-1] != key[-1] or key[1] != value[1]:",
        "query[-1] != key[-1]:",
        "tests/unit/test_formulas.py::test_values_that_are_not_as_many_as_their_keys_are_unknown",
    ),
    Mutant(
        "M12a",
        "values may be fewer than their keys where heads come first",
        "profframe/facts/formulas/attention.py",
        "query[-1] != key[-1] or key[-2] != value[-2]:",
        "query[-1] != key[-1]:",
        "tests/unit/test_formulas.py::test_values_that_are_not_as_many_as_their_keys_are_unknown",
    ),
    Mutant(
        "M12b",
        "keys may be narrower than their queries where heads come first",
        "profframe/facts/formulas/attention.py",
        "or query[-1] != key[-1] or key[-2] != value[-2]:",
        "or key[-2] != value[-2]:",
        "tests/unit/test_formulas.py::test_keys_that_are_not_as_wide_as_their_queries_are_unknown",
    ),
    Mutant(
        "M12c",
        "keys may be narrower than their queries",
        "profframe/facts/formulas/attention.py",
        "query[-1] != key[-1] or key[1] != value[1]:",
        "key[1] != value[1]:",
        "tests/unit/test_formulas.py::test_keys_that_are_not_as_wide_as_their_queries_are_unknown",
    ),
    Mutant(
        "M18",
        "a rank that left as the last one came has waited for it",
        "profframe/analysis/critical_path/path_across_ranks.py",
        "(end > start[last])",
        "(end >= start[last])",
        "tests/parity/test_critical_path_of_jobs.py"
        "::test_a_rank_that_leaves_as_the_last_one_comes_did_not_wait_for_it",
    ),
    Mutant(
        "M18a",
        "a rank that came together with the last one has waited for it",
        "profframe/analysis/critical_path/path_across_ranks.py",
        "waits = (start[last] > start) &",
        "waits = (start[last] >= start) &",
        "tests/parity/test_critical_path_of_jobs.py"
        "::test_a_rank_that_comes_with_the_last_one_does_not_wait_for_it",
    ),
    Mutant(
        "M19",
        "of ranks that come together the highest is the last",
        "profframe/analysis/critical_path/path_across_ranks.py",
        "np.lexsort((-self.rank, self.start, self.match))",
        "np.lexsort((self.rank, self.start, self.match))",
        "tests/parity/test_critical_path_of_jobs.py"
        "::test_of_ranks_that_come_together_the_lowest_is_the_last",
    ),
    Mutant(
        "M25",
        "nobody waits in a collective of hosts",
        "profframe/analysis/critical_path/blame.py",
        "member[(path.edge != WORK) & (path.edge != SLICE)] = NONE",
        "member[path.edge != WORK] = NONE",
        "tests/parity/test_blame.py::test_a_collective_of_hosts_waits_for_a_late_rank",
    ),
    Mutant(
        "M30",
        "an op that launches nothing is launching",
        "profframe/analysis/simulation/changes.py",
        "(details.is_op & contains)",
        "details.is_op",
        "tests/parity/test_what_if.py"
        "::test_an_op_that_launches_nothing_takes_its_time_without_launches",
    ),
    Mutant(
        "M30a",
        "an op launches what begins as it ends",
        "profframe/analysis/simulation/changes.py",
        "slices.thread, slices.end - 1)\n    contains",
        "slices.thread, slices.end)\n    contains",
        "tests/parity/test_what_if.py::test_an_op_launches_what_begins_before_it_ends",
    ),
    Mutant(
        "M30b",
        "an op launches what other threads launch meanwhile",
        "profframe/analysis/simulation/changes.py",
        "last_until(thread, start, slices.thread, slices.end - 1)",
        "last_until(0 * thread, start, 0 * slices.thread, slices.end - 1)",
        "tests/parity/test_what_if.py::test_an_op_launches_nothing_of_another_thread",
    ),
    Mutant(
        "M30c",
        "an op does not launch what begins with it",
        "profframe/analysis/simulation/changes.py",
        ">= slices.start\n    return (calls",
        "> slices.start\n    return (calls",
        "tests/parity/test_what_if.py::test_an_op_launches_what_begins_with_it",
    ),
    Mutant(
        "M31",
        "whatever happens between two launches is launching",
        "profframe/analysis/simulation/changes.py",
        "free[rows[length <= high + 3 * (high - low)]] = True",
        "free[rows] = True",
        "tests/parity/test_what_if.py"
        "::test_what_takes_unusually_long_between_launches_is_not_launching",
    ),
    Mutant(
        "M31a",
        "what is between launches of two threads is launching",
        "profframe/analysis/simulation/changes.py",
        "goes_on = (points.thread[before] == points.thread[after]) & (",
        "goes_on = (",
        "tests/parity/test_what_if.py::test_an_op_launches_nothing_of_another_thread",
    ),
    Mutant(
        "M31b",
        "other calls between two launches are launching",
        "profframe/analysis/simulation/changes.py",
        " & (calls[before] == calls[after])",
        "",
        "tests/parity/test_what_if.py::test_a_call_between_launches_takes_its_time",
    ),
    Mutant(
        "M37",
        "a call that compiles exists to wait for what it waits for, too",
        "profframe/analysis/causes/delays.py",
        "_PRECEDENCE: Final = (SYNC, LOAD, RESUME, COMPILE)",
        "_PRECEDENCE: Final = (COMPILE, RESUME, LOAD, SYNC)",
        "tests/parity/test_explain.py::test_of_several_things_in_a_call_the_rarest_is_its_purpose",
    ),
    Mutant(
        "M37a",
        "a call that ends as a device begins to wait is no reason",
        "profframe/analysis/causes/delays.py",
        'np.searchsorted(self.end_ns, start_ns, side="right") - 1',
        "np.searchsorted(self.end_ns, start_ns) - 1",
        "tests/parity/test_explain.py"
        "::test_a_piece_is_due_to_the_largest_call_that_ended_before_it_in_its_step",
    ),
    Mutant(
        "M37b",
        "the last call is the reason, whatever its length",
        "profframe/analysis/causes/delays.py",
        "np.maximum.accumulate(np.where(key == most, np.arange(key.size), 0))",
        "np.arange(key.size)",
        "tests/parity/test_explain.py"
        "::test_a_piece_is_due_to_the_largest_call_that_ended_before_it_in_its_step",
    ),
    Mutant(
        "M37c",
        "a call of another step is a reason",
        "profframe/analysis/causes/delays.py",
        "(np.append(self.window, -1)[at] == window)",
        "(at >= 0)",
        "tests/parity/test_explain.py"
        "::test_a_piece_is_due_to_the_largest_call_that_ended_before_it_in_its_step",
    ),
    Mutant(
        "M37d",
        "a call that launches what it waits for exists to wait",
        "profframe/analysis/causes/delays.py",
        "    sort[launching[sort[launching] == SYNC]] = NO_SORT\n",
        "",
        "tests/parity/test_explain.py::test_what_launches_kernels_does_not_exist_to_wait_for_them",
    ),
    Mutant(
        "M37e",
        "a call that compiles and launches kernels does not exist to compile",
        "profframe/analysis/causes/delays.py",
        "sort[launching[sort[launching] == SYNC]] = NO_SORT",
        "sort[launching] = NO_SORT",
        "tests/parity/test_explain.py::test_what_launches_kernels_does_not_exist_to_wait_for_them",
    ),
    Mutant(
        "M37f",
        "a call that copies does not exist to wait for the copy",
        "profframe/analysis/causes/delays.py",
        "is_kernel = (slices.work != COPY)[tree.row[works]]",
        "is_kernel = (slices.work > 0)[tree.row[works]]",
        "tests/parity/test_explain.py::test_what_launches_kernels_does_not_exist_to_wait_for_them",
    ),
)

PLANTED_3B: Final = (
    Mutant(
        "M39",
        "calls that do exactly four times the work are not the same",
        "profframe/analysis/causes/slots.py",
        "if max(counts) > _ALIKE * min(counts):",
        "if max(counts) >= _ALIKE * min(counts):",
        "tests/parity/test_explain.py::test_calls_are_the_same_up_to_four_times_the_work",
    ),
    Mutant(
        "M44",
        "absolute times are on the clock of the trace",
        "profframe/readers/perfetto/events.py",
        "absolute.value * 1000 + packets.monotonic[places[absolute.owner]]",
        "absolute.value * 1000",
        "tests/unit/test_perfetto_writers.py"
        "::test_absolute_times_of_the_first_writers_are_on_the_monotonic_clock",
    ),
    Mutant(
        "M44b",
        "delta times begin on the clock of the trace",
        "profframe/readers/perfetto/state.py",
        "reference + (monotonic.last if monotonic else 0),",
        "reference,",
        "tests/unit/test_perfetto_writers.py"
        "::test_each_sequence_counts_delta_times_from_its_own_thread",
    ),
    Mutant(
        "M44c",
        "all packets have the default clock of one sequence",
        "profframe/readers/perfetto/packets.py",
        "default[epoch == part] = state.default_clocks.get(part, 0)",
        "default[:] = state.default_clocks.get(part, 0)",
        "tests/unit/test_perfetto_writers.py"
        "::test_each_sequence_has_its_own_clock_and_track_by_default",
    ),
    Mutant(
        "M45",
        "delta times start anew in each batch",
        "profframe/readers/perfetto/events.py",
        "                thread.last_ns = int(times[rows.owner[-1]])\n",
        "",
        "tests/unit/test_perfetto_writers.py"
        "::test_delta_times_go_on_behind_a_snapshot_and_in_the_next_batch",
    ),
    Mutant(
        "M45a",
        "packets that one sequence loses stop the clocks of all",
        "profframe/readers/perfetto/state.py",
        "[c for c in self.own_clocks if c[0] == sequence]",
        "[*self.own_clocks]",
        "tests/unit/test_perfetto_writers.py"
        "::test_a_clock_that_counts_up_goes_on_behind_what_other_sequences_say",
    ),
    Mutant(
        "M45b",
        "delta times of all sequences add up together",
        "profframe/readers/perfetto/events.py",
        "rows = deltas.where(epoch[deltas.owner] == part)",
        "rows = deltas",
        "tests/unit/test_perfetto_writers.py"
        "::test_each_sequence_counts_delta_times_from_its_own_thread",
    ),
    Mutant(
        "M45c",
        "clocks that count up start anew in each batch",
        "profframe/readers/perfetto/packets.py",
        "                own_clock.last = int(time[own_rows[-1]])\n",
        "",
        "tests/unit/test_perfetto_writers.py"
        "::test_a_clock_that_counts_up_goes_on_behind_what_other_sequences_say",
    ),
    Mutant(
        "M47",
        "work that also numbers stages is none",
        "profframe/readers/perfetto/gpu.py",
        "parts.has(_EVENT_ID, damaged.size) | ~parts.has(_SPECIFICATIONS, damaged.size)",
        "~parts.has(_SPECIFICATIONS, damaged.size)",
        "tests/unit/test_perfetto_writers.py"
        "::test_an_event_that_numbers_stages_is_work_if_it_has_an_id",
    ),
    Mutant(
        "M47b",
        "stages are those that any sequence numbered last",
        "profframe/readers/perfetto/gpu.py",
        "stages.get(part, stages.get(0, nothing))[which]",
        "stages.get(0, nothing)[which]",
        "tests/unit/test_perfetto_writers.py::test_each_sequence_numbers_its_own_stages",
    ),
    Mutant(
        "M47c",
        "all events have the default track of one sequence",
        "profframe/readers/perfetto/events.py",
        "tracks[(epoch == own) & (tracks == 0)]",
        "tracks[tracks == 0]",
        "tests/unit/test_perfetto_writers.py"
        "::test_each_sequence_has_its_own_clock_and_track_by_default",
    ),
    Mutant(
        "M50",
        "an added slice of 1 ns has no end",
        "profframe/export/pftrace/packets.py",
        "is_added = is_slice & (duration > 0) & has_time",
        "is_added = is_slice & (duration > 1) & has_time",
        "tests/unit/test_export_pftrace.py"
        "::test_added_slices_end_whether_they_last_2_ns_or_1_or_none",
    ),
    Mutant(
        "M52",
        "of equally slow steps the last one has the path",
        "profframe/trace/timeline_selection.py",
        'times.sort(shared, "step_ns", -pl.col("step"), descending=True)',
        'times.sort(shared, "step_ns", pl.col("step"), descending=True)',
        "tests/unit/test_timeline.py::test_of_equally_slow_steps_the_path_is_of_the_first",
    ),
    Mutant(
        "M52b",
        "the slowest step of any run is that of each",
        "profframe/trace/timeline_selection.py",
        "step = _slowest(times.filter(is_run))",
        "step = _slowest(times)",
        "tests/unit/test_timeline.py::test_of_equally_slow_steps_the_path_is_of_the_first",
    ),
    Mutant(
        "M53",
        "a rank whose clock is ahead is drawn too late",
        "profframe/pages/timeline/lanes.py",
        '.min().over("run") + pl.col("_ahead")',
        '.min().over("run")',
        "tests/unit/test_timeline.py::test_a_clock_that_is_ahead_begins_as_much_later",
    ),
    Mutant(
        "M53b",
        "a path across ranks is drawn by the clock of each",
        "profframe/pages/timeline/page_slices.py",
        "first: Ints = np.searchsorted(run, run)[trace]",
        "first: Ints = trace",
        "tests/unit/test_timeline.py::test_a_path_across_ranks_is_on_the_clock_of_the_lowest_one",
    ),
    Mutant(
        "M53c",
        "steps and counters are drawn by the clock of the first rank",
        "profframe/pages/timeline/metadata.py",
        'zero = pl.Series("_zero", content.slices.zeros)[trace]',
        "zero = int(content.slices.zeros[0])",
        "tests/unit/test_timeline.py::test_steps_and_counters_begin_by_the_clock_of_their_rank",
    ),
    Mutant(
        "M61",
        "ranks that come as one goes on were not together",
        "sql/lib/blame.sql",
        "ORDER BY at_ns, match NULLS FIRST",
        "ORDER BY at_ns, match NULLS LAST",
        "tests/parity/test_blame.py::test_ranks_are_together_at_the_moment_at_which_one_goes_on",
    ),
    Mutant(
        "M61b",
        "who meets a third rank is together with all that it is late to",
        "sql/lib/blame.sql",
        " AND list_contains(groups.ranks, pairs.before_rank)\n",
        "\n",
        "tests/parity/test_blame.py::test_who_meets_a_third_rank_is_not_together_with_the_others",
    ),
    Mutant(
        "M63",
        "the profiler's own slices begin a rank",
        "sql/lib/blame.sql",
        "    WHERE kind <> 'profiler'\n    GROUP BY run, rank\n",
        "    GROUP BY run, rank\n",
        "tests/sql/test_golden.py::TestGolden::test_rows[stragglers-recorded]",
    ),
    Mutant(
        "M63b",
        "when the other rank was first recorded is told by its own clock",
        "sql/lib/blame.sql",
        "other.first_ns - pairs.before_start_ns + pairs.before_came_ns + pairs.start_ns"
        " - pairs.came_ns",
        "other.first_ns",
        "tests/sql/test_golden.py::TestGolden::test_rows[stragglers-clocks]",
    ),
    Mutant(
        "M65",
        "a wait of a stream holds up the same stream of another device",
        "sql/lib/idle_causes.sql",
        "PARTITION BY run, rank, device, stream, by_call",
        "PARTITION BY run, rank, stream, by_call",
        "tests/sql/test_golden.py::TestGolden::test_rows[idle-two_devices]",
    ),
    Mutant(
        "M65a",
        "a wait is over with the first of what is waited for",
        "sql/lib/idle_causes.sql",
        "max(greatest(held_up.end_ns, awaited.end_ns)) AS over_ns",
        "min(greatest(held_up.end_ns, awaited.end_ns)) AS over_ns",
        "tests/sql/test_golden.py::TestGolden::test_rows[idle-held_up]",
    ),
    Mutant(
        "M65b",
        "work of the same stream of another device is waited for",
        "sql/lib/idle_causes.sql",
        "PARTITION BY run, rank, device, stream ORDER BY at_ns",
        "PARTITION BY run, rank, stream ORDER BY at_ns",
        "tests/sql/test_golden.py::TestGolden::test_rows[idle-two_devices]",
    ),
    Mutant(
        "M65c",
        "what was called before a wait is held up by it",
        "sql/lib/idle_causes.sql",
        "PARTITION BY run, rank, device, stream, by_call",
        "PARTITION BY run, rank, device, stream",
        "tests/sql/test_golden.py::TestGolden::test_rows[idle-held_up]",
    ),
    Mutant(
        "M70",
        "a graph has the phase of some of its replays",
        "sql/answers/graph_layers.sql",
        "CASE WHEN min(phase) = max(phase) AND count(phase) = count(*) THEN",
        "CASE WHEN min(phase) = max(phase) THEN",
        "tests/sql/test_golden.py::TestGolden::test_rows[graph_layers-replays]",
    ),
    Mutant(
        "M70b",
        "all blocks have the edges of the first one",
        "sql/answers/graph_layers.sql",
        "blocks.graph = edges.graph AND blocks.block = edges.block",
        "blocks.graph = edges.graph AND edges.block = 0",
        "tests/sql/test_golden.py::TestGolden::test_rows[graph_layers-two_blocks]",
    ),
    Mutant(
        "M70c",
        "replays of the same names in another order are one graph",
        "sql/lib/graphs.sql",
        "list(names.code ORDER BY members.graph_position) AS codes",
        "list(names.code ORDER BY names.code) AS codes",
        "tests/sql/test_golden.py::TestGolden::test_rows[graph_layers-replays]",
    ),
    Mutant(
        "M74",
        "a free after a free is of the allocation before",
        "profframe/readers/memory_snapshot/lifetimes.py",
        "(address[1:] != address[:-1]) | (kind[:-1] == FREE_COMPLETED)",
        "address[1:] != address[:-1]",
        "tests/unit/test_memory_snapshot.py"
        "::test_free_memory_that_is_freed_again_was_another_allocation",
    ),
    Mutant(
        "SN1",
        "a note on memory is about what was freed before",
        "profframe/readers/memory_snapshot/lifetimes.py",
        "lives = (before >= 0) & (pairs.kind[before] != FREE_COMPLETED)",
        "lives = before >= 0",
        "tests/unit/test_snapshot_fields.py::TestMetadata::test_notes_are_about_what_lives_then",
    ),
    Mutant(
        "SN2",
        "a note on memory is about what is allocated after it",
        "profframe/readers/memory_snapshot/lifetimes.py",
        "lived = ~lives & (after >= 0) & (pairs.kind[after] != ALLOC)",
        "lived = ~lives & (after >= 0)",
        "tests/unit/test_snapshot_fields.py::TestMetadata::test_notes_are_about_what_lives_then",
    ),
    Mutant(
        "SN3",
        "the text of a free is that of the allocation",
        "profframe/readers/memory_snapshot/lifetimes.py",
        'yield "metadata", joined(recording.of("metadata", ids[ALLOC])',
        'yield "metadata", joined(recording.of("metadata", first)',
        "tests/unit/test_snapshot_fields.py::TestMetadata::test_is_that_of_the_allocation_not_of_its_free",
    ),
    Mutant(
        "SN4",
        "a profile with memory of a device hides pinned memory",
        "sql/lib/memory.sql",
        "        AND allocations.device_type IS DISTINCT FROM 'PINNED_HOST'\n",
        "",
        "tests/unit/test_snapshot_fields.py::TestBesideATrace::test_what_the_profiler_lacks_is_that_of_the_host",
    ),
    Mutant(
        "SN5",
        "pinned memory counts in limits on memory",
        "profframe/comparisons/fail_on_metrics.py",
        'rows.filter(pl.col("memory") == "device")',
        "rows",
        "tests/unit/test_snapshot_fields.py::TestPinned::test_two_snapshots",
    ),
    Mutant(
        "SN6",
        "pinned memory has the thread of what the profiler recorded there",
        "profframe/facts/snapshots/op_matching.py",
        '            fits &= (own < 0) | (own == numbers(records, "device", missing=-1)[wanted])\n',
        "",
        "tests/unit/test_snapshot_fields.py::TestBesideATrace::test_pinned_memory_is_not_what_the_profiler_recorded_there",
    ),
)

PLANS: Final = (
    Mutant(
        "34h",
        "a question whose plan is in use is the one that loses a plan",
        "profframe/query/plans.py",
        "        if not self._idle[key]:\n            del self._idle[key]\n",
        "",
        "tests/unit/test_plans.py::test_a_question_whose_plan_is_in_use_loses_none",
    ),
    Mutant(
        "34a",
        "a join that keeps the rows of its first run is run again",
        "profframe/query/plans.py",
        '_RUN_ONCE: Final = ("ASOF_JOIN", "IE_JOIN")',
        '_RUN_ONCE: Final = ("ASOF_JOIN",)',
        "tests/unit/test_plans.py::test_joins_that_keep_rows_of_their_first_run_are_planned_anew",
    ),
    Mutant(
        "34b",
        "the rows of a question stay in its plan",
        "profframe/query/plans.py",
        "                slot.empty()\n",
        "                slot.schema\n",
        "tests/unit/test_plans.py::test_slots_are_empty_after_an_error",
    ),
    Mutant(
        "34c",
        "a plan for other types is taken",
        "profframe/query/plans.py",
        "next((plan for plan in idle if plan.fits(tables)), None)",
        "next(iter(idle), None)",
        "tests/unit/test_plans.py::test_other_types_are_planned_for_by_themselves",
    ),
    Mutant(
        "34d",
        "a plan is leased to two questions at a time",
        "profframe/query/plans.py",
        "        self._idle[key].remove(plan)\n",
        "        self._idle[key].index(plan)\n",
        "tests/unit/test_plans.py::test_a_plan_serves_one_question_at_a_time",
    ),
    Mutant(
        "34e",
        "what a plan has read of a larger table stays in it",
        "profframe/query/plans.py",
        "            plan.forget()\n",
        "            plan.held_rows = 0\n",
        "tests/unit/test_plans.py::test_rows_that_plans_hold_are_freed_the_oldest_first",
    ),
    Mutant(
        "34f",
        "the database of an error inside DuckDB is asked again",
        "profframe/query/plans.py",
        "            self._abandon(plan.database)\n",
        "            plan.fits(tables)\n",
        "tests/unit/test_plans.py::test_after_an_error_inside_duckdb_questions_go_on",
    ),
    Mutant(
        "35",
        "a child of a fork waits for threads that it has not",
        "profframe/system/forks.py",
        "self._has_lost or self._will_lose",
        "self._has_lost",
        "tests/unit/test_forks.py::test_a_child_of_a_process_that_has_loaded_says_to_spawn",
    ),
)

GENERATED: Final = (
    Mutant(
        "G1",
        "the number of a launch is beyond those of the first, and nodes fail",
        "profframe/facts/graph_captures/replays.py",
        "doubtful = np.zeros(int(group.max()) + 1, np.bool_)",
        "doubtful = np.zeros(int(group.min()) + 1, np.bool_)",
        "tests/unit/test_graph_captures.py::test_nodes_of_each_of_two_launches",
    ),
    Mutant(
        "G2",
        "calls of one thread are of the capture of another",
        "profframe/facts/graph_captures/recorded_captures.py",
        "mine = thread[calls[rows]] == thread[begin]",
        "mine = thread[calls[rows]] != thread[begin]",
        "tests/unit/test_graph_captures.py::test_captures_of_two_threads_at_once",
    ),
    Mutant(
        "G8",
        "copies without a kernel have no category",
        "profframe/facts/kernel_categories.py",
        "if not rows.size and not copies.size:",
        "if not rows.size:",
        "tests/unit/test_facts_kernel_categories.py::test_copies_alone_have_their_category",
    ),
    Mutant(
        "G10",
        "the first event is the op of no kernel",
        "profframe/facts/kernel_categories.py",
        'is_op = (op_rows >= 0) & is_kind(events, ("host_op",))[op_rows]',
        'is_op = (op_rows > 0) & is_kind(events, ("host_op",))[op_rows]',
        "tests/unit/test_facts_kernel_categories.py::test_the_op_may_be_the_first_event",
    ),
    Mutant(
        "G11",
        "the type of a list counts where a tensor has one",
        "profframe/facts/formulas/ops.py",
        "if best is None and _LIST in self.types:",
        "if _LIST in self.types:",
        "tests/unit/test_formulas.py::test_the_type_of_the_work",
    ),
    Mutant(
        "G12",
        "the longest value is unknown",
        "profframe/facts/formulas/ops.py",
        "if len(text) > _LONGEST:",
        "if len(text) >= _LONGEST:",
        "tests/unit/test_formulas.py::test_a_value_of_the_greatest_length_is_read",
    ),
    Mutant(
        "G14",
        "a quantisation computes in a type of 32 bits",
        "profframe/facts/formulas/quantisation.py",
        "(t.dtype for t in op.all_tensors() if t.dtype and t.dtype.floats and t.size == 2),",
        "(t.dtype for t in op.all_tensors() if t.dtype and t.dtype.floats and t.size != 2),",
        "tests/unit/test_formulas.py::test_what_libraries_compute_in",
    ),
    Mutant(
        "G16",
        "a launch that returns as the work before it ends was not waited for",
        "profframe/analysis/critical_path/graph.py",
        "edge[arrival >= ends[before]] = LAUNCH",
        "edge[arrival > ends[before]] = LAUNCH",
        "tests/parity/test_critical_path.py::test_work_whose_launch_returns_as_the_work_before_it_ends_waited_for_the_launch",
    ),
    Mutant(
        "G17",
        "nothing depends on the first work of a graph",
        "profframe/analysis/critical_path/rank_rows.py",
        "there = (first >= 0) & (then >= 0)",
        "there = (first > 0) & (then >= 0)",
        "tests/unit/test_dependencies.py::test_a_graph_whose_dependencies_were_recorded",
    ),
    Mutant(
        "G18",
        "a copy that is the first slice was not waited for",
        "profframe/analysis/critical_path/graph.py",
        "copies, copy_call = copies[copy_call >= 0], copy_call[copy_call >= 0]",
        "copies, copy_call = copies[copy_call >= 0], copy_call[copy_call > 0]",
        "tests/parity/test_critical_path.py::test_a_blocking_copy_may_be_the_first_slice",
    ),
    Mutant(
        "G28",
        "what the first event launched is not fused",
        "profframe/analysis/simulation/changes.py",
        "within = np.append(rows, NONE)\n    launched = works_of.call >= 0",
        "within = np.append(rows, NONE)\n    launched = works_of.call > 0",
        "tests/parity/test_what_if.py::test_fused_kernels_may_be_launched_by_the_first_event",
    ),
    Mutant(
        "G34",
        "what comes twice on a side marks a place",
        "profframe/analysis/alignment.py",
        "if counts[value] == 1 and value in places",
        "if value in places",
        "tests/unit/test_alignment.py::test_what_comes_twice_on_a_side_is_no_mark",
    ),
    Mutant(
        "G36",
        "a value is popped where no mark is",
        "profframe/readers/pickle/machine.py",
        "if machine.marks and machine.marks[-1] == len(machine.stack):",
        "if machine.marks[-1] == len(machine.stack):",
        "tests/unit/test_pickle.py::test_what_is_popped_is_the_value_or_the_mark_on_top",
    ),
    Mutant(
        "G39",
        "values of keys that are not known are not counted",
        "profframe/readers/pickle/walking.py",
        "state = np.where((first == _NONE) & ~is_tuple, EMPTY, np.where(get > 0, GET, VALUE))",
        "state = np.where((first != _NONE) & ~is_tuple, EMPTY, np.where(get > 0, GET, VALUE))",
        "tests/unit/test_pickle_records.py::test_keys_of_releases_to_come_do_not_keep_records_from_being_cut[2-more2]",
    ),
    Mutant(
        "G40",
        "a dict that is not cut has a shape",
        "profframe/readers/pickle/records.py",
        "if 0 < len(shape) <= _WIDEST and len(shapes) < _MOST_SHAPES and shape not in shapes:",
        "if len(shape) <= _WIDEST and len(shapes) < _MOST_SHAPES and shape not in shapes:",
        "tests/unit/test_pickle_records.py::test_a_dict_that_is_not_cut_has_no_shape",
    ),
    Mutant(
        "G41",
        "a thread is of another process",
        "profframe/readers/perfetto/tracks.py",
        "around += [t for t in self.state.tracks.values() if t.is_process and t.pid == track.pid]",
        "around += [t for t in self.state.tracks.values() if t.is_process and t.pid != track.pid]",
        "tests/unit/test_perfetto_writers.py::test_tracks_that_are_described_behind_their_events",
    ),
    Mutant(
        "G42",
        "a stage whose name is lost has that of number 0",
        "profframe/readers/perfetto/gpu.py",
        "entry or (names[own, part] if h and not n else None, 0)",
        "entry or (names[own, part] if h else None, 0)",
        "tests/unit/test_perfetto_writers.py::test_a_stage_whose_name_is_lost_has_none_beside_those_that_are_numbered",
    ),
    Mutant(
        "G46",
        "slices beside others lose their thread",
        "profframe/export/lines/overlap_lanes.py",
        'if row["thread"] <= thread.max():',
        'if row["thread"] <= thread.min():',
        "tests/unit/test_export_lines.py::test_a_slice_beside_another_is_named_by_its_own_thread",
    ),
    Mutant(
        "G49",
        "a row of a lane is mixed with the lane after it",
        "profframe/pages/timeline/lanes.py",
        "line = lane * (row.max(initial=0) + 1) + row",
        "line = lane * (row.min(initial=0) + 1) + row",
        "tests/unit/test_timeline.py::test_slices_are_by_lane_then_row",
    ),
    Mutant(
        "G51",
        "what is as far as may be is not drawn",
        "profframe/pages/timeline/lanes.py",
        "(start - middle).abs() <= _FARTHEST",
        "(start - middle).abs() < _FARTHEST",
        "tests/unit/test_timeline.py::test_what_is_farthest_from_the_others_is_drawn_and_no_farther",
    ),
)

DRAWN_AGAIN: Final = (
    Mutant(
        "H3",
        "a stream that runs out of calls fails",
        "profframe/facts/graph_captures/replay_matching.py",
        "while at < len(possible) and names[possible[at]] != name:",
        "while names[possible[at]] != name:",
        "tests/unit/test_graph_captures.py::test_a_stream_that_ran_out_of_calls_is_of_another_graph",
    ),
    Mutant(
        "H7",
        "kernels of another run hide communication of the same rank",
        "sql/answers/kernel_categories.sql",
        "dense_rank() OVER (ORDER BY run, rank) AS rank_lane",
        "dense_rank() OVER (ORDER BY rank) AS rank_lane",
        "tests/sql/test_golden.py::TestGolden::test_rows[kernel_categories-two_runs]",
    ),
    Mutant(
        "H10",
        "what is exposed of one category is exposed of all",
        "sql/answers/kernel_categories.sql",
        "ON parts.rank_lane = clocks.lane AND parts.event_id = clocks.event_id",
        "ON parts.rank_lane = clocks.lane",
        "tests/sql/test_golden.py::TestGolden::test_rows[kernel_categories-exposed]",
    ),
    Mutant(
        "H13",
        "the transposed product of one transposed matrix is that of the other",
        "profframe/facts/formulas/products.py",
        "transposed = [not flag for flag in transposed[::-1]]",
        "transposed = [not flag for flag in transposed]",
        "tests/unit/test_formulas.py::test_by_hand",
    ),
    Mutant(
        "H14",
        "keys without heads are read",
        "profframe/facts/formulas/ragged_attention.py",
        "if min(len(query.shape), len(key.shape), len(value.shape)) < 3:",
        "if max(len(query.shape), len(key.shape), len(value.shape)) < 3:",
        "tests/unit/test_formulas.py::test_keys_without_heads_are_unknown",
    ),
    Mutant(
        "H16",
        "an annotation of no moment is an instance",
        "sql/lib/critical_path.sql",
        "WHERE kind IN ('annotation', 'host_op') AND start_ns IS NOT NULL AND dur_ns > 0;",
        "WHERE kind IN ('annotation', 'host_op') AND dur_ns > 0;",
        "tests/parity/test_critical_path.py"
        "::test_an_annotation_of_no_moment_is_none_of_the_instances",
    ),
    Mutant(
        "H20",
        "a rank without device work waits as devices do",
        "sql/lib/blame.sql",
        "SEMI JOIN (SELECT DISTINCT run, rank FROM work) AS with_devices USING (run, rank)",
        "SEMI JOIN (SELECT DISTINCT run, rank FROM work) AS with_devices USING (run)",
        "tests/parity/test_blame.py::test_a_rank_without_device_work_does_not_wait_as_devices_do",
    ),
    Mutant(
        "H32",
        "a part of just as many cells as may be is aligned by turns",
        "profframe/analysis/alignment.py",
        "if len(left) * len(right) <= _MOST_CELLS:",
        "if len(left) * len(right) < _MOST_CELLS:",
        "tests/unit/test_alignment.py::test_a_part_of_just_as_many_cells_is_aligned_as_a_whole",
    ),
    Mutant(
        "H26",
        "the transfer of the first work is not scaled",
        "profframe/analysis/simulation/changes.py",
        "of_work = (place >= 0) & (place < tails.size)",
        "of_work = (place > 0) & (place < tails.size)",
        "tests/parity/test_what_if.py::test_kernels_of_collectives_are_transfers",
    ),
    Mutant(
        "H27",
        "work that other work held up shows how launches take effect",
        "profframe/analysis/simulation/lags.py",
        "free = binds[rows] & (_ready(graph, edges)[work] <= called) & (called >= 0)",
        "free = binds[rows] & (called >= 0)",
        "tests/parity/test_what_if.py"
        "::test_work_that_other_work_held_up_does_not_show_how_launches_take_effect",
    ),
    Mutant(
        "H30",
        "marks divide sequences from the last to the first",
        "profframe/analysis/alignment.py",
        "return chain[::-1]",
        "return chain",
        "tests/unit/test_alignment.py::test_marks_divide_the_rest_in_their_order",
    ),
    Mutant(
        "H31",
        "the second way is tried though the first has left nothing alone",
        "profframe/analysis/alignment.py",
        "if len(by_equality[0]) < min(map(len, gap)):",
        "if len(by_equality[0]) <= min(map(len, gap)):",
        "tests/unit/test_alignment.py::test_what_has_a_counterpart_in_the_first_way_has_no_other",
    ),
    Mutant(
        "H46",
        "a thread of two streams is named by the last",
        "profframe/export/lines/merged_ranks.py",
        "SELECT run, rank, thread, min(stream) AS stream",
        "SELECT run, rank, thread, max(stream) AS stream",
        "tests/unit/test_export_job.py::test_a_thread_of_two_streams_is_named_by_the_first",
    ),
    Mutant(
        "H49",
        "the shortest slices of a lane are drawn first",
        "profframe/pages/timeline/page_budget.py",
        "order = np.lexsort((slices.row, -slices.dur, slices.lane))",
        "order = np.lexsort((slices.row, slices.dur, slices.lane))",
        "tests/unit/test_timeline.py::test_the_longest_of_a_lane_are_drawn_first",
    ),
    Mutant(
        "H50",
        "numbers far below zero are numbers of a script",
        "profframe/pages/timeline/extra_columns.py",
        "low, high = column.min(), column.max()",
        "low, high = column.max(), column.max()",
        "tests/unit/test_timeline.py::test_numbers_that_a_script_has_not_are_texts",
    ),
    Mutant(
        "H52",
        "all rows of a page have the rank of one of them",
        "profframe/server/paging.py",
        "return column.null_count() in {0, column.len()} and column.min() == column.max()",
        "return column.null_count() in {0, column.len()} and column.max() == column.max()",
        "tests/agents/test_pages.py::test_a_rank_is_said_once_only_if_it_is_the_same_in_all_rows",
    ),
    Mutant(
        "H55",
        "each rank has the format of each other rank in the overview",
        "profframe/server/tools.py",
        "about, on=keys,",
        'about.drop("rank"), on=["run"],',
        "tests/agents/test_pages.py::test_each_rank_is_once_in_the_overview",
    ),
    Mutant(
        "H56",
        "of equally long work the last is shown",
        "sql/inner/surroundings.sql",
        """    WHERE events.launch_id = this.event_id
    ORDER BY events.dur_ns DESC NULLS LAST, events.event_id""",
        """    WHERE events.launch_id = this.event_id
    ORDER BY events.dur_ns DESC NULLS LAST, events.event_id DESC""",
        "tests/agents/test_pages.py::test_of_equally_long_work_the_first_is_shown",
    ),
    Mutant(
        "H58",
        "a store is listed again and again",
        "profframe/store/maintenance/listing.py",
        "if attempts and not all(",
        "if not all(",
        "tests/unit/test_maintenance.py::test_a_listing_that_is_never_right_is_an_error",
    ),
    Mutant(
        "H59",
        "the first pack is the earliest",
        "profframe/store/layout.py",
        "return tuple(root / name for name in sorted(names, key=manifest.age, reverse=True))",
        "return tuple(root / name for name in sorted(names, key=manifest.age))",
        "tests/unit/test_maintenance.py::test_the_latest_pack_is_the_first",
    ),
)
"""A second draw: sixty others by another seed, over the same parts."""

DRAWN_THIRD: Final = (
    Mutant(
        "I5",
        "of the captures that fit, three are named",
        "profframe/facts/graph_captures/choosing.py",
        "{', '.join(places[:4])}",
        "{', '.join(places[:3])}",
        "tests/unit/test_graph_captures.py::test_four_captures_that_fit_are_named",
    ),
    Mutant(
        "I7",
        "three names are three and none more",
        "profframe/facts/kernel_categories.py",
        'more" if len(texts) > 3 else',
        'more" if len(texts) >= 3 else',
        "tests/unit/test_facts_kernel_categories.py"
        "::test_three_names_of_unknown_communication_are_said",
    ),
    Mutant(
        "I16",
        "the main thread is the first, not the one with the most slices",
        "profframe/analysis/critical_path/rank_rows.py",
        "np.lexsort((lines, lines == UNSET, -slices))",
        "np.lexsort((lines, lines == UNSET))",
        "tests/parity/test_critical_path.py"
        "::test_of_threads_that_end_together_the_one_with_the_most_slices_is_the_main_one",
    ),
    Mutant(
        "I19",
        "every call of the runtime waits for the device",
        "sql/lib/critical_path.sql",
        "is_synchronising(name)::BIGINT + 2",
        "1 + 2",
        "tests/parity/test_critical_path.py"
        "::test_a_call_that_does_not_synchronise_waits_for_no_work",
    ),
    Mutant(
        "I21",
        "what a rank was late by to one collective is measured from another",
        "sql/lib/blame.sql",
        "WINDOW of_pair AS (PARTITION BY run, match, late_rank ORDER BY level)",
        "WINDOW of_pair AS (PARTITION BY run, late_rank ORDER BY level)",
        "tests/sql/test_golden.py"
        "::test_other_traces_beside_it_and_another_order_of_rows_change_nothing[stragglers]",
    ),
    Mutant(
        "I23",
        "a step of no time is one of the steps",
        "profframe/analysis/critical_path/blame.py",
        "lack IS NULL AND step_ns > 0",
        "lack IS NULL AND step_ns >= 0",
        "tests/parity/test_blame.py::test_it_is_per_step_with_op_and_module",
    ),
    Mutant(
        "S1",
        "a piece that ends when the next step begins has run beside it",
        "profframe/facts/step_times.py",
        "work.end[owned] > begins[mark[owned]]",
        "work.end[owned] >= begins[mark[owned]]",
        "tests/property/test_step_times.py::test_drawn_programs",
    ),
    Mutant(
        "S2",
        "work that was put behind a piece when it had ended waits for it",
        "profframe/facts/step_times.py",
        "(since[place] < until)",
        "(since[place] <= until)",
        "tests/property/test_step_times.py"
        "::test_a_copy_with_work_of_the_next_step_behind_it_holds_its_step_back",
    ),
    Mutant(
        "S3",
        "a copy that a later step waits for holds that step back",
        "profframe/facts/step_times.py",
        "np.where(nearest == _NEVER, _NONE, nearest - 1)",
        "np.where(nearest == _NEVER, _NONE, nearest)",
        "tests/property/test_step_times.py"
        "::test_a_copy_that_a_later_step_waits_for_holds_back_the_one_before_that",
    ),
    Mutant(
        "S4",
        "a wait of the host for one stream is one for the device",
        "profframe/facts/step_times.py",
        "np.where(of_stream, _NONE, stream[syncs])",
        "np.where(of_stream, stream[syncs], _NONE)",
        "tests/property/test_step_times.py"
        "::test_a_copy_that_the_next_step_synchronises_with_holds_its_step_back",
    ),
    Mutant(
        "S5",
        "a program that goes on when a step ends was cut there",
        "profframe/facts/step_times.py",
        "(start >= marks.end[last])).any()",
        "(start > marks.end[last])).any()",
        "tests/property/test_step_times.py::test_the_end_of_the_profile_cuts_a_step",
    ),
    Mutant(
        "S6",
        "beside a single step half of its time is enough for one that was cut",
        "profframe/facts/step_times.py",
        "bool(2 * took[last] < took[others[0]])",
        "bool(2 * took[last] <= took[others[0]])",
        "tests/property/test_step_times.py"
        "::test_beside_a_single_step_it_takes_more_to_call_one_cut",
    ),
    Mutant(
        "S7",
        "the steps of all processes are in one row",
        "profframe/facts/step_times.py",
        "return np.append(True, self.process[1:] != self.process[:-1])",
        "return np.append(True, self.process[1:] < self.process[:-1])",
        "tests/property/test_step_times.py::test_processes_have_steps_of_their_own",
    ),
    Mutant(
        "S9",
        "of ranks that complete a step one after the other the first one counts as the last",
        "sql/lib/steps.sql",
        "arg_max(began_ns, {'ns': completed_ns",
        "arg_min(began_ns, {'ns': completed_ns",
        "tests/sql/test_golden.py"
        "::test_other_traces_beside_it_and_another_order_of_rows_change_nothing[runs]",
    ),
    Mutant(
        "S10",
        "a kernel that overlaps is on the path from its own start",
        "profframe/analysis/critical_path/turns.py",
        "np.maximum(start, before), start)",
        "np.minimum(start, before), start)",
        "tests/parity/test_critical_path.py"
        "::test_a_kernel_that_the_next_one_overlaps_stays_on_the_path",
    ),
    Mutant(
        "S11",
        "what ran beside other work of its stream holds nothing up there",
        "profframe/analysis/critical_path/edges.py",
        "other = before[follower] != aside",
        "other = before[follower] == aside",
        "tests/parity/test_critical_path.py"
        "::test_a_kernel_that_the_next_one_overlaps_stays_on_the_path",
    ),
    Mutant(
        "S12",
        "late work waits for what ended when all else was ready",
        "profframe/analysis/critical_path/graph.py",
        "is_late[rows] = lag[rows] > high + 3 * (high - low) // 2",
        "is_late[rows] = lag[rows] < high + 3 * (high - low) // 2",
        "tests/parity/test_critical_path.py"
        "::test_late_work_waited_for_what_ended_last_on_another_stream",
    ),
    Mutant(
        "S13",
        "without the one before it a kernel that overlapped takes the rest alone",
        "profframe/analysis/simulation/changes.py",
        "hidden = own.graph.works.whole - recorded",
        "hidden = own.graph.works.whole - own.graph.works.whole",
        "tests/parity/test_what_if.py::test_a_kernel_that_overlapped_keeps_the_rest_or_all_of_it",
    ),
    Mutant(
        "L0",
        "a call of another process is inside one at the same time",
        "profframe/facts/launch_calls.py",
        "(end[1:] > end[:-1]) | (thread[1:] != thread[:-1])",
        "end[1:] > end[:-1]",
        "tests/property/test_correlation.py"
        "::test_a_correlation_of_two_processes_in_slices_that_name_neither",
    ),
    Mutant(
        "L1",
        "a kernel belongs to a call of its number that began after it",
        "profframe/facts/launch_calls.py",
        "np.where(is_decided, np.append(rows, _NONE)[place], launch[late])",
        "launch[late]",
        "tests/property/test_correlation.py"
        "::test_of_several_calls_the_last_before_a_slice_launched_it",
    ),
    Mutant(
        "L2",
        "a call that is not the only one made a slice before it",
        "profframe/facts/launch_calls.py",
        "(place >= 0) | np.isin(searched[late], self.shared)",
        "(place >= 0)",
        "tests/property/test_correlation.py"
        "::test_of_several_calls_the_last_before_a_slice_launched_it",
    ),
    Mutant(
        "L3",
        "work on two streams is matched in one order",
        "profframe/facts/launch_calls.py",
        "or (stream[rows] != stream[rows[0]]).any()",
        "or (stream[rows] != stream[rows]).any()",
        "tests/property/test_correlation.py"
        "::test_work_without_a_correlation_has_its_own_call_or_none",
    ),
    Mutant(
        "L4",
        "a capture on one thread hides the lost work of another process",
        "profframe/facts/lost_work.py",
        "own, mine = owner == pid, process[rows] == pid",
        "own, mine = owner == pid, process[rows] == process[rows]",
        "tests/property/test_lost_work.py::test_a_capture_is_of_its_process",
    ),
    Mutant(
        "L5",
        "lost work is over when it begins",
        "profframe/facts/lost_work.py",
        "np.maximum.at(until, call, began)",
        "np.minimum.at(until, call, began)",
        "tests/property/test_lost_work.py::test_drawn_programs",
    ),
    Mutant(
        "L6",
        "as much work without a number as calls without work is none the less lost",
        "profframe/facts/lost_work.py",
        "np.count_nonzero(of_kind) > np.count_nonzero(later)",
        "np.count_nonzero(of_kind) >= np.count_nonzero(later)",
        "tests/property/test_lost_work.py::test_as_much_work_without_a_number_is_not_lost",
    ),
    Mutant(
        "L7",
        "work that ends with what ran behind it overruns it",
        "profframe/facts/overruns.py",
        "is_over = end[:-2] > end[second]",
        "is_over = end[:-2] >= end[second]",
        "tests/property/test_overruns.py::test_it_ends_after_the_next_two",
    ),
    Mutant(
        "L7b",
        "of parts of one graph launch none overruns another",
        "profframe/facts/overruns.py",
        " & (call[:-1] != call[first])",
        "",
        "tests/property/test_overruns.py::test_parts_of_one_graph_launch_may_be_on_branches",
    ),
    Mutant(
        "L8",
        "a gap that lost work ends was not one that the host made",
        "sql/lib/idle_causes.sql",
        "start_ns AS queued_ns, thread, step, lost_ns",
        "first_ns AS queued_ns, thread, step, lost_ns",
        "tests/sql/test_golden.py"
        "::test_other_traces_beside_it_and_another_order_of_rows_change_nothing[gaps]",
    ),
    Mutant(
        "L9",
        "lost work of another device makes a device unrecorded",
        "sql/lib/idle_causes.sql",
        "AND coalesce(lost.device = lanes.device, true)",
        "AND coalesce(lost.device = lost.device, true)",
        "tests/sql/test_golden.py"
        "::test_other_traces_beside_it_and_another_order_of_rows_change_nothing[idle]",
    ),
    Mutant(
        "L10",
        "what a device does is unrecorded while it works",
        "sql/lib/busy.sql",
        "FILTER (mask = 8) AS unrecorded_ns",
        "FILTER (mask & 8 > 0) AS unrecorded_ns",
        "tests/sql/test_golden.py"
        "::test_other_traces_beside_it_and_another_order_of_rows_change_nothing[time_breakdown]",
    ),
    Mutant(
        "L11",
        "a month apart is no other time",
        "profframe/readers/build/assembly.py",
        "np.flatnonzero(np.diff(at) > _APART_NS) + 1",
        "np.flatnonzero(np.diff(at) > 2 * _APART_NS) + 1",
        "tests/property/test_overruns.py::test_times_that_cannot_be",
    ),
    Mutant(
        "S14",
        "a path is idle while a device did something else",
        "profframe/analysis/critical_path/busy.py",
        "is_idle[row] & ((before[row] + piece) % 2 == 1),",
        "is_idle[row] & ((before[row] + piece) % 2 == 2),",
        "tests/parity/test_critical_path.py::test_the_whole_trace_without_steps_and_without_host",
    ),
    Mutant(
        "S15",
        "a prediction is no range where only replays agree",
        "profframe/analysis/simulation/what_if.py",
        "low = min(*ends, model.length_ns - savings(model.job, lengths))",
        "low = min(*ends, model.length_ns)",
        "tests/parity/test_what_if.py::test_what_waited_while_only_a_kernel_ran_may_have_waited_for_it",
    ),
    Mutant(
        "S16",
        "faster work saves more than devices that take no time",
        "profframe/analysis/simulation/what_if.py",
        "low = min(end, max(low, model.without_devices))",
        "low = min(end, low)",
        "tests/parity/test_what_if.py::test_what_waited_while_only_a_kernel_ran_may_have_waited_for_it",
    ),
    Mutant(
        "S17",
        "work is exposed beside other work",
        "profframe/analysis/simulation/exposed.py",
        "(counts > 0) & ~_inside(at, others) & _inside(at, waiting)",
        "(counts > 0) & _inside(at, waiting)",
        "tests/parity/test_what_if.py::test_what_waited_while_only_a_kernel_ran_may_have_waited_for_it",
    ),
    Mutant(
        "S18",
        "a call takes its time whatever it copies",
        "profframe/analysis/simulation/changes.py",
        "np.maximum(new.own + rounded(more), 0)",
        "new.own",
        "tests/parity/test_what_if.py::test_a_host_makes_copies_of_pageable_memory",
    ),
    Mutant(
        "S19",
        "an op makes devices wait only in it",
        "profframe/analysis/causes/hidden_ops.py",
        "if slower.is_empty() or of_all.is_empty():",
        "if not slower.is_empty():",
        "tests/parity/test_explain_calls.py"
        "::test_an_op_that_is_slower_while_devices_work_makes_them_wait_later",
    ),
    Mutant(
        "S20",
        "an op makes devices wait though they wait no longer",
        "profframe/analysis/causes/hidden_ops.py",
        'shares = np.diff(np.minimum(np.cumsum(ops["ns"].abs().to_numpy()), most), prepend=0.0)',
        'shares = ops["ns"].abs().to_numpy()',
        "tests/parity/test_explain_calls.py"
        "::test_an_op_that_is_slower_while_devices_work_makes_them_wait_later",
    ),
    Mutant(
        "I43",
        "all ranks begin with the first slice of any",
        "profframe/export/lines/speedscope.py",
        "min(min(start_ns)) OVER (PARTITION BY run, rank) AS first_ns",
        "min(min(start_ns)) OVER (PARTITION BY run) AS first_ns",
        "tests/unit/test_speedscope.py::TestSpeedscope"
        "::test_each_rank_begins_with_its_own_first_slice",
    ),
    Mutant(
        "I45",
        "an arrow between ranks ends before the last one came",
        "profframe/export/lines/merged_ranks.py",
        "greatest(own.start_ns, least(last.start_ns, own.end_ns - 1)) AS at_ns",
        "least(own.start_ns, least(last.start_ns, own.end_ns - 1)) AS at_ns",
        "tests/unit/test_export_job.py"
        "::test_arrows_lead_from_the_last_rank_of_a_collective_to_the_others",
    ),
    Mutant(
        "I46",
        "a slice of another thread hides that one is around an earlier one",
        "profframe/export/lines/overlap_lanes.py",
        "order = np.lexsort((start, thread))  # stable",
        "order = np.lexsort((start,))  # stable",
        "tests/unit/test_export_lines.py"
        "::test_a_slice_around_an_earlier_one_of_its_own_thread_is_beside_it",
    ),
    Mutant(
        "I47",
        "slices that move to the next row are not in the order of time",
        "profframe/pages/timeline/lanes.py",
        "rest[np.lexsort((begin[rest], lane[rest]))]",
        "rest[np.lexsort((lane[rest],))]",
        "tests/unit/test_timeline.py"
        "::test_slices_that_overlap_go_to_the_next_row_in_the_order_of_time",
    ),
    Mutant(
        "I49",
        "the parent of the first slice of a trace is the last of the trace before",
        "profframe/pages/timeline/page_slices.py",
        "(number >= 0) & (at < self._bases[trace + 1])",
        "(at < self._bases[trace + 1])",
        "tests/unit/test_timeline.py::test_the_first_slices_of_every_trace_have_no_parent",
    ),
    Mutant(
        "I55",
        "the least self time is first",
        "profframe/server/tools.py",
        "rows.sort(column, descending=True, nulls_last=True, maintain_order=True)",
        "rows.sort(column, descending=False, nulls_last=True, maintain_order=True)",
        "tests/agents/test_pages.py::test_the_most_self_time_is_first_and_equal_ones_stay_in_order",
    ),
    Mutant(
        "I57",
        "a pack of as many runs as are packed is left alone",
        "profframe/store/maintenance/changing.py",
        "if packed and len(place.names) <= traces:",
        "if packed and len(place.names) < traces:",
        "tests/unit/test_maintenance.py::test_large_packs_are_left_alone",
    ),
    Mutant(
        "I59",
        "of rows without a trace the last rank is named",
        "profframe/store/writing.py",
        "run, rank = min(unnamed)",
        "run, rank = max(unnamed)",
        "tests/unit/test_store.py::test_rows_without_a_trace_are_not_lost_in_silence",
    ),
    Mutant(
        "N1",
        "a forward op counts only where the outermost slice has it",
        "profframe/analysis/critical_path/late_costs.py",
        "forward = np.where(forward == NONE, slices.forward[at], forward)",
        "forward = slices.forward[at]",
        "tests/unit/test_late_costs.py::test_the_forward_op_of_an_inner_slice_counts_where_all_outer_ones_end",
    ),
    Mutant(
        "N2",
        "time in a name before both ranks were together counts",
        "profframe/analysis/critical_path/late_costs.py",
        '("rank", "since_ns", -1)',
        '("rank", "since_ns", 1)',
        "tests/unit/test_late_costs.py::test_time_before_both_were_together_does_not_count",
    ),
    Mutant(
        "N3",
        "what does not divide goes by names alone",
        "profframe/analysis/critical_path/late_costs.py",
        ".sort(*_PAIR, cause, *in_order)",
        ".sort(*_PAIR, *in_order)",
        "tests/unit/test_late_costs.py::test_what_does_not_divide_goes_by_the_order_of_the_causes_words",
    ),
    Mutant(
        "N4",
        "waits of the other rank count as what both did",
        "profframe/analysis/critical_path/late_costs.py",
        'less = (cost < 0) & (pl.col("cause") != WAIT) & (pl.col("cause") != NONE)',
        "less = cost < 0",
        "tests/unit/test_late_costs.py::test_a_wait_of_the_other_rank_is_nothing_that_both_did",
    ),
    Mutant(
        "N5",
        "a gap that begins before all ops has those of the thread before",
        "sql/lib/gap_owners.sql",
        "greatest(spans.begun_place, firsts.place)",
        "spans.begun_place",
        "tests/unit/test_gap_stretches.py::test_gaps_have_no_ops_of_other_threads",
    ),
    Mutant(
        "N6",
        "the last op of a gap is left out",
        "sql/lib/gap_owners.sql",
        "spans.last_place + 1)",
        "spans.last_place)",
        "tests/unit/test_gap_stretches.py::test_gaps_have_the_stretches_of_innermost_ops_that_overlap_them",
    ),
    Mutant(
        "N7",
        "streams share the ops of their gaps",
        "sql/answers/idle.sql",
        "row_number() OVER () AS gap",
        "dense_rank() OVER (ORDER BY run, rank, device, cause) AS gap",
        "tests/unit/test_gap_stretches.py::test_each_stream_has_the_ops_of_its_own_gaps",
    ),
    Mutant(
        "N8",
        "a window has the work that ran when it ended",
        "sql/lib/busy.sql",
        "sum(busy_ns) OVER until_now - busy_ns AS busy_ns",
        "sum(busy_ns) OVER until_now AS busy_ns",
        "tests/unit/test_gap_stretches.py::test_windows_that_begin_and_end_within_work_have_its_part",
    ),
)
"""A third draw, of which these had lived."""

SERVED: Final = (
    Mutant(
        "V1",
        "the mask takes half of the squares, and the diagonal with it",
        "profframe/facts/formulas/sequence_lengths.py",
        "(self.squares - self.queries) // 2",
        "self.squares // 2",
        "tests/property/test_sequence_lengths.py::test_pairs_under_a_mask",
    ),
    Mutant(
        "V2",
        "a window cuts nothing where the mean length is within it",
        "profframe/facts/formulas/sequence_lengths.py",
        "self.keys - (self.sequences - 1) <= window",
        "self.keys <= window * self.sequences",
        "tests/unit/test_attention_lengths.py"
        "::test_a_window_that_cuts_some_of_several_sequences_is_not_known",
    ),
    Mutant(
        "V3",
        "a phase has the lengths of its last step",
        "profframe/facts/batch_lengths.py",
        "np.where(least == most, most, -1)",
        "most",
        "tests/unit/test_batch_lengths.py::test_a_phase_has_the_lengths_of_a_step_that_is_inside",
    ),
    Mutant(
        "V4",
        "a captured call has the work of one replay where they differ",
        "profframe/facts/counted_calls.py",
        "np.where(least == most, most, UNKNOWN)",
        "most",
        "tests/unit/test_batch_lengths.py"
        "::test_each_replay_of_a_captured_call_has_the_lengths_of_its_step",
    ),
    Mutant(
        "V5",
        "keys that are not in pages are not compared with those of the step",
        "profframe/facts/formulas/ragged_attention.py",
        "if key is not None and (sums.queries",
        "if key is None and (sums.queries",
        "tests/unit/test_attention_lengths.py"
        "::test_keys_that_are_not_in_pages_must_be_those_of_the_step",
    ),
    Mutant(
        "V6",
        "MFU has what ran again in backward",
        "sql/answers/mfu.sql",
        "coalesce(sum(flops) FILTER (is_recompute IS DISTINCT FROM true), 0)",
        "coalesce(sum(flops), 0)",
        "tests/sql/test_golden.py"
        "::test_other_traces_beside_it_and_another_order_of_rows_change_nothing[mfu]",
    ),
    Mutant(
        "V7",
        "MFU counts products without a known share of the time",
        "sql/answers/mfu.sql",
        "coalesce(least(known_flops_share, known_product_share) >= 0.8, false)",
        "coalesce(least(known_flops_share, known_product_share) >= 0, false)",
        "tests/sql/test_golden.py"
        "::test_other_traces_beside_it_and_another_order_of_rows_change_nothing[mfu]",
    ),
    Mutant(
        "V8",
        "nested annotations with one name count twice",
        "sql/answers/mfu.sql",
        "SELECT run, rank, inner_id, name, min(occurrence) AS occurrence",
        "SELECT run, rank, inner_id, name, unnest(list(occurrence)) AS occurrence",
        "tests/sql/test_golden.py"
        "::test_other_traces_beside_it_and_another_order_of_rows_change_nothing[mfu]",
    ),
)
"""Attention with a cache, and MFU."""

COMPILED: Final = (
    Mutant(
        "K1",
        "work without a known launch is in the last call of a graph",
        "profframe/facts/compiled_kernels/linking.py",
        "call = np.append(of_row, -1)[slices.call[units]]",
        "call = of_row[slices.call[units]]",
        "tests/unit/test_provenance.py::TestLinks::test_work_without_a_launch_is_of_no_graph_if_graphs_are_called",
    ),
    Mutant(
        "K2",
        "a graph without a key belongs to several keys",
        "profframe/facts/compiled_kernels/linking.py",
        "doubtful |= (graph >= 0) & np.isin(graph, keys_of_graph)",
        "doubtful |= (graph >= 0) & np.isin(graph, graphs_of_key)",
        "tests/unit/test_provenance.py::TestLinks::test_one_graph_without_a_key_belongs_to_one_key",
    ),
    Mutant(
        "K3",
        "kernels that torch did not forget belong to the next graph",
        "profframe/readers/provenance/sequence.py",
        "if not has_code:",
        "if True:",
        "tests/unit/test_provenance.py::TestSample::test_lines_of_a_graph_are_not_those_of_one_with_the_same_kernels",
    ),
)
"""Provenance of compiled kernels."""

INSPECTED: Final = (
    Mutant(
        "NI1",
        "a line beyond the number that its dump announces takes the communicator of that dump",
        "profframe/readers/nccl_inspector/reading.py",
        "is_sure &= (place - context <= announced[owner])",
        "is_sure &= (place - context <= announced[owner] + 1)",
        "tests/unit/test_nccl_inspector.py::TestDamage::test_a_lost_marker_leaves_orphans",
    ),
    Mutant(
        "NI2",
        "a collective behind a send of its dump is of that dump",
        "profframe/readers/nccl_inspector/reading.py",
        " & (order == np.maximum.accumulate(order))",
        "",
        "tests/unit/test_nccl_inspector.py::TestDamage"
        "::test_lines_in_another_order_are_of_a_lost_marker",
    ),
    Mutant(
        "NI3",
        "the first collectives that were not recorded are no gap",
        "profframe/readers/nccl_inspector/reading.py",
        'expected = row["seq_max"] - min(first, row["seq_min"]) + 1',
        'expected = row["seq_max"] - row["seq_min"] + 1',
        "tests/unit/test_nccl_inspector.py::TestRows::test_a_line_is_a_row",
    ),
    Mutant(
        "NI4",
        "the size of an all_gather is that of one rank's part",
        "sql/lib/collectives.sql",
        "::HUGEINT * coalesce(records.group_size, groups.group_size) AS whole_bytes",
        "::HUGEINT AS whole_bytes",
        "tests/unit/test_nccl_inspector.py::TestRows::test_bandwidth_is_that_of_the_plugin",
    ),
    Mutant(
        "NI5",
        "of two records with one number both are collectives",
        "sql/lib/collectives.sql",
        "QUALIFY line <> '' OR collective_seq IS NULL OR turn = 1;",
        "QUALIFY true;",
        "tests/unit/test_nccl_inspector.py::TestDamage::test_a_repeated_record_counts_once",
    ),
    Mutant(
        "NI6",
        "processes that ran one after the other share no rank",
        "profframe/loaders/communicator_ranks.py",
        "        if first < ends.get(rank, first):",
        "        if rank in ends:",
        "tests/unit/test_nccl_inspector.py::TestRows::test_a_restarted_process_is_a_later_cycle",
    ),
    Mutant(
        "NI7",
        "the shortest duration names the last rank where records of ranks are missing",
        "sql/file_summaries/nccl_ranks.sql",
        "        AND coalesce(ranks = expected_ranks, true)\n",
        "",
        "tests/unit/test_nccl_inspector.py::TestFirstScreen"
        "::test_a_collective_without_some_ranks_says_nothing_of_bandwidth_or_ranks",
    ),
    Mutant(
        "NI8",
        "a rank that is last by chance is named",
        "profframe/show/nccl_text.py",
        "_LEAST_SHARE: Final = 0.1",
        "_LEAST_SHARE: Final = 0.0",
        "tests/unit/test_nccl_inspector.py::TestFirstScreen::test_noise_names_no_rank",
    ),
    Mutant(
        "NI9",
        "after a lost send the next one is matched with its receive",
        "sql/lib/collectives.sql",
        " OR NOT bool_and(is_gapless) OVER (PARTITION BY run, communicator, line)",
        "",
        "tests/unit/test_nccl_inspector.py::TestLostRecords"
        "::test_after_a_lost_send_none_is_matched_by_its_place",
    ),
    Mutant(
        "NI10",
        "records of a plugin have the numbers of those of a flight recorder",
        "profframe/loaders/companion_files.py",
        'pc.add(rows["record_id"], shift)',
        'rows["record_id"]',
        "tests/unit/test_nccl_inspector.py::TestSources"
        "::test_dumps_of_flight_recorders_join_the_same_traces",
    ),
    Mutant(
        "NI11",
        "pinned host memory has a number as devices do",
        "sql/answers/out_of_memory.sql",
        "AND failures.device IS NOT DISTINCT FROM held.device",
        "AND failures.device = held.device",
        "tests/unit/test_snapshot_fields.py::TestPinned"
        "::test_where_it_runs_out_its_own_memory_counts",
    ),
)

ROCPROF: Final = (
    Mutant(
        "Q1",
        "queues are numbered from 1, but lines from 0",
        "profframe/readers/rocprof/records.py",
        """queue = (pl.col("queue") - 1).clip(0)""",
        """queue = pl.col("queue").clip(0)""",
        "tests/unit/test_rocprof.py::test_work_without_streams_is_on_queues",
    ),
    Mutant(
        "Q2",
        "what is freed again is freed twice",
        "profframe/readers/rocprof/records.py",
        """is_paired = ~pl.col("is_allocation") & before["is_allocation"]""",
        """is_paired = ~pl.col("is_allocation")""",
        "tests/unit/test_rocprof.py::test_memory_that_is_allocated_and_freed",
    ),
    Mutant(
        "Q3",
        "two processes of one number are one",
        "profframe/readers/rocprof/processes.py",
        "if numbers[number] > 1:",
        "if numbers[number] > 3:",
        "tests/unit/test_rocprof.py::test_processes_with_the_same_number",
    ),
    Mutant(
        "Q4",
        "kernels with counters are launched in their order, whatever their correlation",
        "profframe/facts/launching_ops.py",
        """    counting = counting[~is_kind(tables["events"], schema.DEVICE_KINDS)[counting]]
""",
        "",
        "tests/unit/test_rocprof.py::test_kernels_with_counters_keep_their_launch",
    ),
    Mutant(
        "Q5",
        "a document that ends between two arrays is not closed, so nothing has a name",
        "profframe/readers/rocprof/arrays.py",
        "+ _CLOSING if self._is_inside else text",
        "if self._is_inside else text",
        "tests/unit/test_rocprof.py::test_json_that_ends_early",
    ),
    Mutant(
        "Q6",
        "samples of a CPU are those of a GPU",
        "profframe/readers/rocprof/records.py",
        """pl.when(pl.col("type") == "GPU").then("device")""",
        """pl.col("device")""",
        "tests/unit/test_rocprof.py::test_samples_are_of_their_agent_and_have_its_unit",
    ),
    Mutant(
        "Q7",
        "a process alone is rank 0 of one rank",
        "profframe/readers/rocprof/processes.py",
        "if own < size > 1 else None",
        "if own < size else None",
        "tests/unit/test_rocprof.py::test_launchers_tell_processes_their_rank",
    ),
    Mutant(
        "Q8",
        "work that no record gives a stream is on one line",
        "profframe/readers/rocprof/document.py",
        """        if work and all(part["stream"].null_count == part.num_rows for part in work):
            return True
""",
        "",
        "tests/unit/test_rocprof.py::test_lines_are_queues_where_no_record_has_a_stream",
    ),
)
"""rocprofv3's databases and JSON."""

SAMPLED: Final = (
    Mutant(
        "W1",
        "a sample that ends with a kernel is not its own",
        "sql/lib/counters.sql",
        "ORDER BY lane, at_ns, place)",
        "ORDER BY lane, at_ns, -place)",
        "tests/sql/test_golden.py::TestGolden::test_rows[counters_by_op-samples]",
    ),
    Mutant(
        "W2",
        "one sample in a kernel is enough, however long the kernel is",
        "sql/lib/counters.sql",
        "own_ns > 0 AND own_ns >= (end_ns - start_ns) - own_ns;",
        "own_ns > 0;",
        "tests/sql/test_golden.py::TestGolden::test_rows[counters_by_op-samples]",
    ),
    Mutant(
        "W3",
        "kernels beside each other have all of the power each",
        "sql/lib/counters.sql",
        "THEN held_sum // pieces ELSE",
        "THEN held_sum ELSE",
        "tests/sql/test_golden.py::TestGolden::test_rows[energy.work-kernels]",
    ),
    Mutant(
        "W4",
        "the last sample of a series holds until the next series",
        "sql/lib/counters.sql",
        "CASE WHEN scaled IS NOT NULL AND lead(lane) OVER () = lane THEN",
        "CASE WHEN scaled IS NOT NULL THEN",
        "tests/sql/test_golden.py::TestGolden::test_rows[energy-devices]",
    ),
    Mutant(
        "W5",
        "a step has an energy where samples end in it",
        "sql/lib/counters.sql",
        "has_enough_samples(own_ns, start_ns, end_ns) AND held_ns = end_ns - start_ns;",
        "has_enough_samples(own_ns, start_ns, end_ns);",
        "tests/sql/test_golden.py::TestGolden::test_rows[energy.step-ahead]",
    ),
    Mutant(
        "W7",
        "a kernel with another beside it for a 15th of its time cannot be told apart",
        "sql/lib/counters.sql",
        "AND 10 * beside_ns <= end_ns - start_ns;",
        "AND 20 * beside_ns <= end_ns - start_ns;",
        "tests/sql/test_golden.py::TestGolden::test_rows[energy.work-kernels]",
    ),
    Mutant(
        "W6",
        "the name of a value does not say its unit",
        "profframe/readers/build/counters.py",
        '    unit = pc.coalesce(counters["unit"].cast(pa.string()), of_series)',
        '    unit = counters["unit"].cast(pa.string())',
        "tests/unit/test_counters.py::test_the_unit_may_be_in_the_name_of_the_value",
    ),
    Mutant(
        "W8",
        "the first screen has the counter of a part of the device",
        "profframe/show/trace_header.py",
        """        .sort("mean_w", descending=True, maintain_order=True)
""",
        "",
        "tests/unit/test_counters.py::"
        "test_the_first_screen_has_the_counter_that_contains_the_others",
    ),
    Mutant(
        "W9",
        "the first screen is silent about the part of a trace without samples",
        "profframe/show/trace_header.py",
        "if sampled_ns < _LEAST_SAMPLED * whole_ns:",
        "if sampled_ns < 0 * whole_ns:",
        "tests/unit/test_counters.py::test_the_first_screen_says_how_much_of_the_trace_has_samples",
    ),
)

UPGRADED: Final = (
    Mutant(
        "U1",
        "the oldest schema that opens is refused",
        "profframe/store/versions.py",
        "OLDEST <= number <= schema.SCHEMA_VERSION",
        "OLDEST < number <= schema.SCHEMA_VERSION",
        "tests/unit/test_old_stores.py::TestOpening::test_it_verifies",
    ),
    Mutant(
        "U2",
        "a newer schema opens",
        "profframe/store/versions.py",
        "number is not None and OLDEST <= number <= schema.SCHEMA_VERSION",
        "number is not None and OLDEST <= number <= schema.SCHEMA_VERSION + 1",
        "tests/unit/test_old_stores.py::TestRefused::test_newer_ones",
    ),
    Mutant(
        "U3",
        "bytes that were computed for kernels count as the source's",
        "profframe/facts/stored_facts.py",
        "pa.array(_MOVED))",
        'pa.array([*_MOVED, "kernel"]))',
        "tests/unit/test_stored_facts.py::test_bytes_of_copies_alone_are_of_the_source",
    ),
    Mutant(
        "U4",
        "what was written while a trace was upgraded is lost",
        "profframe/conversion/member_upgrade.py",
        "if layout.identity(store_.root / member.folder) != member.identity:",
        "if False and layout.identity(store_.root / member.folder) != member.identity:",
        "tests/unit/test_old_stores.py::TestInterrupted::test_what_is_written_meanwhile_stays",
    ),
    Mutant(
        "U5",
        "a source that has changed is read",
        "profframe/conversion/member_upgrade.py",
        "is_same = content is not None and layout.checksum(path) == content",
        "is_same = content is not None",
        "tests/unit/test_old_stores.py::TestUpgrade::test_a_source_that_changed_is_not_read",
    ),
    Mutant(
        "U6",
        "a column that was renamed twice is looked for by its second name",
        "profframe/store/schema_steps.py",
        "names |= {new: names.pop(old, old) for new, old in renamed}",
        "names |= {new: old for new, old in renamed}",
        "tests/unit/test_old_stores.py::TestSteps::"
        "test_a_column_that_was_renamed_twice_has_its_first_name",
    ),
)
"""Boundaries of stores of older schemas, and of their upgrade."""

DIVIDED: Final = (
    Mutant(
        "Z1",
        "the finest unit counts, not the coarsest that a parameter leaves",
        "profframe/query/header.py",
        "return max([self.unit, *units], key=UNITS.index)",
        "return min([self.unit, *units], key=UNITS.index)",
        "tests/unit/test_dividing.py::TestHeader::test_it_is_read_and_written_alike",
    ),
    Mutant(
        "Z2",
        "rows of parts are sorted as if NULL came last everywhere",
        "profframe/query/division.py",
        "nulls_last=[key.nulls_last for key in of],",
        "nulls_last=[True for key in of],",
        "tests/unit/test_dividing.py::TestOrder::test_rows_that_tie_keep_the_order_of_parts",
    ),
    Mutant(
        "Z3",
        "a part is sent with the whole that it was taken from",
        "profframe/query/session.py",
        "        return replace(part, full=None)\n",
        "        return replace(part, full=self.full)\n",
        "tests/unit/test_dividing.py::TestParts::test_a_part_knows_nothing_of_the_rest",
    ),
    Mutant(
        "Z4",
        "the sum of what a share has so far is of the last run alone",
        "profframe/trace/parts.py",
        "            events += of_run\n",
        "            events = of_run\n",
        "tests/unit/test_dividing.py::TestParts::test_shares_are_whole_runs_or_ranks_of_one",
    ),
    Mutant(
        "Z5",
        "an answer about kernels has nothing to say of a trace with copies alone",
        "profframe/query/session.py",
        '    "kernels": _WORK,',
        '    "kernels": frozenset({"kernel"}),',
        "tests/unit/test_session.py::"
        "test_an_answer_may_have_kinds_of_slices_where_they_are_asked_for",
    ),
)

KEPT: Final = (
    Mutant(
        "KA1",
        "kept rows are read whatever the events are",
        "profframe/store/kept/validity.py",
        "if {*present.values()} == {*record.members}:\n                chosen",
        "if record.members:\n                chosen",
        "tests/unit/test_kept_answers.py::test_a_run_that_was_written_again_is_computed",
    ),
    Mutant(
        "KA2",
        "a run of which a removal left some ranks has no history",
        "profframe/store/kept/validity.py",
        "{*self.identities.get(component(run), {}).values()} <= {*record.members}",
        "component(run) not in self.identities",
        "tests/unit/test_kept_answers.py::test_a_removal_that_was_killed",
    ),
    Mutant(
        "KA3",
        "rows of another version of an answer are read",
        "profframe/store/kept/validity.py",
        "if record.answers.get(answer) == key",
        "if answer in record.answers",
        "tests/unit/test_kept_answers.py::test_other_sql_is_asked_again",
    ),
    Mutant(
        "KA4",
        "rows with default parameters answer for all parameters",
        "profframe/trace/kept_rows.py",
        "value is None or (key in defaults",
        "value is None or key in defaults or (key in defaults",
        "tests/unit/test_kept_answers.py::test_default_parameters",
    ),
    Mutant(
        "KA5",
        "a file that changed a moment ago is finished",
        "profframe/conversion/arrivals.py",
        "is_still = now_s - file.since_s >= self._pause_s",
        "is_still = now_s > file.since_s",
        "tests/batch/test_watch.py::test_a_file_is_finished_once_it_is_still",
    ),
    Mutant(
        "KA6",
        "a late rank does not join the run of its program",
        "profframe/conversion/scheduler.py",
        "return [published.get(name, name) for name in names]",
        "return [*names]",
        "tests/batch/test_watch.py::test_another_program_in_the_folder_has_its_own_run",
    ),
)

DRAWN_TRACES: Final = (
    Mutant(
        "DT1",
        "an arrow without an id loses its category beside one between nodes",
        "profframe/readers/chrome/columns.py",
        "    is_long = pc.fill_null(is_long, fill_value=False)",
        "    is_long = pc.and_(is_long, True)",
        "tests/unit/test_both_readers.py::test_an_arrow_without_an_id_keeps_its_category_beside_one_between_nodes",
    ),
    Mutant(
        "DT2",
        "parts of a file have dictionaries of their own after names were read",
        "profframe/readers/demangle.py",
        "return replaced.unify_dictionaries()",
        "return replaced",
        "tests/unit/test_both_readers.py::test_mangled_names_in_several_parts_are_those_of_their_events",
    ),
    Mutant(
        "DT3",
        "a name of a collective counts only beside arguments",
        "profframe/readers/chrome/device_args.py",
        "WHERE args IS NULL OR json_valid(args)",
        "WHERE json_valid(args)",
        "tests/unit/test_both_readers.py::test_the_name_of_a_collective_needs_no_arguments",
    ),
    Mutant(
        "DT4",
        "whether a begin has a bad duration depends on its neighbours",
        "profframe/readers/chrome/columns.py",
        '    bad_duration = bad_duration & _is(members["ph"], ("X",))\n',
        "",
        "tests/unit/test_both_readers.py::test_only_slices_have_bad_durations_whatever_is_beside_them",
    ),
    Mutant(
        "DT5",
        "arguments with a member ph are taken for an event",
        "profframe/readers/json/repair.py",
        "self.mark and (end is not None or not self._parses(position))",
        "self.mark",
        "tests/unit/test_both_readers.py::test_an_argument_named_like_a_phase_begins_no_event",
    ),
    Mutant(
        "DT6",
        "rows of later parts begin one too early",
        "profframe/readers/chrome/scanned.py",
        "rows.slice(begins[table], ends[table] - begins[table])",
        "rows.slice(max(0, begins[table] - (first > 0)), ends[table] - begins[table])",
        "tests/fuzz/test_three_readers.py::test_readers_agree_on_some_drawn_documents",
    ),
)

MUTANTS: Final = (
    *SERIOUS, *FACTS, *READERS, *TIES, *MINOR, *RANKS, *GATES, *PLANTED_3A, *PLANTED_3B,
    *PLANS, *GENERATED, *DRAWN_AGAIN, *DRAWN_THIRD, *SERVED, *COMPILED, *INSPECTED, *ROCPROF,
    *SAMPLED, *UPGRADED, *DIVIDED, *KEPT, *DRAWN_TRACES,
)  # fmt: skip


def misplaced(mutants: Sequence[Mutant], root: Path = ROOT) -> Iterator[str]:
    """Say which mutants have not exactly one place, or no test.

    Parameters
    ----------
    mutants
        Those that are looked at.
    root
        The tree.
    """
    for number, times in Counter(mutant.number for mutant in mutants).items():
        if times > 1:
            yield f"{number}: {times} mutants of this number"
    for mutant in mutants:
        file, test = root / mutant.path, mutant.tests.partition("[")[0].split("::")
        places = file.read_text("utf-8").count(mutant.was) if file.is_file() else 0
        if places != 1:
            yield f"{mutant.number}: {mutant.path} has its text {places} times: {mutant.was!r}"
        if mutant.was == mutant.now:
            yield f"{mutant.number}: changes nothing"
        proof = root / test[0]
        if not proof.is_file() or f"def {test[-1]}(" not in proof.read_text("utf-8"):
            yield f"{mutant.number}: no test {mutant.tests}"


def wanted(patterns: Sequence[str]) -> list[Mutant]:
    """Those that any of the patterns fits, or all; a pattern that fits none is an error."""
    for pattern in patterns:
        if not any(_fits(mutant, pattern) for mutant in MUTANTS):
            raise SystemExit(f"no mutant: {pattern}")
    return [
        mutant
        for mutant in MUTANTS
        if not patterns or any(_fits(mutant, pattern) for pattern in patterns)
    ]


def _fits(mutant: Mutant, pattern: str) -> bool:
    """Whether it is of the mutant's number, with the letter or without, or of its path or file."""
    path = PurePath(mutant.path)
    names = (mutant.number, mutant.number.rstrip("abc"), mutant.path, path.name, path.stem)
    return any(fnmatchcase(name, pattern) for name in names)


@contextmanager
def copied() -> Iterator[Path]:
    """Make a copy of the tree."""
    with tempfile.TemporaryDirectory(prefix="profframe-mutants-") as folder:
        tree = Path(folder, "tree").resolve()
        tree.mkdir()
        for name in NEEDED:
            if (ROOT / name).is_dir():
                ignored = shutil.ignore_patterns("__pycache__", ".hypothesis")
                shutil.copytree(ROOT / name, tree / name, ignore=ignored)
            else:
                shutil.copy2(ROOT / name, tree / name)
        _check_is_imported(tree)
        yield tree


def _check_is_imported(tree: Path) -> None:
    """Stop unless children import the copy, whatever is installed."""
    code = (
        "import profframe, profframe.query.header as header;"
        " print(profframe.__file__, header.sql_directory())"
    )
    said = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tree,
        env=_environment(tree),
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    ).stdout.split()
    if said != [str(tree / "profframe" / "__init__.py"), str(tree / "sql")]:
        raise SystemExit(f"children import {' and '.join(said)}, not what is in {tree}")


def _environment(tree: Path) -> dict[str, str]:
    """The variables of a child: real traces are found as from here, and seeds are minded."""
    return os.environ | {
        "PROFFRAME_EXAMPLES": os.environ.get("PROFFRAME_EXAMPLES", "12"),
        "PROFFRAME_SEEDS": "random",
        "PROFFRAME_TRACES": str(TRACES.resolve()),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONPATH": str(tree),
    }


@contextmanager
def planted(tree: Path, mutant: Mutant) -> Iterator[None]:
    """Have a fault in a tree for some time."""
    file = tree / mutant.path
    sound = file.read_text("utf-8")
    try:
        _write(file, sound.replace(mutant.was, mutant.now))
        yield
    finally:
        _write(file, sound)


def _write(file: Path, text: str) -> None:
    """Write a module; bytecode of the same second and size would be taken for that of the text."""
    file.write_text(text, "utf-8")
    for compiled in file.parent.glob(f"__pycache__/{file.stem}.*.pyc"):
        compiled.unlink()


def verdict(tree: Path, tests: Sequence[str], seed: int) -> tuple[Verdict, str]:
    """Run tests in a tree, and say what they say of it.

    Parameters
    ----------
    tree
        The copy, with a fault or without.
    tests
        Files, or tests of them, as pytest names them.
    seed
        Of hypothesis, which remembers nothing of other runs.

    Returns
    -------
    tuple of str
        ``dead`` if a test failed, ``lived`` if all passed, ``late`` if they took too long, and
        ``not run`` if pytest had another reason to end; and what pytest printed.
    """
    shutil.rmtree(tree / ".hypothesis", ignore_errors=True)
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider"]
    with subprocess.Popen(
        [*command, f"--hypothesis-seed={seed}", *tests],
        cwd=tree,
        env=_environment(tree),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as child:
        try:
            said, _ = child.communicate(timeout=LIMIT_S)
        except BaseException as error:
            os.killpg(child.pid, signal.SIGKILL)  # those that it started, too
            if isinstance(error, subprocess.TimeoutExpired):
                return "late", f"no end after {LIMIT_S} s"
            raise
    if child.returncode == 1 and re.search("^FAILED ", said, re.MULTILINE):
        return "dead", said
    return "lived" if child.returncode == 0 else "not run", said


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a mutant each time, and what pytest said where that is no answer."""

    verdicts: Counter[Verdict]
    seconds: float
    trouble: str

    @property
    def is_dead(self) -> bool:
        """Whether it was found each time."""
        return self.verdicts.keys() == {"dead"}


def outcome(tree: Path, mutant: Mutant, times: int) -> Outcome:
    """Plant a mutant in a tree, and run its test so many times."""
    began = time.perf_counter()
    with planted(tree, mutant):
        found = [verdict(tree, [mutant.tests], seed) for seed in range(times)]
    seconds = (time.perf_counter() - began) / times
    trouble = next((said for one, said in found if one in {"late", "not run"}), "")
    return Outcome(Counter(one for one, _ in found), seconds, trouble)


def row(mutant: Mutant, found: Outcome) -> str:
    """A line of the table."""
    dead = f"{found.verdicts['dead']}/{found.verdicts.total()}"
    others = [f"{number} {one}" for one, number in found.verdicts.items() if one != "dead"]
    more = f" ({', '.join(others)})" if others else ""
    return f"{mutant.number:>4}  dead {dead}  {found.seconds:5.1f} s  {mutant.says}{more}"


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> None:
    """Plant the mutants that are asked for."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants")
    parser.add_argument("mutants", nargs="*", help="numbers, or patterns of files; all if none")
    parser.add_argument("--times", type=int, default=1, help="how often each is planted")
    parser.add_argument("--list", action="store_true", help="print them and run nothing")
    parser.add_argument("--check", action="store_true", help="look for their places only")
    given = parser.parse_args()
    if given.times < 1:
        parser.error("--times: at least 1")
    mutants = wanted(given.mutants)
    if given.list:
        for one in mutants:
            _say(f"{one.number:>4}  {one.says}\n      {one.path}, {one.tests}")
        return
    wrong = list(misplaced(mutants))
    if wrong:
        raise SystemExit("\n".join(wrong))
    if given.check:
        _say(f"{len(mutants)} mutants, each in its place")
        return
    with copied() as tree:
        said, output = verdict(tree, list(dict.fromkeys(one.tests for one in mutants)), 0)
        if said != "lived":
            raise SystemExit(f"{output}\nwithout a fault the tests are {said}: nothing is proved")
        alive = []
        for one in mutants:
            found = outcome(tree, one, given.times)
            _say(row(one, found))
            if not found.is_dead:
                alive.append(one.number)
                _say(found.trouble)
    _say(f"{len(mutants)} mutants, {len(mutants) - len(alive)} dead each time")
    if alive:
        raise SystemExit(f"not dead: {', '.join(alive)}")


if __name__ == "__main__":
    main()
