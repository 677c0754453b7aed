-- What the rules of `advice` share: texts, and tables that several of them start from.

-- shown: a name from the source for use in a sentence: without characters that a terminal acts on, and at most 80 long.
-- parameter name VARCHAR  any text from the source
-- returns VARCHAR  the text
-- example: SELECT shown(name) FROM events
CREATE OR REPLACE TEMP MACRO shown(name) AS
CASE
    WHEN length(name) > 80
    THEN regexp_replace(name[:79], '[\p{C}\x{2028}\x{2029}]', '?', 'g') || '…'
    ELSE regexp_replace(name, '[\p{C}\x{2028}\x{2029}]', '?', 'g')
END;

-- duration_text: a duration for a sentence, such as `12.3 ms`.
-- parameter ns BIGINT  nanoseconds
-- returns VARCHAR  the text
-- example: SELECT duration_text(1500)
CREATE OR REPLACE TEMP MACRO duration_text(ns) AS
CASE
    WHEN abs(ns) >= 999950000 THEN format('{:.2f} s', ns / 1e9)
    WHEN abs(ns) >= 999500 THEN format('{:.1f} ms', ns / 1e6)
    WHEN abs(ns) >= 9950 THEN format('{:.0f} us', ns / 1e3)
    ELSE format('{:.1f} us', ns / 1e3)
END;

-- time_text: a part of the time examined for a sentence, such as `2.1 ms per step`; without steps, `12.3 ms`.
-- parameter part_ns BIGINT  the part
-- parameter steps BIGINT  number of steps examined; 0 if there are none
-- returns VARCHAR  the text
-- example: SELECT time_text(10, 2)
CREATE OR REPLACE TEMP MACRO time_text(part_ns, steps) AS
duration_text(part_ns / greatest(steps, 1)) || CASE WHEN steps > 0 THEN ' per step' ELSE '' END;

-- devices_text: of how many devices the time of a finding is the mean, for after claimed_part.
-- parameter devices BIGINT  number of devices
-- returns VARCHAR  the text; empty for one device
-- example: SELECT devices_text(2)
CREATE OR REPLACE TEMP MACRO devices_text(devices) AS
CASE WHEN devices > 1 THEN ', the mean of ' || devices || ' devices' ELSE '' END;

-- bytes_text: bytes for a sentence, in steps of 1024.
-- parameter bytes BIGINT  number of bytes
-- returns VARCHAR  the text
-- example: SELECT bytes_text(2048)
CREATE OR REPLACE TEMP MACRO bytes_text(bytes) AS
CASE
    WHEN abs(bytes) >= 1023.95 * 1048576 THEN format('{:.2f} GiB', bytes / 1073741824)
    WHEN abs(bytes) >= 1023.95 * 1024 THEN format('{:.1f} MiB', bytes / 1048576)
    WHEN abs(bytes) >= 1023.5 THEN format('{:.1f} KiB', bytes / 1024)
    ELSE format('{} B', bytes::BIGINT)
END;

-- percent_text: a share for a sentence, such as `31 %`.
-- parameter share DOUBLE  a share, from 0 to 1
-- returns VARCHAR  the text
-- example: SELECT percent_text(0.31)
CREATE OR REPLACE TEMP MACRO percent_text(share) AS
CASE WHEN abs(share) >= 0.0995 OR share = 0 THEN format('{:.0f} %', 1e2 * share) ELSE format('{:.1f} %', 1e2 * share) END;

-- part_text: a part of the time examined, such as `12.3 ms of 40.1 ms per step (31 %)`; without steps, of the whole trace.
-- parameter part_ns BIGINT  the part
-- parameter window_ns BIGINT  all of the time examined
-- parameter steps BIGINT  number of steps examined; 0 if there are none
-- returns VARCHAR  the text
-- example: SELECT part_text(10, 40, 2)
CREATE OR REPLACE TEMP MACRO part_text(part_ns, window_ns, steps) AS
duration_text(part_ns / greatest(steps, 1)) || ' of ' || duration_text(window_ns / greatest(steps, 1))
|| CASE WHEN steps > 0 THEN ' per step (' ELSE ' (' END || percent_text(part_ns / window_ns) || ')';

-- counted: a number of things for a sentence, such as `1,234 gaps`.
-- parameter number BIGINT  how many
-- parameter thing VARCHAR  what one of them is called
-- returns VARCHAR  the text
-- example: SELECT counted(1234, 'gap')
CREATE OR REPLACE TEMP MACRO counted(number, thing) AS
format('{:,} ', number) || thing || CASE WHEN number = 1 THEN '' ELSE 's' END;

-- severity_of: how much a gain matters: a fifth of the time examined is high, a twentieth medium.
-- parameter gain_ns BIGINT  time that can be gained
-- parameter window_ns BIGINT  time examined
-- returns VARCHAR  high, medium or low
-- example: SELECT severity_of(10, 40)
CREATE OR REPLACE TEMP MACRO severity_of(gain_ns, window_ns) AS
CASE WHEN gain_ns >= 0.2 * window_ns THEN 'high' WHEN gain_ns >= 0.05 * window_ns THEN 'medium' ELSE 'low' END;

-- strongest: the events of a finding, at most 100, the strongest evidence first.
-- parameter event_id BIGINT  `event_id` of an event of the finding
-- parameter strength BIGINT  how strongly it shows the finding
-- returns BIGINT[]  at most 100 of them
-- example: SELECT strongest(event_id, dur_ns) FROM events
CREATE OR REPLACE TEMP MACRO strongest(event_id, strength) AS max_by(event_id, {'strength': strength, 'id': -event_id}, 100);

-- The macros below are computed once for all rules: a rule reads their rows by their bare names, `FROM shared_windows`. Their
-- parameters are tables, or shared tables before them.

-- shared_names: the names of slices, one row per kind and name. There are few names: a rule tries its patterns on these, and
-- takes the slices with `name IN (SELECT name FROM shared_names WHERE ...)`. The rows come through few().
-- parameter events TABLE  `events`, or a part of it
-- column kind, name  as in events
-- column events BIGINT  number of slices
-- column communicates BOOLEAN  whether some of them are communication between devices
-- example: FROM shared_names(events)
CREATE OR REPLACE TEMP MACRO shared_names(events) AS TABLE
WITH named AS (
    SELECT kind, name, count(*) AS events, bool_or(is_communication(kernel_category)) AS communicates
    FROM query_table(events)
    WHERE name IS NOT NULL
    GROUP BY kind, name
)
FROM few('named');

-- shared_windows: the time examined, one row per (run, rank) with timed events: the intervals of the whole profiler steps. If
-- there are none (`steps` is 0), it is the time from the first start to the last end of device work; without device work, of
-- everything except the profiler's own span. `window_ns` is the sum of `step_ns`, the same for each of several devices.
-- parameter events TABLE  `events`, or a part of it
-- parameter profiler_steps TABLE  `profiler_steps` of the same traces
-- column run, rank  as in events
-- column lane BIGINT  number of the (run, rank)
-- column has_device BOOLEAN  whether its devices did work
-- column devices BIGINT  number of devices that did work; 1 if none did
-- column steps BIGINT  number of whole steps; 0 if there are none
-- column start_ns BIGINT  when the first step began, or start of the span
-- column end_ns BIGINT  when the last step was completed, or end of the span
-- column window_ns DOUBLE  time examined
-- example: FROM shared_windows(events, profiler_steps)
CREATE OR REPLACE TEMP MACRO shared_windows(events, profiler_steps) AS TABLE
WITH marks AS (
    SELECT run, rank, count(*) AS steps, sum(step_ns) AS window_ns, min(began_ns) AS start_ns, max(completed_ns) AS end_ns
    FROM whole_steps(profiler_steps)
    WHERE step_ns > 0
    GROUP BY run, rank
),
spans AS (
    SELECT
        run, rank, is_busy(kind) AS has_device, min(start_ns) AS start_ns, max(start_ns + coalesce(dur_ns, 0)) AS end_ns,
        bit_count(bit_or(1::UBIGINT << CASE WHEN is_busy(kind) THEN (device % 64 + 64) % 64 END)) AS devices
    FROM query_table(events)
    WHERE kind <> 'profiler' AND start_ns IS NOT NULL
    GROUP BY run, rank, has_device
    QUALIFY has_device OR count(*) OVER (PARTITION BY run, rank) = 1
)
SELECT
    spans.run, spans.rank, row_number() OVER () AS lane, spans.has_device,
    greatest(spans.devices, 1)::BIGINT AS devices,
    coalesce(marks.steps, 0) AS steps,
    coalesce(marks.start_ns, spans.start_ns) AS start_ns,
    coalesce(marks.end_ns, spans.end_ns) AS end_ns,
    coalesce(marks.window_ns, spans.end_ns::HUGEINT - spans.start_ns)::DOUBLE AS window_ns
FROM spans
LEFT JOIN marks ON spans.run = marks.run AND spans.rank = marks.rank
WHERE coalesce(marks.window_ns, spans.end_ns::HUGEINT - spans.start_ns) > 0;

-- shared_work: device work with the calls that launched it: launched_work with an end.
-- parameter events TABLE  `events`, or a part of it
-- column run, rank, event_id, kind, device, stream, start_ns, step, launch_id  as in events
-- column end_ns, queued_ns, call_ns, thread  as in launched_work
-- example: FROM shared_work(events)
CREATE OR REPLACE TEMP MACRO shared_work(events) AS TABLE
FROM launched_work(events)
WHERE end_ns IS NOT NULL;

-- shared_blocks: calls of is_blocking that held up the host (holds_up).
-- parameter events TABLE  `events`, or a part of it
-- parameter shared_names TABLE  rows of shared_names
-- column run, rank, event_id, name, parent_id, start_ns, dur_ns  as in events
-- example: WITH shared_names AS (FROM shared_names(events)) FROM shared_blocks(events, shared_names)
CREATE OR REPLACE TEMP MACRO shared_blocks(events, shared_names) AS TABLE
SELECT run, rank, event_id, name, parent_id, start_ns, dur_ns
FROM query_table(events)
WHERE
    is_call(kind)
    AND holds_up(dur_ns)
    AND start_ns IS NOT NULL
    AND name IN (SELECT name FROM query_table(shared_names) WHERE is_call(kind) AND is_blocking(name));

-- shared_gaps: when a device had nothing to do between two pieces of work: work_gaps that are recorded, within the time
-- examined. If the gap began during a call of shared_blocks, or within 20 us after it, that call is `blocked_id`, and
-- `blocked_ns` is the time by which the host could have been ahead without it, but at most the time by which it was late.
-- parameter events TABLE  `events`, or a part of it
-- parameter shared_windows TABLE  rows of shared_windows
-- parameter shared_work TABLE  rows of shared_work
-- parameter shared_blocks TABLE  rows of shared_blocks
-- column run, rank, device  as in events
-- column lane, steps, window_ns, devices  as in shared_windows
-- column start_ns, gap_ns, host_ns, after_id, thread, cause  as in work_gaps
-- column gap BIGINT  number of the gap
-- column blocked_id BIGINT  event_id of the call that held up the host; NULL if there is none
-- column blocked_ns BIGINT  time by which the host could have been ahead without it
-- example: WITH shared_names AS (FROM shared_names(events)), windows AS (FROM shared_windows(events, profiler_steps)), work AS
-- (FROM shared_work(events)), blocks AS (FROM shared_blocks(events, shared_names)) FROM shared_gaps(events, windows, work,
-- blocks)
CREATE OR REPLACE TEMP MACRO shared_gaps(events, shared_windows, shared_work, shared_blocks) AS TABLE
WITH gaps AS MATERIALIZED (
    SELECT
        gaps.run, gaps.rank, windows.lane, device, gaps.start_ns, gap_ns, host_ns, after_id, thread, cause, steps, window_ns,
        devices, row_number() OVER () AS gap
    FROM work_gaps(events, shared_work, 'device', 30000) AS gaps
    JOIN query_table(shared_windows) AS windows ON gaps.run = windows.run AND gaps.rank = windows.rank
    WHERE cause <> 'unrecorded' AND (windows.steps = 0 OR gaps.step IS NOT NULL)
),
blocks AS MATERIALIZED (
    SELECT
        lane, blocks.event_id, blocks.start_ns, blocks.dur_ns,
        row_number() OVER (PARTITION BY lane ORDER BY blocks.start_ns, event_id) AS number
    FROM query_table(shared_blocks) AS blocks
    JOIN query_table(shared_windows) AS windows ON blocks.run = windows.run AND blocks.rank = windows.rank
),
-- The number of blocks that began before each gap gives the last of them.
begun AS (
    SELECT lane, start_ns, after_id, sum(CASE WHEN after_id IS NULL THEN 1 ELSE 0 END) OVER until_now AS number
    FROM (
        SELECT lane, start_ns, NULL AS after_id
        FROM blocks
        UNION ALL
        SELECT lane, start_ns, after_id
        FROM gaps
        WHERE cause = 'host_wait' AND lane IN (SELECT unnest(list(DISTINCT lane)) FROM blocks)
    )
    WINDOW until_now AS (PARTITION BY lane ORDER BY start_ns, after_id NULLS FIRST ROWS UNBOUNDED PRECEDING)
    QUALIFY after_id IS NOT NULL AND number > 0
),
blocked AS (
    SELECT begun.lane, begun.after_id, blocks.event_id AS block_id, blocks.dur_ns AS block_ns
    FROM begun
    JOIN few('blocks') AS blocks ON begun.lane = blocks.lane AND begun.number = blocks.number
    WHERE begun.start_ns <= blocks.start_ns + blocks.dur_ns + 20000
)
SELECT gaps.*, blocked.block_id AS blocked_id, least(blocked.block_ns, gaps.host_ns) AS blocked_ns
FROM gaps
LEFT JOIN few('blocked') AS blocked ON gaps.lane = blocked.lane AND gaps.after_id = blocked.after_id;

-- shared_traits: what the program of each (run, rank) already does, judged by the names of its slices, so that advice fits. A
-- rank without a row does none of it.
-- parameter events TABLE  `events`, or a part of it
-- parameter shared_names TABLE  rows of shared_names
-- column run, rank  as in events
-- column is_pageable BOOLEAN  whether it copies memory that is not pinned to a device
-- column trains BOOLEAN  whether it runs backward, or an optimizer
-- column is_ddp BOOLEAN  whether it uses DistributedDataParallel
-- column is_fsdp BOOLEAN  whether it uses FSDP
-- column has_graphs BOOLEAN  whether it launches device graphs
-- column is_compiled BOOLEAN  whether it runs code from torch.compile
-- column can_foreach BOOLEAN  whether it steps a torch optimizer that has foreach=True, and none uses lists of tensors
-- column can_fuse BOOLEAN  whether it steps a torch optimizer that has fused=True, and none is fused
-- column is_expandable BOOLEAN  whether device memory is in expandable segments
-- column is_rocm BOOLEAN  whether it calls ROCm's runtime
-- column has_loader BOOLEAN  whether it uses a DataLoader
-- column is_pinning BOOLEAN  whether it pins host memory
-- example: WITH shared_names AS (FROM shared_names(events)) FROM shared_traits(events, shared_names)
CREATE OR REPLACE TEMP MACRO shared_traits(events, shared_names) AS TABLE
WITH named AS (
    SELECT
        kind, name,
        kind = 'memcpy' AND is_of_pageable_memory(name) AS is_pageable,
        regexp_matches(name, 'Backward|^autograd::engine|^Optimizer\.') AS trains,
        contains(name, 'DistributedDataParallel') AS is_ddp,
        regexp_matches(name, '(?i)fsdp|fullysharded|fully_shard') AS is_fsdp,
        is_call(kind) AND regexp_matches(name, '(?i)graphlaunch') AS has_graphs,
        regexp_matches(name, '^Torch-Compiled Region|CompiledFunction|CompiledFxGraph|^triton_') AS is_compiled,
        regexp_full_match(
            name,
            'Optimizer\.step#(ASGD|Adadelta|Adafactor|Adagrad|Adam|AdamW|Adamax|NAdam|RAdam|RMSprop|Rprop|SGD)\.step'
        ) AS has_foreach,
        regexp_full_match(name, 'Optimizer\.step#(Adagrad|Adam|AdamW|SGD)\.step') AS has_fused,
        starts_with(name, 'aten::_foreach_') AS is_foreach,
        starts_with(name, 'aten::_fused_') AS is_fused,
        is_call(kind) AND regexp_matches(name, '^(cu|hip)Mem(Map|Create|AddressReserve)') AS is_expandable,
        is_call(kind) AND starts_with(name, 'hip') AS is_rocm,
        regexp_matches(name, '^enumerate\(DataLoader\)|(^|[/\\])dataloader\.py\(') AS has_loader,
        regexp_matches(name, '^aten::_?pin_memory$|(^|[/\\])pin_memory\.py\(|^Memcpy HtoD \(Pinned') AS is_pinning
    FROM query_table(shared_names)
),
telling AS (
    FROM named
    WHERE
        is_pageable OR trains OR is_ddp OR is_fsdp OR has_graphs OR is_compiled OR has_foreach OR is_foreach OR is_fused
        OR is_expandable OR is_rocm OR has_loader OR is_pinning
)
SELECT
    slice.run, slice.rank,
    bool_or(is_pageable) AS is_pageable, bool_or(trains) AS trains, bool_or(is_ddp) AS is_ddp, bool_or(is_fsdp) AS is_fsdp,
    bool_or(has_graphs) AS has_graphs, bool_or(is_compiled) AS is_compiled,
    bool_or(has_foreach) AND NOT bool_or(is_foreach) AND NOT bool_or(is_fused) AS can_foreach,
    bool_or(has_fused) AND NOT bool_or(is_fused) AS can_fuse,
    bool_or(is_expandable) AS is_expandable, bool_or(is_rocm) AS is_rocm, bool_or(has_loader) AS has_loader,
    bool_or(is_pinning) AS is_pinning
FROM query_table(events) AS slice
JOIN few('telling') AS telling ON slice.kind = telling.kind AND slice.name = telling.name
GROUP BY slice.run, slice.rank;

-- shared_owners: what the host did in the gaps of shared_gaps, from gap_stretches: by line of the user's own code, and by
-- annotation.
-- parameter events TABLE  `events`, or a part of it
-- parameter shared_gaps TABLE  rows of shared_gaps
-- column run, rank  as in events
-- column gap BIGINT  number of the gap, as in shared_gaps
-- column sort VARCHAR  line or annotation
-- column label VARCHAR  name of the line or annotation; profiler steps do not count as annotations
-- column part_ns BIGINT  part of the gap
-- example: WITH shared_names AS (FROM shared_names(events)), windows AS (FROM shared_windows(events, profiler_steps)), work AS
-- (FROM shared_work(events)), blocks AS (FROM shared_blocks(events, shared_names)), gaps AS (FROM shared_gaps(events, windows,
-- work, blocks)) FROM shared_owners(events, gaps)
CREATE OR REPLACE TEMP MACRO shared_owners(events, shared_gaps) AS TABLE
WITH numbered AS MATERIALIZED (
    SELECT run, rank, device, NULL::INTEGER AS stream, start_ns, start_ns + gap_ns AS end_ns, gap_ns, thread, gap
    FROM query_table(shared_gaps)
)
SELECT numbered.run, numbered.rank, owned.gap, owned.sort, owned.label, sum(owned.part_ns)::BIGINT AS part_ns
FROM gap_stretches(events, 'numbered', ['line', 'annotation']) AS owned
JOIN numbered ON owned.gap = numbered.gap
WHERE NOT regexp_full_match(coalesce(owned.label, ''), 'ProfilerStep#\d+')
GROUP BY ALL;

-- shared_hosts: where the host was in most of the gaps of a rank: the line that covers most of them, without one the annotation.
-- A rank without a row has none that covers a fifth of them.
-- parameter shared_gaps TABLE  rows of shared_gaps
-- parameter shared_owners TABLE  rows of shared_owners
-- column run, rank  as in events
-- column label VARCHAR  the line or annotation
-- column share DOUBLE  the part of the gaps that it covers
-- example: WITH shared_names AS (FROM shared_names(events)), windows AS (FROM shared_windows(events, profiler_steps)), work AS
-- (FROM shared_work(events)), blocks AS (FROM shared_blocks(events, shared_names)), gaps AS (FROM shared_gaps(events, windows,
-- work, blocks)), owners AS (FROM shared_owners(events, gaps)) FROM shared_hosts(gaps, owners)
CREATE OR REPLACE TEMP MACRO shared_hosts(shared_gaps, shared_owners) AS TABLE
SELECT
    sums.run, sums.rank,
    arg_max(label, {'is_line': sort = 'line', 'ns': part_ns, 'label': label}) AS label,
    max({'is_line': sort = 'line', 'ns': part_ns}).ns / any_value(gaps.gap_ns) AS share
FROM (
    SELECT run, rank, sort, label, sum(part_ns) AS part_ns
    FROM query_table(shared_owners)
    GROUP BY run, rank, sort, label
) AS sums
JOIN (SELECT run, rank, sum(gap_ns) AS gap_ns FROM query_table(shared_gaps) GROUP BY run, rank) AS gaps
    ON sums.run = gaps.run AND sums.rank = gaps.rank
WHERE part_ns >= 0.2 * gaps.gap_ns
GROUP BY sums.run, sums.rank;

-- idle_text: what a finding about idle time that no other explains says.
-- parameter steps BIGINT  number of steps examined; 0 if there are none
-- parameter devices BIGINT  number of devices
-- parameter share DOUBLE  part of the gaps in which the host was at the label
-- parameter label VARCHAR  a line or annotation; NULL for none
-- returns VARCHAR  the text
-- example: SELECT idle_text(0, 2, 0.5, 'load')
CREATE OR REPLACE TEMP MACRO idle_text(steps, devices, share, label) AS
'Devices have nothing to do for ' || claimed_part()
|| CASE WHEN steps = 0 THEN devices_text(devices) ELSE '' END
|| coalesce(', ' || percent_text(share) || ' of the gaps while the host is in ' || shown(label), '');

-- shared_idle: idle time examined, one row per rank that has any, with all that a finding about it says but how bad it is. With
-- steps it is that of whole steps, in which a rank is busy while any device of it is; without, the mean over the devices of their
-- gaps, and of the times before their first and after their last work.
-- parameter profiler_steps TABLE  `profiler_steps` of the same traces
-- parameter shared_windows TABLE  rows of shared_windows
-- parameter shared_work TABLE  rows of shared_work
-- parameter shared_gaps TABLE  rows of shared_gaps
-- parameter shared_hosts TABLE  rows of shared_hosts
-- column run, rank  as in events
-- column window_ns  as in shared_windows
-- column cause VARCHAR  idle
-- column finding VARCHAR  what the finding says
-- column gain_basis VARCHAR  why its gain is not known
-- column where VARCHAR  where the host was in most of the gaps; NULL if nowhere
-- column evidence_events BIGINT[]  steps, or work that followed gaps, with the most of it
-- column events BIGINT  number of all of these
-- column claimed STRUCT[]  spans of the steps or gaps, as span gives them
-- column claimed_ns DOUBLE  idle time
-- column estimated_gain_ns BIGINT  NULL: it is not known
-- example: WITH shared_names AS (FROM shared_names(events)), windows AS (FROM shared_windows(events, profiler_steps)), work AS
-- (FROM shared_work(events)), blocks AS (FROM shared_blocks(events, shared_names)), gaps AS (FROM shared_gaps(events, windows,
-- work, blocks)), owners AS (FROM shared_owners(events, gaps)), hosts AS (FROM shared_hosts(gaps, owners))
-- FROM shared_idle(profiler_steps, windows, work, gaps, hosts)
CREATE OR REPLACE TEMP MACRO shared_idle(profiler_steps, shared_windows, shared_work, shared_gaps, shared_hosts) AS TABLE
WITH used AS (
    SELECT
        work.run, work.rank, windows.devices, windows.start_ns AS since_ns, windows.end_ns AS until_ns,
        min(work.start_ns) AS start_ns, max(work.end_ns) AS end_ns,
        arg_min(event_id, {'at_ns': work.start_ns, 'id': event_id}) AS first_id
    FROM query_table(shared_work) AS work
    JOIN query_table(shared_windows) AS windows ON work.run = windows.run AND work.rank = windows.rank
    WHERE windows.steps = 0 AND windows.devices > 1
    GROUP BY work.run, work.rank, work.device, windows.devices, windows.start_ns, windows.end_ns
),
unused AS (
    SELECT
        run, rank, devices, unnest([first_id, NULL]) AS event_id, unnest([since_ns, end_ns]) AS start_ns,
        unnest([start_ns, until_ns]) AS end_ns
    FROM used
)
SELECT
    idle.run,
    idle.rank,
    windows.window_ns,
    'idle' AS cause,
    idle_text(windows.steps, windows.devices, any_value(hosts.share), any_value(hosts.label)) AS finding,
    strongest(event_id, idle.idle_ns) AS evidence_events,
    count(event_id) AS events,
    list(idle.time) AS claimed,
    sum(idle.idle_ns) AS claimed_ns,
    NULL::BIGINT AS estimated_gain_ns,
    'no rule knows the cause' AS gain_basis,
    shown(any_value(hosts.label)) AS "where"
FROM (
    SELECT run, rank, event_id, idle_ns::DOUBLE AS idle_ns, span(began_ns, completed_ns) AS time
    FROM whole_steps(profiler_steps)
    WHERE step_ns > 0
    UNION ALL
    SELECT run, rank, after_id AS event_id, gap_ns / devices AS idle_ns, span(start_ns, start_ns + gap_ns) AS time
    FROM query_table(shared_gaps)
    WHERE steps = 0
    UNION ALL
    SELECT run, rank, event_id, (end_ns - start_ns) / devices AS idle_ns, span(start_ns, end_ns) AS time
    FROM unused
) AS idle
JOIN query_table(shared_windows) AS windows ON idle.run = windows.run AND idle.rank = windows.rank
LEFT JOIN query_table(shared_hosts) AS hosts ON idle.run = hosts.run AND idle.rank = hosts.rank
WHERE windows.has_device AND idle_ns > 0
GROUP BY idle.run, idle.rank, windows.steps, windows.window_ns, windows.devices;

-- faster_dtype: the type in which a device has a higher peak for matrix products than in fp32: tf32, else the better of bf16 and
-- fp16.
-- parameter device STRUCT  a row of `devices`
-- returns VARCHAR  the type; NULL if there is none
-- example: SELECT faster_dtype(d) FROM devices AS d
CREATE OR REPLACE TEMP MACRO faster_dtype(device) AS
CASE
    WHEN device.tf32_flop_per_s > peak_rate('fp32', device) THEN 'tf32'
    WHEN coalesce(greatest(device.bf16_flop_per_s, device.fp16_flop_per_s) <= peak_rate('fp32', device), true) THEN NULL
    WHEN device.bf16_flop_per_s >= coalesce(device.fp16_flop_per_s, 0) THEN 'bf16'
    ELSE 'fp16'
END;

-- is_fp32_product: matrix products and convolutions in fp32 on units that are not for matrices, by the names of kernels.
-- parameter kind VARCHAR  kind of a slice
-- parameter name VARCHAR  its name
-- returns BOOLEAN  whether it is one
-- example: SELECT is_fp32_product('kernel', 'ampere_sgemm_128x64_tn')
CREATE OR REPLACE TEMP MACRO is_fp32_product(kind, name) AS
kind = 'kernel' AND coalesce(product_precision(name) = 'fp32', false);

-- tensor_dtype: the type of matrix products that a device of NVIDIA has tensor cores for, by its compute capability, where its
-- peaks are not known. Devices of AMD give one too, and some have no name. Small devices of 7.5 (GTX 16, MX450, T1000) have none.
-- parameter device STRUCT  a row of `devices`
-- returns VARCHAR  tf32 or fp16; NULL if it has none, or peaks are known
-- example: SELECT tensor_dtype(d) FROM devices AS d
CREATE OR REPLACE TEMP MACRO tensor_dtype(device) AS
CASE
    WHEN
        device.fp32_flop_per_s IS NOT NULL
        OR coalesce(device.name, '') = ''
        OR regexp_matches(device.name, '(?i)GTX 16|MX[45]50|\bT(550|(4|5|6|10|12|20)00)\b|\bAMD\b|Radeon|Instinct|gfx\d')
        THEN NULL
    WHEN try_cast(split_part(device.compute_capability, '.', 1) AS INTEGER) >= 8 THEN 'tf32'
    WHEN try_cast(split_part(device.compute_capability, '.', 1) AS INTEGER) = 7 THEN 'fp16'
END;

-- half_precision: what to do where the products of a device are faster in half precision than in tf32, which it may not have.
-- parameter dtype VARCHAR  bf16 or fp16
-- parameter has_tf32 BOOLEAN  whether the device has tf32
-- parameter has_bf16 BOOLEAN  whether it has bf16
-- returns VARCHAR  the text
-- example: SELECT half_precision('fp16', false, false)
CREATE OR REPLACE TEMP MACRO half_precision(dtype, has_tf32, has_bf16) AS
CASE
    WHEN dtype = 'bf16' THEN 'Use bf16 with torch.autocast(dtype=torch.bfloat16), or fp16'
    ELSE 'Use fp16 with torch.autocast(dtype=torch.float16) and a GradScaler in training'
END
|| CASE
    WHEN has_tf32
        THEN '; tf32, torch.set_float32_matmul_precision("high"), has no higher peak than fp32 on this device.'
    WHEN dtype = 'bf16' OR has_bf16 THEN ': this device has no tf32.'
    ELSE ': this device has no tf32 and no bf16.'
END;

-- shared_waits: when ranks reached collectives, in runs of several ranks, on one clock if possible: the rows of collective_waits
-- that can be compared.
-- parameter events TABLE  `events`, or a part of it
-- parameter traces TABLE  `traces` of the same runs
-- parameter shared_windows TABLE  rows of shared_windows
-- column *  as in collective_waits
-- example: WITH windows AS (FROM shared_windows(events, profiler_steps)) FROM shared_waits(events, traces, windows)
CREATE OR REPLACE TEMP MACRO shared_waits(events, traces, shared_windows) AS TABLE
WITH several AS (
    SELECT run
    FROM query_table(shared_windows)
    GROUP BY run
    HAVING count(*) > 1
),
matches AS MATERIALIZED (
    FROM collective_matches(events, traces) AS matches
    SEMI JOIN several ON matches.run = several.run
)
FROM collective_waits('matches', traces, true)
WHERE came_ns IS NOT NULL;

-- shared_communication: one row per collective kernel in the time examined, with the part of it in which no computation ran; if
-- several run at once, that part belongs to the first of them.
-- parameter events TABLE  `events`, or a part of it
-- parameter shared_windows TABLE  rows of shared_windows
-- parameter shared_waits TABLE  rows of shared_waits
-- column run, rank, event_id, name, kernel_category, process_group, dur_ns  as in events
-- column steps, window_ns  as in shared_windows
-- column start_ns  as in events
-- column end_ns BIGINT  its end
-- column collective VARCHAR  the operation; NULL if not known
-- column exposed_ns HUGEINT  part of it in which nothing computed
-- column waited_ns HUGEINT  part of exposed_ns in which it waited for a rank that came later
-- example: WITH windows AS (FROM shared_windows(events, profiler_steps)), waits AS (FROM shared_waits(events, traces, windows))
-- FROM shared_communication(events, windows, waits)
CREATE OR REPLACE TEMP MACRO shared_communication(events, shared_windows, shared_waits) AS TABLE
WITH ranks AS MATERIALIZED (
    SELECT *
    FROM query_table(shared_windows)
    SEMI JOIN (
        FROM query_table(events)
        WHERE kind = 'kernel' AND is_communication(kernel_category)
    ) AS communicating
        USING (run, rank)
),
work AS MATERIALIZED (
    SELECT
        ranks.lane, work.event_id, class = 'compute' AS computes, class = 'communication' AS communicates, work.start_ns,
        work.end_ns, work.op_id, work.name, work.kernel_category, work.collective, work.process_group, work.step
    FROM device_work(events) AS work
    JOIN ranks ON work.run = ranks.run AND work.rank = ranks.rank
),
ops AS (
    SELECT run, rank, event_id, collective, process_group
    FROM query_table(events)
    WHERE kind <> 'kernel' AND (collective IS NOT NULL OR process_group IS NOT NULL)
),
kernels AS (
    SELECT
        work.*, clock.alone_ns, clock.alone_end_ns,
        max(clock.alone_end_ns) OVER before AS free_ns
    FROM work
    JOIN communication_clock('work') AS clock ON work.lane = clock.lane AND work.event_id = clock.event_id
    WHERE work.communicates
    WINDOW before AS (
        PARTITION BY work.lane ORDER BY work.start_ns, work.event_id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    )
)
SELECT
    ranks.run, ranks.rank, ranks.steps, ranks.window_ns, kernels.event_id, kernels.start_ns, kernels.end_ns, kernels.name,
    kernels.kernel_category,
    coalesce(kernels.collective, ops.collective, collective_kind(kernels.name)) AS collective,
    coalesce(kernels.process_group, ops.process_group) AS process_group,
    kernels.end_ns - kernels.start_ns AS dur_ns,
    time_added(alone_ns, alone_end_ns, free_ns) AS exposed_ns,
    least(time_added(alone_ns, alone_end_ns, free_ns), coalesce(waits.wait_ns, 0)) AS waited_ns
FROM kernels
JOIN ranks ON kernels.lane = ranks.lane
LEFT JOIN query_table(shared_waits) AS waits
    ON ranks.run = waits.run AND ranks.rank = waits.rank AND kernels.event_id = waits.event_id
LEFT JOIN ops ON ranks.run = ops.run AND ranks.rank = ops.rank AND kernels.op_id = ops.event_id
WHERE ranks.steps = 0 OR kernels.step IS NOT NULL;

-- shared_marked: slices that rules about adjacent ops look at, by name, without their text columns.
-- parameter events TABLE  `events`, or a part of it
-- parameter shared_names TABLE  rows of shared_names
-- column run, rank, thread, step, event_id, parent_id, kind, name, preorder, last_descendant_id, dur_ns  as in events
-- column device_ns, idle_ns  as in events
-- example: WITH shared_names AS (FROM shared_names(events)) FROM shared_marked(events, shared_names)
CREATE OR REPLACE TEMP MACRO shared_marked(events, shared_names) AS TABLE
SELECT
    run, rank, thread, step, event_id, parent_id, kind, name, preorder, last_descendant_id, dur_ns, device_ns, idle_ns
FROM query_table(events)
WHERE preorder IS NOT NULL AND name IN (SELECT name FROM query_table(shared_names) WHERE is_marked(kind, name));

-- shared_phases: occurrences of inference phases in the time examined: those of phase_occurrences outside the warm-up, with the
-- idle time of their devices. Without steps, what is before the first device work or after the last is not examined: what
-- devices did then is not recorded.
-- parameter events TABLE  `events`, or a part of it
-- parameter shared_windows TABLE  rows of shared_windows
-- column run, rank, event_id, phase, batch, start_ns, span_end_ns, kernels, device_ns, graphs, execution  as in phase_occurrences
-- column steps, window_ns  as in shared_windows
-- column span_ns BIGINT  length of its span
-- column examined_ns BIGINT  part of its span in the time examined
-- column idle_ns BIGINT  part of that in which no device of the rank was busy
-- column inner_idle_ns BIGINT  the same between its first and its last work
-- column short_kernels BIGINT  number of its kernels that take less than 20 us
-- example: WITH windows AS (FROM shared_windows(events, profiler_steps)) FROM shared_phases(events, windows)
CREATE OR REPLACE TEMP MACRO shared_phases(events, shared_windows) AS TABLE
WITH marks AS MATERIALIZED (
    FROM phase_marks(events)
),
work AS MATERIALIZED (
    FROM phase_work(events)
),
occurrences AS MATERIALIZED (
    SELECT
        seen.*, windows.steps, windows.window_ns, row_number() OVER () AS lane,
        CASE WHEN steps > 0 THEN seen.start_ns ELSE greatest(seen.start_ns, windows.start_ns) END AS since_ns,
        CASE WHEN steps > 0 THEN span_end_ns ELSE least(span_end_ns, windows.end_ns) END AS until_ns
    FROM phase_occurrences('marks', 'work') AS seen
    JOIN query_table(shared_windows) AS windows ON seen.run = windows.run AND seen.rank = windows.rank
    WHERE is_warmup IS NOT TRUE AND (windows.steps = 0 OR seen.step IS NOT NULL)
),
spans AS MATERIALIZED (
    SELECT run, rank, lane, since_ns AS start_ns, until_ns AS end_ns
    FROM occurrences
    WHERE since_ns <= until_ns
),
inner_times AS (
    SELECT
        run, rank, phase_id AS event_id,
        try_cast(max(idle_ns) - min(idle_ns) AS BIGINT) AS inner_idle_ns,
        count(*) FILTER (is_kernel AND dur_ns < 20000) AS short_kernels
    FROM work
    GROUP BY run, rank, phase_id
)
SELECT
    occurrences.run, occurrences.rank, occurrences.event_id, occurrences.phase, occurrences.batch, occurrences.start_ns,
    occurrences.span_end_ns, occurrences.kernels, occurrences.device_ns, occurrences.graphs, occurrences.execution,
    occurrences.steps, occurrences.window_ns, occurrences.span_end_ns - occurrences.start_ns AS span_ns,
    idle.span_ns AS examined_ns, idle.idle_ns,
    coalesce(inner_times.inner_idle_ns, 0) AS inner_idle_ns,
    coalesce(inner_times.short_kernels, 0) AS short_kernels
FROM occurrences
JOIN phase_idle(events, 'spans') AS idle ON occurrences.lane = idle.lane
LEFT JOIN inner_times
    ON occurrences.run = inner_times.run AND occurrences.rank = inner_times.rank
    AND occurrences.event_id = inner_times.event_id;
