-- counter_series: every counter of the trace over time.
-- One row per value, by run, rank, name, series, process, counter_id, device, unit and time, then by value.
-- A value holds until the next one of the same name, series, pid, counter_id, device and unit.
-- Hardware counters of slices are in `counters_by_op`.
-- needs: counters
-- recorded: counter_values
-- divides by: rank
-- main columns: name, time_ns, value, series, unit
-- parameter name  VARCHAR                = ''     only counters with this text in their name, taken literally
-- parameter per   VARCHAR(value|counter) = value  what each row is
-- run         VARCHAR      run that the trace belongs to
-- rank        INTEGER      rank within the run
-- name        VARCHAR      name of the counter; NULL if the source has none
-- series      VARCHAR      which of the counter's values; NULL if the source has no value
-- pid         VARCHAR      the source's process id, as text; NULL if it does not say
-- thread      INTEGER      thread, as in table threads
-- counter_id  VARCHAR      id that tells counters of one name apart; NULL if the source has none
-- device      INTEGER      device that it measures; NULL if the source names none
-- unit        VARCHAR      unit of its values; NULL if the source does not say
-- time_ns     BIGINT   ns  time, on the clock that traces.clock names; NULL if the source has no usable time
-- value       DOUBLE       the value, in the source's unit; NULL if it is not a number
SELECT run, rank, name, series, pid, thread, counter_id, device, unit, time_ns, value
FROM counters
WHERE event_id IS NULL AND (coalesce(getvariable('name'), '') = '' OR contains(name, coalesce(getvariable('name'), '')))
ORDER BY run, rank, name NULLS LAST, series NULLS LAST, pid NULLS LAST, counter_id NULLS LAST,
    device NULLS LAST, unit NULLS LAST, time_ns NULLS LAST, value NULLS LAST, thread
