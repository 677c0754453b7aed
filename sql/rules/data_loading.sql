-- data_loading: steps wait for the data loader.
-- One row per (run, rank).
-- Counts the calls of `__next__` of a DataLoader. If the rank used devices, only the time in which none of them was busy counts:
-- loading that hides behind device work costs nothing. The limit, a twentieth of the time, is that of the TensorBoard plugin.
-- The suggestion depends on the loader's name, which shows whether it has workers, and on the copies, which show whether batches
-- are pinned.
-- suggestion: Load in the background, DataLoader(num_workers=4, persistent_workers=True), and move slow transforms out of the
-- loop.
-- link: https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html#enable-asynchronous-data-loading-and-augmentation
-- replay: host, the loader taking no time of the thread that asks for batches
-- claims: idle
-- only if: EXISTS (SELECT run FROM events JOIN shared_windows USING (run, rank)
-- WHERE is_data_load(name) AND input_wait(idle_ns, dur_ns) > 0 GROUP BY run, rank, window_ns
-- HAVING sum(input_wait(idle_ns, dur_ns)) >= 0.1 * coalesce(getvariable('data_loading_share'), 0.05) * window_ns)
-- needs: events
-- parameter data_loading_share DOUBLE = 0.05  least share of the time for a finding
WITH loading AS (
    SELECT
        events.run, events.rank, events.event_id, events.name, frame_of(coalesce(events.python_stack, events.stack)) AS line,
        idle_ns IS NOT NULL AS has_device,
        input_wait(idle_ns, dur_ns) AS waited_ns,
        sum(dur_ns) OVER of_rank AS load_ns,
        count(dur_ns) OVER of_rank AS calls,
        windows.steps, windows.window_ns
    FROM events
    JOIN shared_windows AS windows ON events.run = windows.run AND events.rank = windows.rank
    WHERE
        preorder IS NOT NULL
        AND name IN (SELECT name FROM shared_names WHERE is_data_load(name))
        AND CASE
            WHEN windows.steps = 0 THEN events.start_ns BETWEEN windows.start_ns AND windows.end_ns
            ELSE events.step IS NOT NULL
        END
    WINDOW of_rank AS (PARTITION BY events.run, events.rank)
    QUALIFY waited_ns > 0
)
SELECT
    run,
    rank,
    'data loader' AS cause,
    severity_of(sum(waited_ns), window_ns) AS severity,
    'Data loading takes '
    || CASE
        WHEN bool_or(has_device)
            THEN duration_text(any_value(load_ns)) || ' in ' || counted(any_value(calls), 'call') || ', '
                || percent_text(any_value(load_ns) / window_ns) || ' of the ' || CASE WHEN steps > 0 THEN 'steps' ELSE 'time' END
                || '; no device is busy for '
        ELSE ''
    END
    || claimed_part() AS finding,
    list(event_id ORDER BY waited_ns DESC, event_id)[:100] AS evidence_events,
    count(*) AS events,
    list(event_id) AS changed_events,
    sum(waited_ns) AS claimed_ns,
    coalesce(getvariable('data_loading_share'), 0.05) * window_ns AS least_ns,
    sum(waited_ns) AS estimated_gain_ns,
    CASE
        WHEN bool_or(has_device) THEN 'time in the data loader in which no device is busy'
        ELSE 'time in the data loader'
    END AS gain_basis,
    shown(arg_max(name, {'ns': waited_ns, 'id': -event_id}))
    || coalesce(' at ' || shown(arg_max(line, {'ns': waited_ns, 'id': -event_id})), '') AS "where",
    concat_ws(
        ' ',
        CASE
            WHEN sum(waited_ns) FILTER (contains(name, '_MultiProcessing')) > 0.5 * sum(waited_ns)
                THEN 'The loader has workers, and they are too slow: more of them (num_workers), a larger prefetch_factor, '
                || 'persistent_workers=True where they start anew, cheaper transforms, or faster storage. '
                || 'Workers are in no trace: one with num_workers=0 and with_stack=True has the slow lines, '
                || 'in `python_lines` with into=all.'
            WHEN bool_or(contains(name, '_MultiProcessing'))
                THEN 'Give the loader without workers some, DataLoader(num_workers=4, persistent_workers=True), and move slow '
                || 'transforms out of the loop.'
            ELSE 'Load in the background, DataLoader(num_workers=4, persistent_workers=True), and move slow transforms out of '
                || 'the loop.'
        END,
        CASE WHEN coalesce(bool_or(is_pageable AND NOT is_pinning), false) THEN 'Pin the batches, pin_memory=True.' END
    ) AS suggestion
FROM loading
LEFT JOIN (SELECT run, rank, is_pageable, is_pinning FROM shared_traits) AS traits USING (run, rank)
GROUP BY run, rank, steps, window_ns
HAVING claimed_ns >= 0.1 * least_ns
