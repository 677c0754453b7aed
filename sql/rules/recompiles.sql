-- recompiles: torch.compile compiles during steps because guards fail or it was not warmed up.
-- One row per (run, rank).
-- A compilation is a slice entire_frame_compile, or with older names _compile.compile_inner or the Python frame of _compile: the
-- first of these that the trace has. The names of compiled regions, FRAME/ATTEMPT, show which code was compiled again: an attempt
-- above 0. Without profiler steps the warm-up cannot be recognised, so it is a finding only if something was compiled again. The
-- limit is a twentieth of the time, because it may happen once in many steps.
-- suggestion: TORCH_LOGS=recompiles says which guard failed: mark changing sizes with torch._dynamo.mark_dynamic or dynamic=True,
-- keep changing Python values out of the code, and profile after the warm-up.
-- link: https://docs.pytorch.org/docs/stable/torch.compiler_troubleshooting.html#dealing-with-recompilations
-- replay: host, the compilations taking no time
-- claims: idle
-- only if: EXISTS (FROM shared_names WHERE contains(name, 'compile_inner') OR contains(name, '_compile'))
-- needs: events
-- parameter recompiles_share DOUBLE = 0.05  least share of the time for a finding
WITH named AS (
    SELECT name, CASE
        WHEN regexp_matches(name, '^entire_frame_compile( \(dynamo_timed\))?$') THEN 1
        WHEN regexp_matches(name, '^_compile\.(<locals>\.)?compile_inner( \(dynamo_timed\))?$') THEN 2
        ELSE 3
    END AS place
    FROM shared_names
    WHERE
        regexp_matches(name, '^(entire_frame_compile|_compile\.(<locals>\.)?compile_inner)( \(dynamo_timed\))?$')
        OR regexp_matches(name, 'torch/_dynamo/convert_frame\.py\(\d+\): _compile$')
),
compilations AS (
    SELECT
        events.run, events.rank, event_id, coalesce(idle_ns, dur_ns) AS lost_ns, idle_ns, windows.steps, windows.window_ns
    FROM events
    JOIN few('named') AS named ON events.name = named.name
    JOIN shared_windows AS windows ON events.run = windows.run AND events.rank = windows.rank
    WHERE preorder IS NOT NULL AND dur_ns > 0 AND (windows.steps = 0 OR events.step IS NOT NULL)
    QUALIFY place = min(place) OVER (PARTITION BY events.run, events.rank)
),
again AS (
    SELECT run, rank, string_agg(code, ', ' ORDER BY attempt DESC, code) AS codes
    FROM (
        SELECT
            run, rank, regexp_extract(name, '(\d+/\d+)$', 1) AS code,
            max(try_cast(regexp_extract(name, '(\d+)$', 1) AS BIGINT)) AS attempt
        FROM events
        WHERE
            preorder IS NOT NULL
            AND name IN (SELECT name FROM shared_names WHERE regexp_matches(name, '^Torch-Compiled Region: (\d+/)?\d+/[1-9]\d*$'))
        GROUP BY ALL
    )
    GROUP BY run, rank
)
SELECT
    compilations.run,
    compilations.rank,
    severity_of(sum(lost_ns), window_ns) AS severity,
    'Compiling takes ' || claimed_part()
    || CASE WHEN count(idle_ns) > 0 THEN ' in which no device is busy' ELSE '' END || ', in ' || counted(count(*), 'compilation')
    || CASE WHEN codes IS NULL THEN '' ELSE '; compiled again: ' || shown(codes) END AS finding,
    strongest(event_id, lost_ns) AS evidence_events,
    count(*) AS events,
    list(event_id) AS changed_events,
    sum(lost_ns) AS claimed_ns,
    coalesce(getvariable('recompiles_share'), 0.05) * window_ns AS least_ns,
    sum(lost_ns) AS estimated_gain_ns,
    'time of the compilations' || CASE WHEN count(idle_ns) > 0 THEN ' in which no device is busy' ELSE '' END AS gain_basis,
    CASE WHEN codes IS NOT NULL THEN 'compiled regions ' || shown(codes) END AS "where",
    CASE
        WHEN codes IS NULL
            THEN 'Profile after the warm-up, schedule(wait=..., warmup=...); if it goes on, TORCH_LOGS=recompiles says which '
            || 'guard fails.'
    END AS suggestion
FROM compilations
LEFT JOIN again ON compilations.run = again.run AND compilations.rank = again.rank
WHERE steps > 0 OR codes IS NOT NULL
GROUP BY compilations.run, compilations.rank, steps, window_ns, codes
HAVING claimed_ns >= 0.1 * least_ns
