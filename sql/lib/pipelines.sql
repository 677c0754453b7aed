-- Pipelines of stages: which rank ran which stage of which microbatch when.
-- In a bare shell read `lanes.sql`, `devices.sql`, `collectives.sql`, `intervals.sql`, `steps.sql` and `busy.sql` of `sql/lib`
-- first.

-- pipeline_calls: what a pipeline does according to the name of an annotation, an NVTX range or a Python frame: torch's schedules
-- (`PP:1F0`, `PP:(0F1;2B0)OVERLAP_F_B`, `Forward 0`, methods of a stage), Megatron's (`forward_step`, `backward-compute`,
-- `send_forward_recv_backward`, its combined forward and backward), DeepSpeed's instructions (`ForwardPass`) and the methods that
-- run them, and `forward_mb_0`. Backward for the input only counts as backward.
-- parameter name VARCHAR  name of a slice
-- returns STRUCT[]  `stage`, `phase` and `microbatch` of each, NULL if the name does not say; empty for any other name
-- example: SELECT pipeline_calls('PP:(0F1;2B0)OVERLAP_F_B')
CREATE OR REPLACE TEMP MACRO pipeline_calls(name) AS
list_transform(
    CASE
        WHEN regexp_full_match(name, 'PP:\(?(\d+[A-Z_]+\d*;?)+\)?(OVERLAP_F_B)?')
            THEN regexp_extract_all(substr(name, 4), '\d+[A-Z_]+\d*')
        WHEN regexp_full_match(name, '(?:Forward|Backward) \d+')
            OR regexp_full_match(name, '(?i)(?:forward|backward)_(?:mb|microbatch|micro_batch)_?\d+')
            THEN [regexp_replace(name, '[ _].*?(\d+)$', '\1')]
        WHEN regexp_full_match(
            name,
            '(\w+\.)*((forward|backward)_step|combined_forward_backward_step)|(forward|backward)-compute'
            '|((forward|backward)-){1,2}(send|recv)(-((forward|backward)-){1,2}(send|recv))?'
            '|(\w+\.)*(send|recv)(_(forward|backward)){1,2}(_(send|recv)(_(forward|backward)){1,2})?'
            '|(ForwardPass|BackwardPass|SendActivation|RecvActivation|SendGrad|RecvGrad|ReduceGrads|ReduceTiedGrads)(\(.*\))?'
            '|.*[/\\]pipelining[/\\]stage\.py\(\d+\): (forward|backward|backward_weight)_one_chunk'
            '|.*[/\\]pipeline_parallel[/\\]schedules\.py\(\d+\): (forward|backward)_step'
            '|.*[/\\]pipeline_parallel[/\\]combined_1f1b\.py\(\d+\): combined_forward_backward_step'
            '|.*[/\\]pipeline_parallel[/\\]p2p_communication\.py\(\d+\): (send|recv)(_(forward|backward)){1,2}'
            '(_(send|recv)(_(forward|backward)){1,2})?'
            '|.*[/\\]runtime[/\\]pipe[/\\]engine\.py\(\d+\): _exec_((forward|backward)_pass|(send|recv)_(activations|grads)'
            '|reduce_(tied_)?grads|optimizer_step)'
        )
            THEN [
                regexp_extract(
                    regexp_replace(name, '\(buffer.*', ''),
                    '(?:_exec_)?((?:backward_weight|forward|backward)(?:_one_chunk|_step|_pass|-compute)|[A-Za-z_-]+)$', 1
                )
            ]
        WHEN regexp_full_match(name, 'Optimizer\.step#.*|OptimizerStep(\(.*\))?') THEN ['OptimizerStep']
    END,
    lambda part: {
        'stage': try_cast(nullif(regexp_extract(part, '^\d+'), '') AS BIGINT),
        'phase': CASE
            WHEN part IN ('OptimizerStep', 'optimizer_step') THEN 'optimizer'
            WHEN part = 'combined_forward_backward_step' THEN 'forward_backward'
            WHEN regexp_matches(part, '^\d*W\d*$|^backward_weight') THEN 'weight_gradient'
            WHEN regexp_matches(part, '^\d+F\d*$|^[Ff](orward|ORWARD)(Pass|_step|_pass|-compute|_one_chunk|\d*$)') THEN 'forward'
            WHEN regexp_matches(part, '^\d+[BI]\d*$|^[Bb](ackward|ACKWARD)(Pass|_step|_pass|-compute|_one_chunk|\d*$)')
                THEN 'backward'
            ELSE 'communication'
        END,
        'microbatch': try_cast(nullif(regexp_extract(part, '\d+$'), '') AS BIGINT)
    }
);

-- is_computing: pipeline phases in which a stage works; the others move data, or are not part of it.
-- parameter phase VARCHAR  phase of an action
-- returns BOOLEAN  whether it is
-- example: SELECT is_computing('forward')
CREATE OR REPLACE TEMP MACRO is_computing(phase) AS phase NOT IN ('communication', 'optimizer');

-- pipeline_slices: the slices that name pipeline actions, one row per (slice, action). Of nested slices the outer one counts.
-- Device slices count only if a rank has none on the host; an optimizer alone is not enough.
-- parameter events TABLE  `events`, or a part of it
-- column run, rank, event_id, name, step, thread  as in events
-- column is_host BOOLEAN  whether it is a slice on the host
-- column start_ns BIGINT  its start
-- column end_ns BIGINT  its end
-- column stage BIGINT  stage in the name
-- column phase VARCHAR  phase in the name
-- column microbatch BIGINT  microbatch in the name
-- example: FROM pipeline_slices(events)
CREATE OR REPLACE TEMP MACRO pipeline_slices(events) AS TABLE
WITH names AS (
    SELECT name, pipeline_calls(any_value(name)) AS calls
    FROM query_table(events)
    WHERE (is_op(kind) OR kind = 'python') AND name IS NOT NULL
    GROUP BY name
    HAVING calls IS NOT NULL
),
slices AS MATERIALIZED (
    SELECT
        slice.run, slice.rank, slice.event_id, slice.name, slice.step, slice.thread, slice.device IS NULL AS is_host,
        slice.start_ns, slice.start_ns + slice.dur_ns AS end_ns, names.calls
    FROM query_table(events) AS slice
    JOIN few(names) AS names ON slice.name = names.name
    WHERE (is_op(slice.kind) OR slice.kind = 'python') AND slice.start_ns IS NOT NULL AND slice.dur_ns IS NOT NULL
),
sides AS (
    SELECT run, rank, bool_or(is_host) AS has_host
    FROM slices
    WHERE calls[1].phase <> 'optimizer'
    GROUP BY run, rank
)
SELECT
    * EXCLUDE (calls, latest_ns), unnest(calls).stage AS stage, unnest(calls).phase AS phase,
    unnest(calls).microbatch AS microbatch
FROM (
    SELECT
        slices.*,
        max(end_ns) OVER (
            PARTITION BY run, rank ORDER BY start_ns, end_ns DESC, event_id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS latest_ns
    FROM slices
    JOIN sides USING (run, rank)
    WHERE is_host = has_host
)
WHERE latest_ns IS NULL OR end_ns > latest_ns;

-- pipeline_work: what ranks compute and send to each other, for pipeline_actions: device work by the start of its launch, or the
-- ops of a rank without devices.
-- parameter events TABLE  `events`, or a part of it
-- column run, rank, step  as in events
-- column is_device BOOLEAN  whether it is device work
-- column communicates BOOLEAN  whether it is communication
-- column is_optimizer BOOLEAN  whether an optimizer launched it
-- column is_backward BOOLEAN  whether a backward pass launched it; NULL if nothing shows this for any work of the rank
-- column at_ns BIGINT  start of the call that launched it, or its own; NULL if not known
-- column start_ns BIGINT  its start
-- column end_ns BIGINT  its end
-- example: FROM pipeline_work(events)
CREATE OR REPLACE TEMP MACRO pipeline_work(events) AS TABLE
WITH work AS MATERIALIZED (
    FROM device_work(events)
),
own_names AS (
    SELECT name
    FROM query_table(events)
    WHERE kind = 'host_op' AND name IS NOT NULL
    GROUP BY name
    HAVING NOT regexp_matches(any_value(name), '^(c10d|_c10d|gloo|mpi|nccl|record_param_comms|Optimizer|ProfilerStep)')
        AND pipeline_calls(any_value(name)) IS NULL
),
optimizers AS (
    SELECT run, rank, start_ns, start_ns + dur_ns AS end_ns
    FROM query_table(events)
    WHERE is_op(kind) AND device IS NULL AND starts_with(name, 'Optimizer.') AND start_ns IS NOT NULL AND dur_ns IS NOT NULL
),
backwards AS MATERIALIZED (
    SELECT run, rank, start_ns, start_ns + dur_ns AS end_ns
    FROM query_table(events)
    WHERE
        kind = 'host_op' AND starts_with(name, 'autograd::engine::evaluate_function: ') AND start_ns IS NOT NULL
        AND dur_ns IS NOT NULL
    QUALIFY coalesce(
        end_ns > max(end_ns) OVER (
            PARTITION BY run, rank ORDER BY start_ns, end_ns DESC ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ),
        true
    )
),
calls AS (
    SELECT
        work.run, work.rank, work.step, true AS is_device, work.class = 'communication' AS communicates, call.start_ns AS at_ns,
        work.start_ns, work.end_ns
    FROM work
    LEFT JOIN (SELECT run, rank, event_id, start_ns FROM query_table(events) WHERE is_call(kind)) AS call
        ON work.run = call.run AND work.rank = call.rank AND work.launch_id = call.event_id
    WHERE work.class <> 'copy'
    UNION ALL
    SELECT run, rank, step, false, false, start_ns, start_ns, start_ns + dur_ns
    FROM query_table(events)
    ANTI JOIN work USING (run, rank)
    WHERE kind = 'host_op' AND start_ns IS NOT NULL AND dur_ns IS NOT NULL AND name IN (FROM own_names)
)
SELECT
    calls.* EXCLUDE (optimizer_end_ns, backward_end_ns), coalesce(calls.at_ns < optimizer_end_ns, false) AS is_optimizer,
    CASE WHEN known.run IS NOT NULL THEN coalesce(calls.at_ns < backward_end_ns, false) END AS is_backward
FROM (
    -- The end of the last of each that began before the call, or with it.
    SELECT
        run, rank, step, is_device, communicates, at_ns, start_ns, end_ns,
        last_value(optimizer_end_ns IGNORE NULLS) OVER in_order AS optimizer_end_ns,
        last_value(backward_end_ns IGNORE NULLS) OVER in_order AS backward_end_ns
    FROM (
        FROM calls
        UNION ALL BY NAME
        SELECT run, rank, start_ns AS at_ns, end_ns AS optimizer_end_ns FROM optimizers
        UNION ALL BY NAME
        SELECT run, rank, start_ns AS at_ns, end_ns AS backward_end_ns FROM backwards
    )
    WINDOW in_order AS (
        PARTITION BY run, rank
        ORDER BY at_ns, is_device NULLS FIRST, optimizer_end_ns, backward_end_ns
        ROWS UNBOUNDED PRECEDING
    )
    QUALIFY is_device IS NOT NULL
) AS calls
LEFT JOIN (SELECT DISTINCT run, rank FROM backwards) AS known ON calls.run = known.run AND calls.rank = known.rank;

-- pipeline_messages: what each rank sends to one other rank or receives from it, at least one row each: from kernels and slices
-- of collective_slices, from what a host op records, or if neither names the peer, from the inputs of `c10d::send` and
-- `c10d::recv_`. These count ranks within their group: they are taken as ranks of the run if each pair has both sides.
-- parameter events TABLE  `events`, or a part of it
-- column run, rank, step, peer_rank, group_ranks  as in events
-- column kind VARCHAR  send, recv, or send_recv if no more is known
-- column at_ns BIGINT  start of its call on the host, or its own start if that is not known
-- example: FROM pipeline_messages(events)
CREATE OR REPLACE TEMP MACRO pipeline_messages(events) AS TABLE
WITH recorded AS MATERIALIZED (
    SELECT run, rank, step, peer_rank, group_ranks, kind, coalesce(call_ns, start_ns) AS at_ns
    FROM collective_slices(events)
    WHERE kind IN ('send', 'recv', 'send_recv')
    UNION ALL
    SELECT run, rank, step, peer_rank, group_ranks, collective_kind(collective), start_ns
    FROM query_table(events)
    WHERE
        kind = 'host_op' AND peer_rank IS NOT NULL AND start_ns IS NOT NULL AND collective_kind(collective) IN ('send', 'recv')
),
called AS MATERIALIZED (
    SELECT
        run, rank, step, try_cast(json_text(concrete_inputs) ->> '$[2]' AS INTEGER) AS peer_rank, NULL::VARCHAR AS group_ranks,
        CASE name WHEN 'c10d::send' THEN 'send' ELSE 'recv' END AS kind, start_ns AS at_ns
    FROM query_table(events)
    ANTI JOIN (FROM recorded WHERE peer_rank IS NOT NULL) AS known USING (run)
    WHERE kind = 'host_op' AND name IN ('c10d::send', 'c10d::recv_') AND start_ns IS NOT NULL
),
one_sided AS (
    SELECT run
    FROM (
        SELECT
            run, count(*) FILTER (kind = 'send') AS sends, count(*) FILTER (kind = 'recv') AS recvs,
            any_value(kind) AS kind, min(least(rank, peer_rank)) = max(greatest(rank, peer_rank)) AS is_own
        FROM (FROM called WHERE peer_rank IS NOT NULL)
        SEMI JOIN (SELECT DISTINCT run, rank AS peer_rank FROM called) AS loaded USING (run, peer_rank)
        GROUP BY run, CASE kind WHEN 'send' THEN rank ELSE peer_rank END, CASE kind WHEN 'send' THEN peer_rank ELSE rank END
    )
    WHERE sends = 0 OR recvs = 0 OR is_own
)
FROM recorded
UNION ALL
FROM called
ANTI JOIN one_sided USING (run)
WHERE peer_rank IS NOT NULL;

-- pipeline_places: the place of each rank in its pipeline: among the ranks that it sends to or receives from, directly or through
-- others, in rank order.
-- parameter messages TABLE  rows of pipeline_messages
-- column run, rank  as in events
-- column place BIGINT  number of these ranks before it
-- column places BIGINT  number of these ranks, including itself
-- example: WITH messages AS (FROM pipeline_messages(events)) FROM pipeline_places(messages)
CREATE OR REPLACE TEMP MACRO pipeline_places(messages) AS TABLE
WITH RECURSIVE pairs AS MATERIALIZED (
    SELECT run, rank, peer_rank AS other
    FROM query_table(messages)
    WHERE kind IN ('send', 'recv') AND peer_rank IS NOT NULL
    UNION
    SELECT run, rank, unnest(from_json(json_text(group_ranks), '["INTEGER"]'))
    FROM (
        SELECT DISTINCT run, rank, group_ranks
        FROM query_table(messages)
        WHERE kind IN ('send', 'recv', 'send_recv') AND peer_rank IS NULL
    )
),
both_ways AS MATERIALIZED (
    SELECT run, rank, other FROM pairs WHERE other IS NOT NULL
    UNION
    SELECT run, other, rank FROM pairs WHERE other IS NOT NULL
),
reached AS (
    SELECT run, rank, rank AS other FROM both_ways
    UNION
    SELECT reached.run, reached.rank, both_ways.other
    FROM reached
    JOIN both_ways ON reached.run = both_ways.run AND reached.other = both_ways.rank
)
SELECT run, rank, count(*) FILTER (other < rank) AS place, count(*) AS places
FROM (SELECT DISTINCT run, rank, other FROM reached)
GROUP BY run, rank
HAVING count(*) > 1;

-- pipeline_marked: one row per pipeline action that slices name: when its launched work ran, on the devices or on the host,
-- without communication before or after it. An action without work is the slice itself, or has no times if its rank has actions
-- on devices.
-- parameter slices TABLE  rows of pipeline_slices
-- parameter work TABLE  rows of pipeline_work
-- column run, rank, event_id, name, step, stage, phase, microbatch  as in pipeline_slices
-- column start_ns BIGINT  start of the action
-- column end_ns BIGINT  its end
-- example: WITH slices AS (FROM pipeline_slices(events)), work AS (FROM pipeline_work(events)) FROM pipeline_marked(slices, work)
CREATE OR REPLACE TEMP MACRO pipeline_marked(slices, work) AS TABLE
WITH hosts AS MATERIALIZED (
    SELECT run, rank, event_id, start_ns AS since_ns, end_ns AS until_ns, any_value(is_computing(phase)) AS computes
    FROM query_table(slices)
    WHERE is_host
    GROUP BY ALL
),
-- Of the work with the last action that began before its call, or with it.
inside AS MATERIALIZED (
    SELECT
        run, rank, action.event_id AS event_id, bool_or(is_device) AS is_device, min(start_ns) AS start_ns, max(end_ns) AS end_ns
    FROM (
        SELECT
            run, rank, is_device, communicates, at_ns, start_ns, end_ns,
            last_value(host IGNORE NULLS) OVER (
                PARTITION BY run, rank ORDER BY at_ns, is_device NULLS FIRST, host.event_id ROWS UNBOUNDED PRECEDING
            ) AS action
        FROM (
            SELECT run, rank, is_device, communicates, at_ns, start_ns, end_ns
            FROM query_table(work)
            WHERE at_ns IS NOT NULL AND (SELECT count(*) > 0 FROM hosts)
            UNION ALL BY NAME
            SELECT
                run, rank, since_ns AS at_ns, {'event_id': event_id, 'until_ns': until_ns, 'computes': computes} AS host
            FROM hosts
        )
    )
    WHERE is_device IS NOT NULL AND at_ns < action.until_ns AND communicates <> action.computes
    GROUP BY ALL
),
on_devices AS (
    SELECT DISTINCT run, rank FROM inside WHERE is_device
)
SELECT
    slices.run, slices.rank, slices.event_id, slices.name, slices.step, slices.stage, slices.phase, slices.microbatch,
    CASE WHEN inside.event_id IS NULL AND on_devices.run IS NULL THEN slices.start_ns ELSE inside.start_ns END AS start_ns,
    CASE WHEN inside.event_id IS NULL AND on_devices.run IS NULL THEN slices.end_ns ELSE inside.end_ns END AS end_ns
FROM query_table(slices) AS slices
LEFT JOIN inside ON slices.run = inside.run AND slices.rank = inside.rank AND slices.event_id = inside.event_id
LEFT JOIN on_devices ON slices.run = on_devices.run AND slices.rank = on_devices.rank;

-- pipeline_inferred: the same if no slice names it, from the order of host calls: what a rank launches after it received, and
-- before it sends. Data from a lower rank or for a higher one belongs to a forward, data from a higher or for a lower one to a
-- backward; work that neither follows the one nor leads to the other is no action. If autograd shows what is backward, work
-- between two messages is cut where that changes: the rest is a forward if it comes first after forward data, or last before
-- some; if no peer of a rank is known, if one of its backward ops has its forward op there. Otherwise work that fits both is
-- both.
-- parameter messages TABLE  rows of pipeline_messages
-- parameter work TABLE  rows of pipeline_work, without the ranks of pipeline_slices
-- parameter events TABLE  `events`, or a part of it
-- column run, rank, event_id, name, step, phase, microbatch, start_ns, end_ns  as in pipeline_marked
-- column stage BIGINT  NULL: see pipeline_places
-- example: WITH messages AS (FROM pipeline_messages(events)), work AS (FROM pipeline_work(events)) FROM
-- pipeline_inferred(messages, work, events)
CREATE OR REPLACE TEMP MACRO pipeline_inferred(messages, work, events) AS TABLE
WITH talkers AS MATERIALIZED (
    SELECT run, rank, bool_or(peer_rank IS NOT NULL) AS names_peers
    FROM query_table(messages)
    WHERE peer_rank IS DISTINCT FROM rank AND kind IN ('send', 'recv')
    GROUP BY run, rank
),
linked AS (
    SELECT run, rank, fwd_id AS event_id
    FROM query_table(events)
    SEMI JOIN (FROM talkers WHERE NOT names_peers) AS silent USING (run, rank)
    WHERE fwd_id IS NOT NULL
),
moments AS (
    SELECT
        run, rank, step, 0 AS turn, at_ns, NULL::BIGINT AS start_ns, NULL::BIGINT AS end_ns, NULL::BOOLEAN AS is_backward,
        CASE WHEN kind = 'recv' THEN peer_rank < rank END AS got_forward,
        CASE WHEN kind = 'send' THEN peer_rank > rank END AS gave_forward
    FROM query_table(messages)
    JOIN talkers USING (run, rank)
    WHERE kind IN ('send', 'recv') AND CASE WHEN names_peers THEN peer_rank <> rank ELSE peer_rank IS NULL END
    UNION ALL
    SELECT run, rank, step, 1, start_ns, NULL, NULL, false, NULL, NULL
    FROM query_table(events)
    SEMI JOIN linked USING (run, rank, event_id)
    WHERE start_ns IS NOT NULL
    UNION ALL
    SELECT run, rank, step, 1, coalesce(at_ns, start_ns), start_ns, end_ns, is_backward, NULL, NULL
    FROM query_table(work)
    SEMI JOIN talkers USING (run, rank)
    WHERE NOT communicates AND NOT is_optimizer
),
-- A part is messages with no work between them, and the work after them in the same step; a piece is all forward or all backward.
cut AS (
    SELECT
        *,
        coalesce(turn = 0 AND lag(turn) OVER in_order = 1 OR step IS DISTINCT FROM lag(step) OVER in_order, true) AS is_first,
        turn = 1 AND is_backward IS DISTINCT FROM lag(is_backward) OVER in_order AS is_change
    FROM moments
    WINDOW in_order AS (PARTITION BY run, rank ORDER BY at_ns, turn, start_ns, end_ns)
),
numbered AS (
    SELECT
        *,
        -- DuckDB takes quadratic time for a running count(*) with a FILTER.
        count(CASE WHEN is_first THEN 1 END) OVER until_now AS part,
        count(CASE WHEN is_first OR is_change THEN 1 END) OVER until_now AS piece
    FROM cut
    WINDOW until_now AS (PARTITION BY run, rank ORDER BY at_ns, turn, start_ns, end_ns ROWS UNBOUNDED PRECEDING)
),
parts AS (
    SELECT
        run, rank, part,
        coalesce(bool_or(got_forward), false) AS got_forward,
        coalesce(bool_or(NOT got_forward), false) AS got_backward,
        coalesce(bool_or(gave_forward), false) AS gave_forward,
        coalesce(bool_or(NOT gave_forward), false) AS gave_backward
    FROM numbered
    GROUP BY run, rank, part
),
told AS (
    SELECT
        run, rank, part, got_forward,
        coalesce(lead(gave_forward) OVER in_order, false) AS gives_forward,
        got_backward OR coalesce(lead(gave_backward) OVER in_order, false) AS is_backward
    FROM parts
    WINDOW in_order AS (PARTITION BY run, rank ORDER BY part)
),
pieces AS (
    SELECT
        run, rank, part, piece, any_value(step) AS step, min(start_ns) AS start_ns, max(end_ns) AS end_ns,
        any_value(is_backward) AS is_backward, bool_or(start_ns IS NULL) AS has_backward
    FROM numbered
    WHERE turn = 1
    GROUP BY run, rank, part, piece
    HAVING min(start_ns) IS NOT NULL
),
known AS (
    SELECT
        pieces.run, pieces.rank, piece, step, start_ns, end_ns,
        CASE
            WHEN pieces.is_backward IS NULL THEN got_forward OR gives_forward
            WHEN NOT names_peers THEN has_backward AND NOT pieces.is_backward
            WHEN NOT pieces.is_backward
                THEN got_forward AND piece = min(piece) OVER of_part
                    OR gives_forward AND piece = max(piece) FILTER (NOT pieces.is_backward) OVER of_part
            ELSE false
        END AS is_forward,
        CASE
            WHEN pieces.is_backward IS NULL THEN told.is_backward
            WHEN NOT names_peers THEN pieces.is_backward
            ELSE pieces.is_backward AND (got_forward OR gives_forward OR told.is_backward)
        END AS is_backward
    FROM pieces
    JOIN told ON pieces.run = told.run AND pieces.rank = told.rank AND pieces.part = told.part
    JOIN talkers ON pieces.run = talkers.run AND pieces.rank = talkers.rank
    WINDOW of_part AS (PARTITION BY pieces.run, pieces.rank, pieces.part)
),
counted AS (
    SELECT
        *,
        -- Not count(*) with a FILTER, which takes a time that grows with the square of a running frame.
        count(CASE WHEN is_forward THEN 1 END) OVER in_step AS forwards,
        count(CASE WHEN is_backward THEN 1 END) OVER in_step AS backwards
    FROM known
    WHERE is_forward OR is_backward
    WINDOW in_step AS (PARTITION BY run, rank, step ORDER BY piece ROWS UNBOUNDED PRECEDING)
)
SELECT
    run, rank, NULL::BIGINT AS event_id, NULL::VARCHAR AS name, step, NULL::BIGINT AS stage,
    CASE WHEN is_forward AND is_backward THEN 'forward_backward' WHEN is_forward THEN 'forward' ELSE 'backward' END AS phase,
    CASE
        WHEN is_forward AND is_backward THEN CASE WHEN forwards = backwards THEN forwards - 1 END
        WHEN is_forward THEN forwards - 1
        ELSE backwards - 1
    END AS microbatch,
    start_ns, end_ns
FROM counted;

-- pipeline_actions: one row per action of a pipeline: a microbatch in a stage, or a transfer or an optimizer that a slice names.
-- parameter events TABLE  `events`, or a part of it
-- column run, rank, event_id, name, step, phase, start_ns, end_ns  as in pipeline_marked
-- column source VARCHAR  annotations or messages: where it comes from
-- column stage BIGINT  stage from its name, else the rank's place in the pipeline; NULL if neither is known
-- column microbatch BIGINT  microbatch, from 0: from its name, else the n-th of its phase in the step
-- column pass BIGINT  n-th time that the step does this action
-- column places BIGINT  ranks in the pipeline, as in pipeline_places; NULL if not known
-- column lane BIGINT  number of the (run, rank, step, pass)
-- example: FROM pipeline_actions(events)
CREATE OR REPLACE TEMP MACRO pipeline_actions(events) AS TABLE
WITH slices AS MATERIALIZED (
    FROM pipeline_slices(events)
),
messages AS MATERIALIZED (
    FROM pipeline_messages(events)
),
places AS (
    FROM pipeline_places(messages)
),
work AS MATERIALIZED (
    FROM pipeline_work(events)
),
other_work AS (
    FROM work
    ANTI JOIN slices USING (run, rank)
),
actions AS (
    SELECT *, 'annotations' AS source FROM pipeline_marked(slices, work)
    UNION ALL BY NAME
    SELECT *, 'messages' AS source FROM pipeline_inferred(messages, other_work, events)
),
numbered AS (
    SELECT
        actions.* REPLACE (
            CASE WHEN phase <> 'optimizer' THEN coalesce(actions.stage, places.place) END AS stage,
            CASE
                WHEN actions.microbatch IS NOT NULL OR source = 'messages' THEN actions.microbatch
                WHEN is_computing(phase)
                    THEN row_number() OVER (
                        PARTITION BY run, rank, step, actions.stage, phase, actions.microbatch ORDER BY start_ns, event_id
                    ) - 1
            END AS microbatch
        ),
        places.places
    FROM actions
    LEFT JOIN places USING (run, rank)
),
passes AS (
    SELECT
        *,
        row_number() OVER (
            PARTITION BY run, rank, step, stage, phase, microbatch, name, CASE WHEN source = 'messages' THEN start_ns END
            ORDER BY start_ns, event_id
        ) AS pass
    FROM numbered
)
SELECT *, dense_rank() OVER (ORDER BY run, rank, step, pass) AS lane
FROM passes;

-- pipeline_order: the actions in which a stage works, along each (run, rank, step, pass), with the time before each.
-- parameter actions TABLE  rows of pipeline_actions
-- column *  as in pipeline_actions
-- column slice_id BIGINT  `event_id` of the action, because event_id numbers them here
-- column free_ns, added_ns, gap_ns  as in busy_order
-- example: WITH actions AS (FROM pipeline_actions(events)) FROM pipeline_order(actions)
CREATE OR REPLACE TEMP MACRO pipeline_order(actions) AS TABLE
WITH computing AS (
    SELECT
        * EXCLUDE (event_id), event_id AS slice_id,
        row_number() OVER (ORDER BY lane, start_ns, event_id, stage, microbatch, phase) AS event_id
    FROM query_table(actions)
    WHERE is_computing(phase) AND start_ns IS NOT NULL AND end_ns IS NOT NULL
)
FROM busy_order('computing');
