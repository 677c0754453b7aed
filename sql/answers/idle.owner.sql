-- idle(by=line|module|op|annotation|frame|call): what the host did while the devices had nothing to do.
-- One row per (run, rank, device, stream, name), by run, rank, device and stream, the longest idle_ns first, then by name.
-- All gaps of `idle` but the unrecorded ones are added up by what the thread that launched the next work was in: the line (a
-- frame of the user's own code, with everything below it that is in no other such frame), or the innermost module, op,
-- annotation, frame or call. With `into` frames of libraries are lines too. The thread is the same as in `gaps`; so are lines
-- and modules for a thread without any. The row without a name is the time in none of these, so the rows of a device add up to
-- its idle time. `ProfilerStep#N` is `ProfilerStep*`. A gap inside a replay of a graph, which the host does not wait for, is
-- that of the captured call of the next work, if that is known.
-- In a bare shell read from `sql/lib` first: devices, frames, lanes, intervals, steps, busy, idle_causes, gap_owners.
-- needs: events
-- recorded: device_work
-- no rows: there is no gap between two pieces of work of a device
-- divides by: rank
-- over ranks: name; device, stream
-- main columns: name, stream, idle_ns, share, gaps, max_ns, device
-- parameter by   VARCHAR(line|module|op|annotation|frame|call) = line  what each row is
-- parameter per  VARCHAR(stream|device) = stream                       gaps of each stream, or of each device as a whole
-- parameter into VARCHAR = none                                        libraries whose frames are lines too, as in `python_lines`
-- run        VARCHAR        run that the trace belongs to
-- rank       INTEGER        rank within the run
-- device     INTEGER        index of the device; NULL if the source does not say
-- stream     INTEGER        stream of the device; NULL if the source does not say, and for a device as a whole
-- name       VARCHAR        name of the line, module, op, annotation, frame or call; NULL if the host was in none
-- gaps       BIGINT         number of gaps that it has a part in
-- idle_ns    BIGINT   ns    time of all gaps in which the host was in it
-- share      DOUBLE   0..1  idle_ns over that of all gaps of the device, or of the stream
-- max_ns     BIGINT   ns    longest time in one gap
-- max_id     BIGINT         event_id of the slice with the longest time in one gap; NULL if there is none
WITH work AS MATERIALIZED (
    FROM launched_work(events)
),
all_gaps AS MATERIALIZED (
    SELECT run, rank, device, stream, start_ns, end_ns, gap_ns, thread, after_id, row_number() OVER () AS gap
    FROM work_gaps(events, work, coalesce(getvariable('per'), 'stream'), 30000)
    WHERE cause <> 'unrecorded'
),
captured AS MATERIALIZED (
    FROM captured_owners(events, coalesce(getvariable('by'), 'line'), coalesce(getvariable('into'), 'none'))
),
inside AS MATERIALIZED (
    FROM replay_gaps(events, all_gaps, captured)
),
host_gaps AS MATERIALIZED (
    FROM all_gaps
    ANTI JOIN inside ON all_gaps.gap = inside.gap
),
owners AS MATERIALIZED (
    SELECT gap, idle_label(any_value(label)) AS name, event_id, sum(part_ns)::BIGINT AS part_ns
    FROM gap_stretches(events, host_gaps, [coalesce(getvariable('by'), 'line')], coalesce(getvariable('into'), 'none'))
    GROUP BY gap, event_id
    UNION ALL
    SELECT gap, label, event_id, gap_ns
    FROM inside
),
named AS (
    SELECT gap, name, sum(part_ns) AS part_ns, arg_max(event_id, {'ns': part_ns, 'id': -event_id}) AS event_id
    FROM owners
    GROUP BY gap, name
),
rests AS (
    SELECT all_gaps.gap, NULL::VARCHAR AS name, gap_ns - coalesce(owned_ns, 0) AS part_ns, NULL::BIGINT AS event_id
    FROM all_gaps
    LEFT JOIN (SELECT gap, sum(part_ns) AS owned_ns FROM owners GROUP BY gap) AS owned ON all_gaps.gap = owned.gap
    WHERE part_ns > 0
),
sums AS (
    SELECT
        run, rank, device, stream, name,
        count(DISTINCT parts.gap) AS gaps,
        sum(part_ns) AS idle_ns,
        max(part_ns) AS max_ns,
        arg_max(event_id, {'ns': part_ns, 'id': -event_id}) AS max_id
    FROM (FROM named UNION ALL FROM rests) AS parts
    JOIN all_gaps ON parts.gap = all_gaps.gap
    GROUP BY run, rank, device, stream, name
)
SELECT
    run,
    rank,
    device,
    stream,
    name,
    gaps,
    idle_ns::BIGINT AS idle_ns,
    idle_ns / sum(idle_ns) OVER (PARTITION BY run, rank, device, stream) AS share,
    max_ns::BIGINT AS max_ns,
    max_id
FROM sums
ORDER BY run, rank, device NULLS LAST, stream NULLS LAST, sums.idle_ns DESC, name NULLS LAST
