-- exposed_copies: copies run while devices do nothing else.
-- One row per (run, rank).
-- Counts the time in which a copy to, from, on or between devices runs and no kernel does, as `time_breakdown` does. Copies that
-- other rules explain, because the host waits for them, their memory is not pinned or they are not needed, are left to these. The
-- limit is a tenth of the time, as for exposed communication. Running under computation gains no more than there is computation.
-- suggestion: Copy less, or while devices compute: non_blocking=True from pinned memory, on another stream, one batch ahead.
-- link: https://docs.pytorch.org/tutorials/intermediate/pinmem_nonblock.html
-- claims: exposed
-- only if: EXISTS (SELECT run FROM events JOIN shared_windows USING (run, rank)
-- WHERE kind = 'memcpy' AND dur_ns > 0 GROUP BY run, rank, window_ns
-- HAVING sum(dur_ns) >= coalesce(getvariable('exposed_copies_share'), 0.1) * window_ns)
-- needs: events
-- parameter exposed_copies_share DOUBLE = 0.1  least share of the time for a finding
WITH work AS MATERIALIZED (
    SELECT
        windows.lane, work.event_id, work.class <> 'copy' AS computes, work.class = 'copy' AS communicates, work.start_ns,
        work.end_ns, work.name, work.bytes, work.run, work.rank, windows.steps, windows.window_ns,
        windows.steps = 0 OR work.step IS NOT NULL AS is_examined
    FROM device_work(events) AS work
    JOIN shared_windows AS windows ON work.run = windows.run AND work.rank = windows.rank
),
copies AS (
    SELECT
        work.*, time_added(alone_ns, alone_end_ns, max(alone_end_ns) OVER before) AS own_ns,
        CASE
            WHEN regexp_matches(name, '(?i)HtoD|(pageable|pinned|host) *-> *device') THEN 'to the device'
            WHEN regexp_matches(name, '(?i)DtoH|device *-> *(pageable|pinned|host)') THEN 'from the device'
            WHEN regexp_matches(name, '(?i)PtoP|peer') THEN 'between devices'
            WHEN regexp_matches(name, '(?i)DtoD|device *-> *device') THEN 'on the device'
        END AS direction
    FROM work
    JOIN communication_clock('work') AS clock ON work.lane = clock.lane AND work.event_id = clock.event_id
    WINDOW before AS (
        PARTITION BY work.lane ORDER BY work.start_ns, work.event_id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    )
),
others AS (
    SELECT lane, sum(end_ns - start_ns) AS other_ns
    FROM work
    WHERE computes AND is_examined
    GROUP BY lane
),
directed AS (
    SELECT *, sum(own_ns) OVER (PARTITION BY lane, direction) AS direction_ns
    FROM copies
    WHERE own_ns > 0 AND is_examined
)
SELECT
    run,
    rank,
    severity_of(sum(own_ns), window_ns) AS severity,
    'Copies run while devices do nothing else for ' || claimed_part()
    || coalesce(
        CASE WHEN count(DISTINCT direction) > 1 THEN ', most of it ' ELSE ', all of it ' END
        || arg_max(direction, {'ns': direction_ns, 'direction': direction}), ''
    )
    || coalesce(
        ', ' || bytes_text(sum(bytes)) || ' at '
        || format('{:.1f} GB/s', sum(bytes) / sum(end_ns - start_ns) FILTER (bytes IS NOT NULL)), ''
    )
    || ', in ' || format('{:,}', count(*)) || CASE WHEN count(*) = 1 THEN ' copy' ELSE ' copies' END AS finding,
    strongest(event_id, own_ns) AS evidence_events,
    count(*) AS events,
    list(span(start_ns, end_ns)) AS claimed,
    sum(own_ns) AS claimed_ns,
    coalesce(getvariable('exposed_copies_share'), 0.1) * window_ns AS least_ns,
    NULL AS estimated_gain_ns,
    'at most all of that without these copies, and at most '
    || percent_text(least(1, coalesce(any_value(other_ns), 0) / sum(own_ns)))
    || ' of it if they run under other work' AS gain_basis,
    NULL AS "where"
FROM directed
LEFT JOIN others USING (lane)
GROUP BY run, rank, steps, window_ns
HAVING sum(own_ns) >= coalesce(getvariable('exposed_copies_share'), 0.1) * window_ns
