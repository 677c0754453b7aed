-- loop_indexing: a loop over an index does what one op on the whole tensor could do.
-- One row per (run, rank, line of source, ops of a round).
-- A round is an `aten::select` and what follows it up to the next one, side by side in the same slice; ten rounds with the same
-- names in a row are a loop. This is ForLoopIndexingPattern of torch.profiler._pattern_matcher, with three differences: adjacent
-- selects begin one round (torch misses `x[i, j] = y`); names are compared without object addresses (torch misses loops that call
-- tensor methods if stacks are recorded); and rounds with more than loop_indexing_ops slices are ignored, because those are loops
-- over layers or time steps. The gain is call overhead, so each call counts for at most loop_indexing_call_ns.
-- suggestion: Replace the loop by one op over all indices: slices, broadcasting, torch.where, index_select, scatter_.
-- link: https://docs.pytorch.org/docs/stable/notes/broadcasting.html
-- claims: idle
-- only if: (SELECT sum(events) FROM shared_names WHERE name = 'aten::select') > 1
-- needs: events
-- parameter loop_indexing_rounds  BIGINT = 10     least number of rounds for a loop
-- parameter loop_indexing_ops     BIGINT = 8      maximum slices side by side in a round
-- parameter loop_indexing_call_ns BIGINT = 10000  maximum overhead counted per call, in ns
WITH selects AS (
    SELECT run, rank, thread, parent_id, preorder, preorder - lag(preorder) OVER siblings AS distance
    FROM shared_marked
    WHERE kind = 'host_op' AND name = 'aten::select'
    WINDOW siblings AS (PARTITION BY run, rank, thread, parent_id ORDER BY preorder)
),
-- Where selects are dense: at most 64 slices from one to the next.
dense AS (
    SELECT *, sum(CASE WHEN distance <= 64 THEN 0 ELSE 1 END) OVER siblings AS part
    FROM selects
    WINDOW siblings AS (PARTITION BY run, rank, thread, parent_id ORDER BY preorder ROWS UNBOUNDED PRECEDING)
),
stretches AS (
    SELECT
        row_number() OVER () AS stretch, run, rank, thread, parent_id,
        min(preorder) - 64 AS first_place, max(preorder) + 64 AS last_place
    FROM dense
    GROUP BY run, rank, thread, parent_id, part
    HAVING count(*) >= coalesce(getvariable('loop_indexing_rounds'), 10)
),
places AS MATERIALIZED (
    SELECT stretch, run, rank, thread, parent_id, unnest(range(first_place, last_place)) AS preorder
    FROM stretches
),
slices AS (
    SELECT
        stretch, slice.run, slice.rank, slice.step, slice.event_id, slice.preorder, slice.start_ns, slice.dur_ns, slice.name,
        coalesce(slice.python_stack, slice.stack) AS frames, regexp_replace(slice.name, ' at 0x[0-9a-fA-F]+', '') AS word,
        slice.name = 'aten::select' AND lag(slice.name) OVER siblings IS DISTINCT FROM 'aten::select' AS begins
    FROM events AS slice
    JOIN few(places) AS places
        ON slice.run = places.run AND slice.rank = places.rank AND slice.preorder = places.preorder
    WHERE slice.thread = places.thread AND slice.parent_id IS NOT DISTINCT FROM places.parent_id
    WINDOW siblings AS (PARTITION BY stretch ORDER BY slice.preorder)
),
numbered AS (
    SELECT *, sum(begins::INTEGER) OVER (PARTITION BY stretch ORDER BY preorder ROWS UNBOUNDED PRECEDING) AS round
    FROM slices
),
rounds AS (
    SELECT
        stretch, round,
        any_value(run) AS run, any_value(rank) AS rank,
        arg_min(step, preorder) AS step, arg_min(event_id, preorder) AS event_id, arg_min(frames, preorder) AS frames,
        span(min(start_ns), max(start_ns + dur_ns)) AS time,
        list(word ORDER BY preorder) AS words,
        list(least(dur_ns, coalesce(getvariable('loop_indexing_call_ns'), 10000)) ORDER BY preorder) AS calls_ns
    FROM numbered
    GROUP BY stretch, round
),
changes AS MATERIALIZED (
    SELECT *, words IS DISTINCT FROM lag(words) OVER in_order AS changed
    FROM rounds
    WINDOW in_order AS (PARTITION BY stretch ORDER BY round)
),
loops AS (
    SELECT
        stretch, run, rank, words, min(round) - 1 AS round_before, max(round) + 1 AS round_behind,
        arg_min(step, round) AS step, arg_min(frames, round) AS frames,
        list(event_id ORDER BY round) AS ids, list(time ORDER BY round) AS times,
        sum(list_sum(calls_ns)) - list_sum(arg_min(calls_ns, round)) AS gain_ns
    FROM (
        SELECT *, sum(changed::INTEGER) OVER (PARTITION BY stretch ORDER BY round ROWS UNBOUNDED PRECEDING) AS loop
        FROM changes
        WHERE round > 0
    )
    WHERE len(words) <= coalesce(getvariable('loop_indexing_ops'), 8)
    GROUP BY stretch, run, rank, loop, words
),
-- A round of the program may begin before its select: with those words that are before the first one, too. The last lacks them.
bounded AS (
    SELECT
        loops.*,
        len(loops.words) - coalesce(
            list_max(list_filter(
                range(1, len(loops.words)),
                lambda n: before.words[len(before.words) - n + 1:] = loops.words[len(loops.words) - n + 1:]
            )),
            0
        ) AS least_words
    FROM loops
    LEFT JOIN changes AS before ON loops.stretch = before.stretch AND loops.round_before = before.round
),
-- Behind the words of the last round comes what is behind the loop.
whole AS (
    SELECT
        bounded.run, bounded.rank, bounded.step, bounded.frames, bounded.words,
        gain_ns + coalesce(list_sum(last.calls_ns[:least_words]), 0) AS gain_ns,
        CASE WHEN last.event_id IS NULL THEN ids ELSE list_append(ids, last.event_id) END AS ids, bounded.times
    FROM bounded
    LEFT JOIN changes AS last
        ON bounded.stretch = last.stretch
        AND bounded.round_behind = last.round
        AND bounded.words[:least_words] = last.words[:least_words]
)
SELECT
    whole.run,
    whole.rank,
    severity_of(sum(gain_ns), window_ns) AS severity,
    count(*) || CASE WHEN count(*) = 1 THEN ' loop' ELSE ' loops' END || ' over an index with ' || sum(len(ids)) || ' rounds of '
    || shown(array_to_string(words, ', ')) AS finding,
    flatten(list(ids ORDER BY gain_ns DESC, ids))[:100] AS evidence_events,
    sum(len(ids))::BIGINT AS events,
    flatten(list(times)) AS claimed,
    sum(gain_ns)::BIGINT AS estimated_gain_ns,
    'calls of all rounds but the first, no more than ' || duration_text(coalesce(getvariable('loop_indexing_call_ns'), 10000))
    || ' of each' AS gain_basis,
    shown_line(coalesce(frame_of(frames), 'aten::select')) AS "where"
FROM whole
JOIN (SELECT run, rank, steps, window_ns FROM shared_windows) AS windows ON whole.run = windows.run AND whole.rank = windows.rank
WHERE len(ids) >= coalesce(getvariable('loop_indexing_rounds'), 10) AND (windows.steps = 0 OR whole.step IS NOT NULL)
GROUP BY whole.run, whole.rank, frame_of(frames), words, window_ns
