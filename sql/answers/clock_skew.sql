-- clock_skew: whether the ranks of a run share one clock, and how far their clocks differ.
-- One row per (run, rank), by run and rank.
-- Offsets are estimated from matched collectives that wait for all ranks (all_reduce, all_gather, reduce_scatter, all_to_all,
-- barrier): all ranks leave these at the same time, so the median difference of their ends is the difference of their clocks. A
-- rank that shares none with the reference is reached through as few other ranks as possible. Answers that compare ranks subtract
-- the offsets, unless `corrected = false`.
-- note: unknown_origin: traces.clock is not utc; other_clock: traces.clock differs from the run's lowest rank; other_origin:
-- base_ns differs (times of utc clocks can still be compared); skewed: see skewed_ns; no_common_collective: no data for an
-- estimate.
-- In a bare shell read from `sql/lib` first: lanes, devices, collectives.
-- needs: events, traces, recorded_collectives
-- recorded: traces
-- divides by: run
-- main columns: offset_ns, error_ns, rank, reference_rank, note
-- parameter skewed_ns BIGINT = 50000  offsets beyond this, in ns, and beyond three times their error are marked skewed
-- run            VARCHAR      run that the trace belongs to
-- rank           INTEGER      rank within the run
-- clock          VARCHAR      clock of the rank's times, as in traces.clock
-- base_ns        BIGINT   ns  origin that was added to the source's times; NULL if the source has none
-- reference_rank INTEGER      rank that offset_ns is relative to: the lowest it communicates with; NULL if none
-- offset_ns      BIGINT   ns  how far its clock is ahead of the reference's; NULL if not known
-- error_ns       BIGINT   ns  standard error of offset_ns, from the median deviation; NULL for a single collective
-- collectives    BIGINT       number of collectives in the estimate; NULL for the reference
-- note           VARCHAR      see above; NULL if there is nothing to note
WITH matches AS MATERIALIZED (
    FROM all_matches(events, traces, recorded_collectives)
),
offsets AS (
    FROM clock_offsets(matches)
)
SELECT
    traces.run,
    traces.rank,
    traces.clock,
    traces.base_ns,
    offsets.reference_rank,
    offsets.offset_ns,
    offsets.error_ns,
    offsets.collectives,
    nullif(
        concat_ws(
            ' ',
            CASE WHEN traces.clock <> 'utc' THEN 'unknown_origin' END,
            CASE WHEN traces.clock IS DISTINCT FROM first_value(traces.clock) OVER of_run THEN 'other_clock' END,
            CASE WHEN traces.base_ns IS DISTINCT FROM first_value(traces.base_ns) OVER of_run THEN 'other_origin' END,
            CASE
                WHEN
                    abs(offsets.offset_ns)
                    > greatest(coalesce(getvariable('skewed_ns'), 50000), 3 * coalesce(offsets.error_ns, 0))
                THEN 'skewed'
            END,
            CASE WHEN offsets.offset_ns IS NULL AND count(*) OVER (PARTITION BY traces.run) > 1 THEN 'no_common_collective' END
        ),
        ''
    ) AS note
FROM traces
LEFT JOIN offsets ON traces.run = offsets.run AND traces.rank = offsets.rank
WINDOW of_run AS (PARTITION BY traces.run ORDER BY traces.rank)
ORDER BY traces.run, traces.rank
