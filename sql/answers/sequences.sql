-- sequences: which kernels run in sequence under an op, annotation or module, and how often.
-- One row per (run, rank, name, kind, sequence), the most calls first, then by device_ns, run, rank, first_event_id.
-- The slices are the outermost host slices whose name contains a text; nested matches belong to the outer one. The sequence of a
-- slice is all kernels launched under it, on its own thread, ordered by start. A slice has no sequence if a filter removed its
-- calls or its end.
-- In a bare shell read from `sql/lib` first: devices, lanes, sequences.
-- needs: events
-- recorded: kernels, launches
-- no rows: no slice of the host launched as many kernels as `min_kernels`
-- divides by: rank
-- over ranks: name, kind, sequence
-- main columns: sequence, calls, device_ns, name, kernels, total_ns
-- parameter name        VARCHAR = ''     text in the name of the slices, taken literally; '' for all outermost slices
-- parameter min_kernels BIGINT  = 3      leave out shorter sequences
-- parameter top         BIGINT  = 10     maximum rows per run and rank; 0: all
-- parameter copies      BOOLEAN = false  include memory copies and fills in the sequences
-- run            VARCHAR      run that the trace belongs to
-- rank           INTEGER      rank within the run
-- name           VARCHAR      name of the slices; `ProfilerStep*` for all steps
-- kind           VARCHAR      their kind
-- sequence       VARCHAR      names of the kernels joined by ->; only the first 64; ? is one without a name
-- kernels        BIGINT       number of kernels in the sequence
-- calls          BIGINT       number of slices with this sequence
-- device_ns      BIGINT   ns  sum of the durations of their kernels; NULL if none is known, or beyond BIGINT
-- total_ns       BIGINT   ns  time of the slices on the host; NULL if none is known, or beyond BIGINT
-- first_event_id BIGINT       event_id of the first of the slices by start
WITH names AS MATERIALIZED (
    FROM kernel_names(events, coalesce(getvariable('copies'), false))
),
named AS NOT MATERIALIZED (
    SELECT run, rank, event_id, parent_id, preorder, last_descendant_id
    FROM events
    WHERE
        contains(name, coalesce(getvariable('name'), ''))
        AND (last_descendant_id <> event_id OR is_call(kind))
),
outermost AS (
    SELECT named.run, named.rank, named.event_id, named.preorder, last.preorder AS last_preorder
    FROM named
    ANTI JOIN named AS parent
        ON named.run = parent.run AND named.rank = parent.rank AND named.parent_id = parent.event_id
    JOIN events AS last
        ON named.run = last.run AND named.rank = last.rank AND named.last_descendant_id = last.event_id
    WINDOW earlier AS (
        PARTITION BY named.run, named.rank ORDER BY named.preorder ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    )
    QUALIFY named.preorder > coalesce(max(last.preorder) OVER earlier, -1)
),
launched AS MATERIALIZED (
    SELECT work.run, work.rank, work.event_id, names.code, work.start_ns, work.dur_ns, call.preorder
    FROM events AS work
    JOIN names ON coalesce(work.name, '?') = names.name
    JOIN events AS call ON work.run = call.run AND work.rank = call.rank AND work.launch_id = call.event_id
    WHERE is_in_sequence(work.kind, coalesce(getvariable('copies'), false))
),
-- Each place of the slices, which do not overlap.
places AS (
    SELECT run, rank, event_id, unnest(range(preorder, last_preorder + 1)) AS preorder
    FROM outermost
),
sequences AS (
    SELECT
        places.run, places.rank, places.event_id,
        list(launched.code ORDER BY launched.start_ns, launched.event_id) AS codes,
        sum(launched.dur_ns) AS device_ns
    FROM places
    JOIN few('launched') AS launched
        ON places.run = launched.run AND places.rank = launched.rank AND places.preorder = launched.preorder
    GROUP BY places.run, places.rank, places.event_id
    HAVING count(*) >= coalesce(getvariable('min_kernels'), 3)
),
counted AS (
    SELECT
        run,
        rank,
        CASE WHEN starts_with(slice.name, 'ProfilerStep#') THEN 'ProfilerStep*' ELSE slice.name END AS name,
        slice.kind,
        codes,
        count(*) AS calls,
        sum(sequences.device_ns) AS device_ns,
        sum(slice.dur_ns) AS total_ns,
        first(event_id ORDER BY slice.start_ns, event_id) AS first_event_id
    FROM sequences
    JOIN events AS slice USING (run, rank, event_id)
    GROUP BY ALL
)
SELECT
    run,
    rank,
    name,
    kind,
    sequence_text(codes, (SELECT list(name ORDER BY code) FROM names)) AS sequence,
    len(codes) AS kernels,
    calls,
    try_cast(device_ns AS BIGINT) AS device_ns,
    try_cast(total_ns AS BIGINT) AS total_ns,
    first_event_id
FROM counted
QUALIFY
    coalesce(getvariable('top'), 10) <= 0
    OR row_number() OVER (
        PARTITION BY run, rank ORDER BY calls DESC, counted.device_ns DESC NULLS LAST, first_event_id
    ) <= coalesce(getvariable('top'), 10)
ORDER BY calls DESC, counted.device_ns DESC NULLS LAST, run, rank, first_event_id
