-- What keeps a device busy.

-- is_busy: kernels, copies and fills; waits do not count as work.
-- parameter kind VARCHAR  kind of a slice
-- returns BOOLEAN  whether it does
-- example: SELECT is_busy('kernel')
CREATE OR REPLACE TEMP MACRO is_busy(kind) AS kind IN ('kernel', 'memcpy', 'memset');

-- is_call: runtime or driver calls; device work is launched by one.
-- parameter kind VARCHAR  kind of a slice
-- returns BOOLEAN  whether it is
-- example: SELECT is_call('runtime')
CREATE OR REPLACE TEMP MACRO is_call(kind) AS kind IN ('runtime', 'driver');

-- is_blocking: calls that can make the host wait for a device, by name. They include copies, because those of pageable memory
-- block.
-- parameter name VARCHAR  name of a call
-- returns BOOLEAN  whether it can
-- example: SELECT is_blocking('cudaDeviceSynchronize')
CREATE OR REPLACE TEMP MACRO is_blocking(name) AS
regexp_matches(name, '(?i)synchronize|^(cu|cuda|hip|acl|aclrt|mu|mtia)_?(memcpy|free)');

-- holds_up: whether a call that can block did hold up the host: a shorter one only hands over its work.
-- parameter dur_ns BIGINT  duration of the call
-- returns BOOLEAN  whether it did; NULL if the duration is not known
-- example: SELECT holds_up(20000)
CREATE OR REPLACE TEMP MACRO holds_up(dur_ns) AS dur_ns >= 20000;

-- is_of_pageable_memory: copies of memory that is not pinned to a device, by name.
-- parameter name VARCHAR  name of a copy
-- returns BOOLEAN  whether it is one
-- example: SELECT is_of_pageable_memory('Memcpy HtoD (Pageable -> Device)')
CREATE OR REPLACE TEMP MACRO is_of_pageable_memory(name) AS regexp_matches(name, '(?i)pageable *-> *device');

-- is_communication: what counts as communication between devices, in every answer.
-- parameter kernel_category VARCHAR  kernel_category of a kernel
-- returns BOOLEAN  whether it is; false for NULL
-- example: SELECT is_communication('expert_parallel')
CREATE OR REPLACE TEMP MACRO is_communication(kernel_category) AS
coalesce(kernel_category IN ('collective', 'expert_parallel', 'point_to_point'), false);

-- device_class: a fill counts as computation, as does a kernel that writes zeros or copies.
-- parameter kind VARCHAR  kind of a slice
-- parameter kernel_category VARCHAR  kernel_category of a kernel
-- returns VARCHAR  compute, communication or copy; NULL if it keeps no device busy
-- example: SELECT device_class('kernel', 'gemm')
CREATE OR REPLACE TEMP MACRO device_class(kind, kernel_category) AS
CASE
    WHEN kind = 'memcpy' THEN 'copy'
    WHEN kind = 'kernel' AND is_communication(kernel_category) THEN 'communication'
    WHEN is_busy(kind) THEN 'compute'
END;

-- device_work: one row per slice that keeps a device busy, with its end and its class.
-- parameter events TABLE  `events`, or a part of it
-- column run, rank, event_id, kind, name, device, stream, start_ns, dur_ns, step, launch_id, op_id, correlation  as in events
-- column bytes, collective, process_group, kernel_category, computes_and_communicates  as in events
-- column end_ns BIGINT  end of the work
-- column class VARCHAR  compute, communication or copy
-- example: FROM device_work(events)
CREATE OR REPLACE TEMP MACRO device_work(events) AS TABLE
SELECT
    run, rank, event_id, kind, name, device, stream, start_ns, dur_ns, start_ns + dur_ns AS end_ns,
    step, launch_id, op_id, correlation, bytes, collective, process_group, kernel_category, computes_and_communicates,
    device_class(kind, kernel_category) AS class
FROM query_table(events)
WHERE is_busy(kind) AND start_ns IS NOT NULL AND dur_ns IS NOT NULL;

-- launched_work: one row per slice that keeps a device busy and has a start, with its end, if known, and the thread, start and
-- duration of the call that launched it.
-- parameter events TABLE  `events`, or a part of it
-- column run, rank, event_id, kind, device, stream, start_ns, step, launch_id  as in events
-- column end_ns BIGINT  end of the work; NULL if not known
-- column queued_ns BIGINT  start of the call that launched it; NULL if that is not known
-- column call_ns BIGINT  duration of that call
-- column thread INTEGER  thread of that call
-- example: FROM launched_work(events)
CREATE OR REPLACE TEMP MACRO launched_work(events) AS TABLE
SELECT
    busy.run, busy.rank, busy.event_id, busy.kind, busy.device, busy.stream, busy.start_ns, busy.start_ns + busy.dur_ns AS end_ns,
    busy.step, busy.launch_id, call.start_ns AS queued_ns, call.dur_ns AS call_ns, call.thread
FROM query_table(events) AS busy
LEFT JOIN (
    SELECT run, rank, event_id, start_ns, dur_ns, thread
    FROM query_table(events)
    WHERE is_call(kind)
) AS call
    ON busy.run = call.run AND busy.rank = call.rank AND busy.launch_id = call.event_id
WHERE is_busy(busy.kind) AND busy.start_ns IS NOT NULL;

-- work_by_name: device work added up by run, rank, kind, name and category. `timed` counts work with a duration, `spread` is the
-- sum of squared deviations of durations from their mean.
-- parameter events TABLE  `events`, or a part of it
-- column run, rank, kind, name, kernel_category  as in events
-- column is_mixed BOOLEAN  whether one of them computes and communicates at once
-- column calls BIGINT  number of pieces of work
-- column timed BIGINT  number of those with a duration
-- column total_ns HUGEINT  sum of their durations
-- column min_ns BIGINT  shortest duration
-- column max_ns BIGINT  longest duration
-- column mean_ns DOUBLE  mean duration
-- column spread DOUBLE  sum of squared deviations from the mean
-- column durations BIGINT[]  the durations, in no order; NULL if there are none
-- example: FROM work_by_name(events)
CREATE OR REPLACE TEMP MACRO work_by_name(events) AS TABLE
SELECT
    run, rank, kind, name, kernel_category,
    coalesce(bool_or(computes_and_communicates), false) AS is_mixed,
    count(*) AS calls, count(dur_ns) AS timed, sum(dur_ns) AS total_ns, min(dur_ns) AS min_ns, max(dur_ns) AS max_ns,
    avg(dur_ns) AS mean_ns, count(dur_ns) * var_pop(dur_ns) AS spread,
    list(dur_ns) FILTER (dur_ns IS NOT NULL) AS durations
FROM query_table(events)
WHERE is_busy(kind)
GROUP BY run, rank, kind, name, kernel_category;

-- work_by_op: the time of the same work, also by the name of the op that launched it, if any; a Python frame is none.
-- parameter events TABLE  `events`, or a part of it
-- column run, rank, kind, name, kernel_category  as in events
-- column op VARCHAR  name of the op
-- column op_ns HUGEINT  time of what it launched
-- example: FROM work_by_op(events)
CREATE OR REPLACE TEMP MACRO work_by_op(events) AS TABLE
WITH launched AS MATERIALIZED (
    SELECT run, rank, kind, name, kernel_category, dur_ns, op_id
    FROM query_table(events)
    WHERE is_busy(kind) AND op_id IS NOT NULL
)
SELECT
    launched.run, launched.rank, launched.kind, launched.name, launched.kernel_category, op.name AS op,
    sum(launched.dur_ns) AS op_ns
FROM launched
JOIN query_table(events) AS op ON launched.run = op.run AND launched.rank = op.rank AND launched.op_id = op.event_id
    AND op.kind <> 'python'
GROUP BY ALL;
