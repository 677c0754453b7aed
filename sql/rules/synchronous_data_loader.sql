-- synchronous_data_loader: a data loader without workers makes each batch while the program waits.
-- One row per (run, rank).
-- Recognised by calls of `_SingleProcessDataLoaderIter.__next__`, which the profiler always marks, and by Python frames:
-- `__iter__` of a DataLoader whose `_get_iterator` does not call `check_worker_number_rationality`. This is
-- SynchronizedDataLoaderPattern of torch.profiler._pattern_matcher, with two differences. The marks are enough if stacks were not
-- recorded or the loop began before the profile (torch looks at frames only). And batches that take less than
-- synchronous_data_loader_share of the time are not a finding. Time that data_loading reports is not reported again. The severity
-- is never high.
-- suggestion: Give the DataLoader workers: num_workers=4 or more, with persistent_workers=True.
-- link: https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html#enable-asynchronous-data-loading-and-augmentation
-- replay: host, the loader taking no time of the thread that asks for batches
-- claims: idle
-- only if: EXISTS (FROM shared_names WHERE contains(name, '_SingleProcessDataLoaderIter') OR contains(name, 'dataloader.py('))
-- needs: events
-- parameter synchronous_data_loader_share DOUBLE = 0.01  least share of the time for a finding
WITH frames AS MATERIALIZED (
    SELECT *, regexp_extract(name, '\w+$') AS method
    FROM shared_marked
    WHERE kind = 'python' AND regexp_matches(name, '(^|[/\\])torch[/\\]utils[/\\]data[/\\]dataloader\.py\(')
),
made AS (
    SELECT made.run, made.rank, made.parent_id AS event_id
    FROM (FROM frames WHERE method = '_get_iterator' AND last_descendant_id <> event_id) AS made
    ANTI JOIN (FROM frames WHERE method = 'check_worker_number_rationality') AS checked
        ON made.run = checked.run AND made.rank = checked.rank AND made.event_id = checked.parent_id
),
batches AS MATERIALIZED (
    SELECT run, rank, step, event_id, input_wait(idle_ns, dur_ns) AS waited_ns, idle_ns
    FROM shared_marked
    WHERE name = 'enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__'
),
loader_calls AS (
    SELECT run, rank, step, event_id, waited_ns, idle_ns, frame_of(frames) AS line
    FROM details_of(events, batches)
    UNION ALL BY NAME
    SELECT run, rank, event_id
    FROM (FROM frames WHERE method = '__iter__')
    SEMI JOIN made USING (run, rank, event_id)
)
SELECT
    loader_calls.run,
    loader_calls.rank,
    'data loader' AS cause,
    CASE WHEN coalesce(sum(waited_ns), 0) >= 0.05 * window_ns THEN 'medium' ELSE 'low' END AS severity,
    CASE
        WHEN count(waited_ns) = 0 THEN 'A DataLoader without workers is used'
        ELSE 'A DataLoader without workers takes ' || claimed_part()
            || CASE WHEN count(loader_calls.idle_ns) > 0 THEN ' in which no device is busy' ELSE '' END
    END AS finding,
    list(event_id ORDER BY waited_ns DESC NULLS LAST, event_id)[:100] AS evidence_events,
    count(*) AS events,
    list(event_id) FILTER (waited_ns IS NOT NULL) AS changed_events,
    sum(waited_ns) AS claimed_ns,
    coalesce(getvariable('synchronous_data_loader_share'), 0.01) * window_ns AS least_ns,
    sum(waited_ns) AS estimated_gain_ns,
    CASE
        WHEN count(waited_ns) = 0 THEN 'not known: the trace shows none of its batches'
        WHEN count(loader_calls.idle_ns) > 0 THEN 'time in the data loader in which no device is busy'
        ELSE 'time in the data loader'
    END AS gain_basis,
    shown_line(arg_max(line, {'ns': waited_ns, 'id': -event_id})) AS "where",
    CASE
        WHEN coalesce(bool_or(traits.is_pageable AND NOT traits.is_pinning), false)
            THEN 'Give the DataLoader workers: num_workers=4 or more, with pin_memory=True and persistent_workers=True.'
    END AS suggestion
FROM loader_calls
LEFT JOIN shared_traits AS traits ON loader_calls.run = traits.run AND loader_calls.rank = traits.rank
JOIN shared_windows AS windows ON loader_calls.run = windows.run AND loader_calls.rank = windows.rank
WHERE windows.steps = 0 OR step IS NOT NULL OR waited_ns IS NULL
GROUP BY loader_calls.run, loader_calls.rank, steps, window_ns
HAVING count(waited_ns) = 0 OR claimed_ns >= 0.1 * least_ns
