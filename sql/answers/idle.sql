-- idle: how long each stream had nothing to do, by cause.
-- One row per (run, rank, device, stream, cause that occurs), by run, rank, device and stream, the longest idle_ns first.
-- A gap lies between the end of everything that ran before on the stream and the start of the next kernel, copy or fill there, so
-- a stream is busy or idle from its first start to its last end: busy_ns + idle_ns of all its causes = span_ns. Causes:
-- host_wait: the call that launched the next work began in the gap: the stream waited for the host until then (launch_wait_ns).
-- sync: the stream had to wait for another one (Stream Wait Event and similar) beyond the end of its previous work.
-- If both apply, the longer counts: from the start of the gap to the call, or from the call to the end of the wait.
-- kernel_wait: neither, and shorter than kernel_wait_ns: the usual delay between two kernels.
-- other: neither, and longer. A launch that is not in the trace is assumed to have come before the gap.
-- unrecorded: a call launched work that is not in the trace, and which may have run then: nobody knows whether it was a gap.
-- What the host did is the line of the user's own code, the module, op and annotation that it was in for most of these gaps, as
-- in `gaps`; all with the same name count together, and `ProfilerStep#N` is `ProfilerStep*`. With by=line, ...
-- they all have a row.
-- In a bare shell read from `sql/lib` first: devices, frames, lanes, intervals, steps, busy, idle_causes, gap_owners.
-- needs: events
-- recorded: device_work
-- no rows: there is no gap between two pieces of work of a stream
-- divides by: rank
-- over ranks: cause; device, stream; busy_ns, span_ns
-- main columns: cause, device, stream, idle_ns, span_share, gaps, op_name, line_name, op_ns, max_ns, share, mean_ns
-- main columns: module_name, annotation_name
-- parameter per            VARCHAR(stream|device) = stream  gaps of each stream, or of each device as a whole
-- parameter kernel_wait_ns BIGINT = 30000  gaps of at least this, in ns, are not kernel_wait
-- parameter by  VARCHAR(cause|line|module|op|annotation|frame|call) = cause  what each row is; others: what the host was in
-- run              VARCHAR        run that the trace belongs to
-- rank             INTEGER        rank within the run
-- device           INTEGER        index of the device; NULL if the source does not say
-- stream           INTEGER        stream of the device; NULL if the source does not say, and for a device as a whole
-- cause            VARCHAR        host_wait, sync, kernel_wait, other or unrecorded
-- gaps             BIGINT         number of gaps
-- idle_ns          BIGINT   ns    sum of the gaps
-- mean_ns          BIGINT   ns    mean gap, rounded half up
-- max_ns           BIGINT   ns    longest gap
-- share            DOUBLE   0..1  idle_ns over that of all causes but unrecorded, of the stream or device; NULL for unrecorded
-- span_share       DOUBLE   0..1  idle_ns over span_ns, which is from the first to the last work
-- busy_ns          BIGINT   ns    time in which the stream, or the device, was busy; what overlaps counts once
-- span_ns          BIGINT   ns    first start to last end on the stream, or the device; NULL beyond BIGINT
-- line_name        VARCHAR        user's line with the most of idle_ns; NULL if there is none
-- line_ns          BIGINT   ns    part of idle_ns with the host in that line
-- module_name      VARCHAR        nn.Module with the most of idle_ns
-- module_ns        BIGINT   ns    part of idle_ns with the host in it
-- op_name          VARCHAR        op with the most of idle_ns
-- op_ns            BIGINT   ns    part of idle_ns with the host in it
-- annotation_name  VARCHAR        annotation with the most of idle_ns
-- annotation_ns    BIGINT   ns    part of idle_ns with the host in it
-- launch_wait_ns   BIGINT   ns    part of idle_ns before the calls that launched the next work, where these are known
WITH work AS MATERIALIZED (
    FROM launched_work(events)
),
caused AS MATERIALIZED (
    FROM work_gaps(events, work, coalesce(getvariable('per'), 'stream'), coalesce(getvariable('kernel_wait_ns'), 30000))
),
groups AS (
    SELECT run, rank, device, stream, cause, row_number() OVER () AS gap
    FROM (SELECT DISTINCT run, rank, device, stream, cause FROM caused)
),
all_gaps AS MATERIALIZED (
    SELECT caused.*, groups.gap
    FROM caused
    JOIN few('groups') AS groups
        ON caused.run = groups.run
        AND caused.rank = groups.rank
        AND caused.device IS NOT DISTINCT FROM groups.device
        AND caused.stream IS NOT DISTINCT FROM groups.stream
        AND caused.cause = groups.cause
),
owners AS (
    SELECT gap, sort, idle_label(label) AS label, sum(part_ns)::BIGINT AS part_ns
    FROM (
        SELECT gap, sort, label, sum(part_ns) AS part_ns
        FROM gap_stretches(events, all_gaps, ['line', 'module', 'op', 'annotation'])
        GROUP BY gap, sort, label
    )
    GROUP BY ALL
),
most AS (
    SELECT gap, map_from_entries(list({'key': sort, 'value': {'label': label, 'part_ns': part_ns}})) AS of_sort
    FROM (
        FROM owners
        QUALIFY row_number() OVER (PARTITION BY gap, sort ORDER BY part_ns DESC, label NULLS LAST) = 1
    )
    GROUP BY gap
),
causes AS (
    SELECT
        gap, run, rank, device, stream, cause,
        count(*) AS gaps,
        sum(gap_ns) AS idle_ns,
        max(gap_ns) AS max_ns,
        sum(least(host_ns, gap_ns)) FILTER (cause <> 'unrecorded') AS launch_wait_ns,
        sum(sum(gap_ns)) OVER (PARTITION BY run, rank, device, stream) AS stream_idle_ns,
        sum(sum(gap_ns)) FILTER (cause <> 'unrecorded') OVER (PARTITION BY run, rank, device, stream) AS known_idle_ns
    FROM all_gaps
    GROUP BY gap, run, rank, device, stream, cause
),
spans AS (
    SELECT
        run, rank, device, lane_stream(coalesce(getvariable('per'), 'stream'), stream) AS stream,
        max(end_ns)::HUGEINT - min(start_ns) AS span_ns
    FROM work
    WHERE end_ns IS NOT NULL
    GROUP BY ALL
)
SELECT
    causes.run,
    causes.rank,
    causes.device,
    causes.stream,
    causes.cause,
    causes.gaps,
    causes.idle_ns::BIGINT AS idle_ns,
    ((2 * causes.idle_ns + causes.gaps) // (2 * causes.gaps))::BIGINT AS mean_ns,
    causes.max_ns,
    CASE WHEN causes.cause <> 'unrecorded' THEN causes.idle_ns / causes.known_idle_ns END AS share,
    causes.idle_ns / spans.span_ns AS span_share,
    try_cast(spans.span_ns - causes.stream_idle_ns AS BIGINT) AS busy_ns,
    try_cast(spans.span_ns AS BIGINT) AS span_ns,
    of_sort['line'].label AS line_name,
    of_sort['line'].part_ns AS line_ns,
    of_sort['module'].label AS module_name,
    of_sort['module'].part_ns AS module_ns,
    of_sort['op'].label AS op_name,
    of_sort['op'].part_ns AS op_ns,
    of_sort['annotation'].label AS annotation_name,
    of_sort['annotation'].part_ns AS annotation_ns,
    causes.launch_wait_ns::BIGINT AS launch_wait_ns
FROM causes
JOIN spans
    ON causes.run = spans.run
    AND causes.rank = spans.rank
    AND causes.device IS NOT DISTINCT FROM spans.device
    AND causes.stream IS NOT DISTINCT FROM spans.stream
LEFT JOIN most ON causes.gap = most.gap
ORDER BY causes.run, causes.rank, causes.device NULLS LAST, causes.stream NULLS LAST, causes.idle_ns DESC, causes.cause
