-- counter_series(per=counter): range and time-weighted mean of every counter.
-- One row per (run, rank, name, series, pid, counter_id, device, unit), in this order.
-- A value holds until the next one, so the last has no weight; values that are not numbers or have no time are not in the mean.
-- Hardware counters of slices are in `counters_by_op`.
-- needs: counters
-- recorded: counter_values
-- divides by: rank
-- main columns: name, mean_value, max_value, unit, min_value, series, last_value, samples
-- parameter name  VARCHAR = ''  only counters with this text in their name, taken literally
-- run         VARCHAR      run that the trace belongs to
-- rank        INTEGER      rank within the run
-- name        VARCHAR      name of the counter; NULL if the source has none
-- series      VARCHAR      which of the counter's values; NULL if the source has no value
-- pid         VARCHAR      the source's process id, as text; NULL if it does not say
-- counter_id  VARCHAR      id that tells counters of one name apart; NULL if the source has none
-- device      INTEGER      device that it measures; NULL if the source names none
-- unit        VARCHAR      unit of its values; NULL if the source does not say
-- samples     BIGINT       number of values
-- start_ns    BIGINT   ns  time of the first value, on the clock that traces.clock names
-- span_ns     BIGINT   ns  first value to last
-- mean_value  DOUBLE       mean over that time, in the source's unit; NULL if no time passes
-- min_value   DOUBLE       smallest value
-- max_value   DOUBLE       largest value
-- last_value  DOUBLE       value at the end; the largest of one instant
WITH held AS (
    SELECT
        run, rank, name, series, pid, counter_id, device, unit, time_ns, value,
        lead(time_ns) OVER (
            PARTITION BY run, rank, name, series, pid, counter_id, device, unit
            ORDER BY time_ns NULLS LAST, value NULLS FIRST
        ) - time_ns AS held_ns
    FROM counters
    WHERE event_id IS NULL AND (coalesce(getvariable('name'), '') = '' OR contains(name, coalesce(getvariable('name'), '')))
)
SELECT
    run,
    rank,
    name,
    series,
    pid,
    counter_id,
    device,
    unit,
    count(*) AS samples,
    min(time_ns) AS start_ns,
    max(time_ns) - min(time_ns) AS span_ns,
    sum(value * held_ns) / nullif(sum(held_ns) FILTER (value IS NOT NULL), 0) AS mean_value,
    min(value) AS min_value,
    max(value) AS max_value,
    max({time_ns: time_ns, value: value}) FILTER (time_ns IS NOT NULL AND value IS NOT NULL).value AS last_value
FROM held
GROUP BY run, rank, name, series, pid, counter_id, device, unit
ORDER BY run, rank, name NULLS LAST, series NULLS LAST, pid NULLS LAST, counter_id NULLS LAST,
    device NULLS LAST, unit NULLS LAST
