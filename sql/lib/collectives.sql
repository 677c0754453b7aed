-- Collectives of many ranks, matched with each other.

-- is_op: what a program did on the host, named by the program.
-- parameter kind VARCHAR  kind of a slice
-- returns BOOLEAN  whether it is
-- example: SELECT is_op('host_op')
CREATE OR REPLACE TEMP MACRO is_op(kind) AS kind = 'host_op' OR kind = 'annotation';

-- json_text: the text, if it is JSON.
-- parameter text VARCHAR  any text
-- returns VARCHAR  the text; NULL if it is not JSON
-- example: SELECT json_text('[1]')
CREATE OR REPLACE TEMP MACRO json_text(text) AS CASE WHEN json_valid(text) THEN text END;

-- element_bytes: size of one element, from any name that sources use for its type; NULL for an unknown name.
-- parameter type VARCHAR  name of a data type
-- returns INTEGER  bytes
-- example: SELECT element_bytes('c10::Half')
CREATE OR REPLACE TEMP MACRO element_bytes(type) AS map_extract_value(MAP {
    'long unsigned int': 8, 'long long unsigned int': 8, 'unsigned long': 8, 'unsigned long long': 8, 'unsigned __int64': 8,
    '__int64': 8, 'long': 8, 'long int': 8, 'long long': 8, 'long long int': 8, 'int64': 8, 'uint64': 8, 'double': 8,
    'fp64': 8, 'float64': 8, 'complexfloat': 8, 'complex<float>': 8, 'complex64': 8, 'complexdouble': 16,
    'complex<double>': 16, 'complex128': 16, 'float': 4, 'fp32': 4, 'float32': 4, 'int': 4, 'int32': 4, 'uint32': 4,
    'unsigned int': 4, 'qint32': 4, 'complexhalf': 4, 'complex<c10::half>': 4, 'complex32': 4, 'half': 2, 'fp16': 2,
    'float16': 2, 'bfloat16': 2, 'bfp16': 2, 'bf16': 2, 'short': 2, 'short int': 2, 'int16': 2, 'uint16': 2,
    'unsigned short': 2, 'short unsigned int': 2, 'bits16': 2, 'byte': 1, 'unsigned char': 1, 'uint8': 1, 'char': 1,
    'signed char': 1, 'int8': 1, 'bool': 1, 'qint8': 1, 'quint8': 1, 'hifloat8': 1, 'bits8': 1, 'bits1x8': 1, 'bits2x4': 1,
    'bits4x2': 1, 'quint4x2': 1, 'quint2x4': 1,
    'small': 1
}, regexp_replace(
    regexp_replace(lower(type), '^(c10::|at::|torch\.)', ''), '^(float[48]_\w+|fp8\w*|(dummy_)?u?int(1_7_t<)?[1-7]>?)$', 'small'
));

-- collective_kind: the operation, from any word that sources use for it, including a kernel name; NULL if it says nothing.
-- parameter name VARCHAR  name of a collective, or of its kernel
-- returns VARCHAR  all_reduce, all_gather, ...; NULL if it says nothing
-- example: SELECT collective_kind('ncclDevKernel_AllReduce')
CREATE OR REPLACE TEMP MACRO collective_kind(name) AS map_extract_value(MAP {
    'allreduce': 'all_reduce', 'crossdevicereduce': 'all_reduce', 'reducescatter': 'reduce_scatter', 'allgather': 'all_gather',
    'alltoall': 'all_to_all', 'all2all': 'all_to_all', 'sendrecv': 'send_recv', 'broadcast': 'broadcast', 'barrier': 'barrier',
    'dispatch': 'dispatch', 'combine': 'combine', 'gather': 'gather', 'scatter': 'scatter', 'reduce': 'reduce', 'send': 'send', 'recv': 'recv', 'receive': 'recv'
}, regexp_extract(
    translate(lower(name), '_-:. ', ''),
    'allreduce|crossdevicereduce|reducescatter|allgather|alltoall|all2all|sendrecv|broadcast|barrier|gather|scatter|reduce|send'
    '|recv|receive|dispatch|combine'
));

-- is_exchange: collectives that may carry tokens to experts and back: all all-to-all exchanges.
-- parameter kind VARCHAR  result of collective_kind
-- returns BOOLEAN  whether it is
-- example: SELECT is_exchange('dispatch')
CREATE OR REPLACE TEMP MACRO is_exchange(kind) AS kind IN ('all_to_all', 'dispatch', 'combine');

-- message_bytes: the size that a collective's bandwidth refers to: all bytes of one rank before or after it, whichever is larger.
-- parameter kind VARCHAR  result of collective_kind
-- parameter in_bytes BIGINT  bytes that a rank sends
-- parameter out_bytes BIGINT  bytes that a rank receives
-- parameter ranks BIGINT  number of ranks
-- returns BIGINT  bytes; NULL if not known
-- example: SELECT message_bytes('all_gather', 8::BIGINT, 16::BIGINT, 2)
CREATE OR REPLACE TEMP MACRO message_bytes(kind, in_bytes, out_bytes, ranks) AS
CASE kind
    WHEN 'all_gather' THEN coalesce(out_bytes, try_cast(in_bytes::HUGEINT * ranks AS BIGINT))
    WHEN 'gather' THEN try_cast(in_bytes::HUGEINT * ranks AS BIGINT)
    WHEN 'scatter' THEN try_cast(out_bytes::HUGEINT * ranks AS BIGINT)
    ELSE coalesce(in_bytes, out_bytes)
END;

-- bus_factor: how often each byte of the message must pass the slowest link, for any algorithm.
-- parameter kind VARCHAR  result of collective_kind
-- parameter ranks BIGINT  number of ranks
-- returns DOUBLE  the factor; NULL if not known
-- example: SELECT bus_factor('all_reduce', 2)
CREATE OR REPLACE TEMP MACRO bus_factor(kind, ranks) AS
CASE
    WHEN kind = 'all_reduce' THEN 2 * (ranks - 1) / ranks
    WHEN kind IN ('reduce_scatter', 'all_gather', 'all_to_all', 'gather', 'scatter') THEN (ranks - 1) / ranks
    WHEN kind IN ('broadcast', 'reduce', 'send', 'recv') THEN 1.0
END;

-- collective_slices: one row per collective kernel, or per collective slice on the host (gloo, mpi), with what it, the op around
-- its launch or the annotation around that launch says about it.
-- parameter events TABLE  `events`, or a part of it
-- column run, rank, event_id, name, start_ns, dur_ns, step, op_id, process_group, group_size, group_ranks  as in events
-- column collective_seq, collective_id, out_elements, in_splits, peer_rank  as in events
-- column is_host BOOLEAN  whether it is a slice on the host
-- column collective VARCHAR  the operation, as the source names it, or from a name
-- column element_type VARCHAR  type of its elements, as the source names it
-- column in_elements BIGINT  number of input elements
-- column is_recorded BOOLEAN  whether the op around its launch says what it is
-- column call_thread INTEGER  thread of its launch
-- column call_ns BIGINT  start of the op around its launch, or of the launch
-- column kind VARCHAR  result of collective_kind
-- example: FROM collective_slices(events)
CREATE OR REPLACE TEMP MACRO collective_slices(events) AS TABLE
WITH op_names AS MATERIALIZED (
    SELECT kind, name
    FROM query_table(events)
    WHERE is_op(kind) AND name IS NOT NULL
    GROUP BY kind, name
),
-- Patterns are tried on the distinct names: a trace has millions of slices and thousands of names.
host_names AS (
    SELECT name FROM few('op_names') WHERE regexp_matches(name, '^(gloo|mpi):\w+$')
),
note_names AS (
    SELECT kind, name
    FROM few('op_names')
    WHERE
        CASE
            WHEN kind = 'annotation' THEN contains(name, ':')
            ELSE regexp_matches(name, '^\w+:\w+') AND collective_kind(split_part(name, ':', 2)) IS NOT NULL
        END
),
named AS (
    FROM query_table(events) AS slice
    SEMI JOIN host_names ON slice.name = host_names.name
    WHERE is_op(kind)
),
work AS MATERIALIZED (
    SELECT
        run, rank, event_id, kind <> 'kernel' AS is_host, name, start_ns, dur_ns, step, thread, launch_id, op_id, collective,
        process_group, group_size, group_ranks, collective_seq, collective_id, element_type, in_elements, out_elements, in_splits,
        peer_rank, input_dims, input_types
    FROM (
        FROM query_table(events)
        WHERE
            kind = 'kernel'
            AND (
                collective IS NOT NULL
                OR is_communication(kernel_category) AND NOT coalesce(name ILIKE 'reduce_async%', false)
            )
        UNION ALL BY NAME
        FROM named
    )
    WHERE start_ns IS NOT NULL AND dur_ns IS NOT NULL
),
wanted AS (
    SELECT run, rank, op_id AS event_id FROM work WHERE op_id IS NOT NULL
    UNION
    SELECT run, rank, launch_id FROM work WHERE launch_id IS NOT NULL
),
hosts AS MATERIALIZED (
    SELECT
        host.run, host.rank, host.event_id, host.parent_id, host.thread, host.start_ns, host.collective, host.process_group,
        host.group_size, host.group_ranks, host.collective_seq, host.collective_id, host.element_type, host.in_elements,
        host.out_elements, host.in_splits, host.peer_rank
    FROM query_table(events) AS host
    JOIN few(wanted) AS wanted ON host.run = wanted.run AND host.rank = wanted.rank AND host.event_id = wanted.event_id
    WHERE host.kind <> 'kernel'
),
around AS (
    SELECT run, rank, event_id FROM hosts
    UNION
    SELECT run, rank, parent_id FROM hosts WHERE parent_id IS NOT NULL
),
notes AS MATERIALIZED (
    SELECT note.run, note.rank, note.event_id, note.kind, note.name, note.input_dims, note.input_types
    FROM query_table(events) AS note
    JOIN few(around) AS around ON note.run = around.run AND note.rank = around.rank AND note.event_id = around.event_id
    SEMI JOIN note_names ON note.kind = note_names.kind AND note.name = note_names.name
),
-- The best description of a kernel: around its launch, or in old traces the op of the launch, or the one around that op.
noted AS (
    SELECT
        work.run, work.rank, work.event_id,
        coalesce(near.name, own.name, outer_op.name) AS name,
        coalesce(near.input_dims, own.input_dims, outer_op.input_dims) AS input_dims,
        coalesce(near.input_types, own.input_types, outer_op.input_types) AS input_types
    FROM work
    LEFT JOIN hosts AS op ON work.run = op.run AND work.rank = op.rank AND work.op_id = op.event_id
    LEFT JOIN hosts AS launch ON work.run = launch.run AND work.rank = launch.rank AND work.launch_id = launch.event_id
    LEFT JOIN notes AS near ON work.run = near.run AND work.rank = near.rank AND launch.parent_id = near.event_id
    LEFT JOIN notes AS own
        ON work.run = own.run AND work.rank = own.rank AND op.event_id = own.event_id AND own.kind = 'host_op'
    LEFT JOIN notes AS outer_op
        ON work.run = outer_op.run AND work.rank = outer_op.rank AND op.parent_id = outer_op.event_id
        AND outer_op.kind = 'host_op'
),
attributed AS (
    SELECT
        work.* EXCLUDE (thread, launch_id, input_dims, input_types) REPLACE (
            coalesce(
                work.collective, op.collective,
                collective_kind(CASE WHEN is_host THEN work.name ELSE split_part(note.name, ':', 2) END),
                collective_kind(work.name)
            ) AS collective,
            coalesce(work.process_group, op.process_group) AS process_group,
            coalesce(work.group_size, op.group_size) AS group_size,
            coalesce(work.group_ranks, op.group_ranks) AS group_ranks,
            coalesce(work.collective_seq, op.collective_seq) AS collective_seq,
            coalesce(work.collective_id, op.collective_id) AS collective_id,
            coalesce(work.element_type, op.element_type) AS element_type,
            coalesce(work.in_elements, op.in_elements) AS in_elements,
            coalesce(work.out_elements, op.out_elements) AS out_elements,
            coalesce(work.in_splits, op.in_splits) AS in_splits,
            coalesce(work.peer_rank, op.peer_rank) AS peer_rank
        ),
        op.collective IS NOT NULL AS is_recorded,
        CASE WHEN is_host THEN work.thread ELSE coalesce(launch.thread, op.thread) END AS call_thread,
        coalesce(op.start_ns, launch.start_ns) AS call_ns,
        json_text(CASE WHEN is_host THEN work.input_dims ELSE note.input_dims END) AS dims,
        json_text(CASE WHEN is_host THEN work.input_types ELSE note.input_types END) AS types
    FROM work
    LEFT JOIN hosts AS op ON work.run = op.run AND work.rank = op.rank AND work.op_id = op.event_id
    LEFT JOIN hosts AS launch ON work.run = launch.run AND work.rank = launch.rank AND work.launch_id = launch.event_id
    LEFT JOIN noted AS note ON work.run = note.run AND work.rank = note.rank AND work.event_id = note.event_id
)
SELECT
    * EXCLUDE (dims, types) REPLACE (
        coalesce(element_type, nullif(types ->> '$[0]', '')) AS element_type,
        CASE
            WHEN element_type IS NOT NULL OR in_elements IS NOT NULL OR out_elements IS NOT NULL THEN in_elements
            ELSE
                try_cast(
                    list_sum(list_transform(from_json(dims, '[["BIGINT"]]'), lambda dim: list_product(dim))) AS BIGINT
                )
        END AS in_elements
    ),
    collective_kind(collective) AS kind
FROM attributed;

-- collective_parts: one row per collective of a rank, with the `key` that it shares with the other ranks of its group. The key is
-- its number, or its order: the n-th of its kind in the group, or in a step of it. Kernels of one op are one collective. For
-- sends and receives, each pair of ranks is a separate `line`; their ops count differently on both sides, so numbers are used
-- only if both sides have the same.
-- parameter events TABLE  `events`, or a part of it
-- column run, rank, process_group, group_ranks, step, group_size, collective_seq, in_splits, peer_rank  as in events
-- column kind, collective, element_type  as in collective_slices
-- column line VARCHAR  the pair of ranks, `0>1`; `any` for an unknown rank; '' if the whole group takes part
-- column key VARCHAR  what it has in common with the other ranks
-- column is_numbered BOOLEAN  whether the key is a number from the source
-- column kernels BIGINT  number of kernels
-- column start_ns BIGINT  first start of its kernels
-- column end_ns BIGINT  last end of its kernels
-- column event_id BIGINT  event_id of the first of its kernels
-- column in_bytes BIGINT  input bytes
-- column out_bytes BIGINT  output bytes
-- column call_thread INTEGER  thread of its launch
-- column call_ns BIGINT  start of its launch
-- column turn BIGINT  its number among those with that key
-- column dur_ns BIGINT  first start to last end of its kernels
-- column at_ns BIGINT  start_ns, by which collectives are ordered
-- example: FROM collective_parts(events)
CREATE OR REPLACE TEMP MACRO collective_parts(events) AS TABLE
WITH slices AS (
    SELECT
        * REPLACE (
            CASE
                WHEN group_ranks IS NOT NULL OR process_group IS NULL THEN group_ranks
                WHEN min(group_ranks) OVER of_group = max(group_ranks) OVER of_group THEN min(group_ranks) OVER of_group
            END AS group_ranks
        ),
        CASE
            WHEN kind = 'send' AND peer_rank IS NOT NULL THEN rank || '>' || peer_rank
            WHEN kind = 'recv' AND peer_rank IS NOT NULL THEN peer_rank || '>' || rank
            WHEN kind IN ('send', 'recv') THEN 'any'
            ELSE ''
        END AS line,
        CASE
            WHEN collective_seq IS NOT NULL AND (process_group IS NOT NULL OR collective_id IS NULL) THEN 'seq ' || collective_seq
            ELSE 'id ' || collective_id
        END AS number
    FROM collective_slices(events)
    WINDOW of_group AS (PARTITION BY run, process_group)
),
-- Both sides of a message number it on their own, so numbers need not agree. They are used only where they pair up at least as
-- often as the side with fewer messages has them.
pairs AS (
    SELECT
        run, process_group, group_ranks, line,
        bool_and(sides <= 2) AND count(*) FILTER (WHERE sides = 2) >= least(sum(first_side), sum(second_side)) AS is_numbered
    FROM (
        SELECT
            run, process_group, group_ranks, line, number, count(DISTINCT rank) AS sides,
            max((kind = 'send')::INTEGER) AS first_side, max((kind = 'recv')::INTEGER) AS second_side
        FROM slices
        WHERE contains(line, '>')
        GROUP BY ALL
    )
    GROUP BY ALL
    HAVING bool_and(number IS NOT NULL)
),
keyed AS (
    SELECT
        slices.*,
        CASE WHEN contains(slices.line, '>') AND NOT coalesce(pairs.is_numbered, false) THEN NULL ELSE number END AS shared_number,
        coalesce(kind, lower(collective), name) AS word
    FROM slices
    LEFT JOIN pairs
        ON slices.run = pairs.run
        AND slices.process_group IS NOT DISTINCT FROM pairs.process_group
        AND slices.group_ranks IS NOT DISTINCT FROM pairs.group_ranks
        AND slices.line = pairs.line
),
-- Counts restart in each step if the first and last step are the same on all ranks.
stepped AS (
    SELECT run, process_group, group_ranks, word
    FROM (
        SELECT run, process_group, group_ranks, word, rank, min(step) AS first_step, max(step) AS last_step
        FROM keyed
        WHERE shared_number IS NULL AND line = '' AND NOT is_host
        GROUP BY ALL
    )
    GROUP BY ALL
    HAVING count(DISTINCT first_step) = 1 AND count(DISTINCT last_step) = 1 AND count(first_step) = count(*)
),
parts AS (
    SELECT
        keyed.run, rank, keyed.process_group, keyed.group_ranks, line,
        CASE
            WHEN shared_number IS NOT NULL THEN shared_number
            -- A message whose peer is not known must match nothing.
            WHEN line = 'any' THEN 'rank ' || rank
            WHEN line <> '' THEN ''
            -- Counting anew in each step, one lost record shifts the matches of one step only.
            WHEN stepped.run IS NOT NULL AND NOT is_host THEN keyed.word || ' in ' || coalesce(step::VARCHAR, 'none')
            ELSE keyed.word
        END AS key,
        shared_number IS NOT NULL AS is_numbered,
        -- NCCL may run one collective as several kernels; without a description of the op, each kernel is taken for one.
        CASE WHEN op_id IS NOT NULL AND (is_recorded OR shared_number IS NOT NULL) THEN op_id ELSE -1 - event_id END AS unit,
        count(*) AS kernels,
        min(start_ns) AS start_ns,
        max(start_ns + dur_ns) AS end_ns,
        arg_min(event_id, {'start_ns': start_ns, 'event_id': event_id}) AS event_id,
        max(kind) AS kind,
        max(collective) AS collective,
        max(step) AS step,
        max(group_size) AS group_size,
        max(collective_seq) AS collective_seq,
        max(element_type) AS element_type,
        max(try_cast(in_elements::HUGEINT * element_bytes(element_type) AS BIGINT)) AS in_bytes,
        max(try_cast(out_elements::HUGEINT * element_bytes(element_type) AS BIGINT)) AS out_bytes,
        max(in_splits) AS in_splits,
        max(peer_rank) AS peer_rank,
        max(call_thread) AS call_thread,
        min(call_ns) AS call_ns
    FROM keyed
    LEFT JOIN stepped
        ON keyed.run = stepped.run
        AND keyed.process_group IS NOT DISTINCT FROM stepped.process_group
        AND keyed.group_ranks IS NOT DISTINCT FROM stepped.group_ranks
        AND keyed.word = stepped.word
    GROUP BY ALL
)
SELECT
    * EXCLUDE (unit),
    row_number() OVER (PARTITION BY run, rank, process_group, group_ranks, line, key ORDER BY start_ns, event_id) AS turn,
    end_ns - start_ns AS dur_ns,
    start_ns AS at_ns
FROM parts;

-- is_of_plugin: whether a record is of a profiler plugin of NCCL, which says how long its collectives took, and not of a flight
-- recorder.
-- parameter recorder VARCHAR  recorder, as in recorded_collectives
-- returns BOOLEAN  whether it is
-- example: SELECT is_of_plugin('nccl_inspector')
CREATE OR REPLACE TEMP MACRO is_of_plugin(recorder) AS coalesce(recorder IN ('nccl_inspector', 'nccl_profiler'), false);

-- communicators: one row per communicator in records of NCCL's profiler plugins. Communicators of one name have their hash in
-- their label.
-- parameter recorded TABLE  `recorded_collectives`, or a part of it
-- column run, communicator, process_group  as in recorded_collectives
-- column label VARCHAR  what it is called: its name, or else its hash
-- column ranks BIGINT  number of its ranks that are loaded
-- column group_size INTEGER  number of its ranks
-- column group_ranks VARCHAR  its ranks in its own order, as JSON list; NULL unless all of them are loaded
-- example: FROM communicators(recorded_collectives)
CREATE OR REPLACE TEMP MACRO communicators(recorded) AS TABLE
WITH members AS (
    SELECT DISTINCT run, communicator, process_group, group_rank, group_size, rank
    FROM query_table(recorded)
    WHERE communicator IS NOT NULL AND is_of_plugin(recorder)
),
whole AS (
    SELECT
        run, communicator, min(process_group) AS process_group, count(DISTINCT rank) AS ranks, max(group_size) AS group_size,
        CASE
            WHEN count(*) = max(group_size) AND count(DISTINCT rank) = count(*) AND count(DISTINCT group_rank) = count(*)
                THEN '[' || string_agg(rank, ',' ORDER BY group_rank) || ']'
        END AS group_ranks
    FROM members
    GROUP BY run, communicator
)
SELECT
    run, communicator, process_group,
    CASE
        WHEN process_group IS NULL THEN communicator
        WHEN count(*) OVER (PARTITION BY run, process_group) > 1 THEN process_group || ' ' || communicator
        ELSE process_group
    END AS label,
    ranks, group_size, group_ranks
FROM whole;

-- recorded_parts: one row per collective, send or receive in records of NCCL's profiler plugins, in the form of collective_parts:
-- what has no row in `events`. NCCL numbers the collectives of each operation of a communicator; sends and receives of two ranks
-- are matched in their order, unless numbers of one of them are missing. Of several records with one number, the first counts.
-- parameter recorded TABLE  `recorded_collectives`, or a part of it
-- column run, rank, process_group, group_ranks, step, group_size, collective_seq, in_splits, peer_rank  as in collective_parts
-- column kind, collective, element_type, line, key, is_numbered, kernels, end_ns, event_id  as in collective_parts
-- column in_bytes, out_bytes, call_thread, call_ns, turn  as in collective_parts
-- column start_ns BIGINT  when its kernel started; NULL if that is not recorded
-- column dur_ns BIGINT  duration of its kernel
-- column at_ns BIGINT  start_ns, or else when its record was written
-- column record_id BIGINT  its record
-- example: FROM recorded_parts(recorded_collectives)
CREATE OR REPLACE TEMP MACRO recorded_parts(recorded) AS TABLE
WITH groups AS MATERIALIZED (
    FROM communicators(recorded)
),
calls AS (
    SELECT
        records.* REPLACE (
            coalesce(
                records.peer_rank, from_json(groups.group_ranks, '["INTEGER"]')[records.group_peer + 1]
            ) AS peer_rank,
            coalesce(groups.label, records.process_group) AS process_group,
            groups.group_ranks AS group_ranks,
            coalesce(collective_kind(records.kind), lower(records.kind)) AS kind
        ),
        records.message_bytes::HUGEINT * coalesce(records.group_size, groups.group_size) AS whole_bytes
    FROM query_table(recorded) AS records
    LEFT JOIN groups ON records.run = groups.run AND records.communicator = groups.communicator
    WHERE is_of_plugin(records.recorder) AND records.dur_ns IS NOT NULL
),
lined AS (
    SELECT
        *,
        CASE
            WHEN NOT is_p2p THEN ''
            WHEN peer_rank IS NULL THEN 'any'
            WHEN kind = 'recv' THEN peer_rank || '>' || rank
            ELSE rank || '>' || peer_rank
        END AS line
    FROM calls
),
counted AS (
    SELECT
        *,
        coalesce(
            max(p2p_seq) OVER of_rank - least(min(p2p_seq) OVER of_rank, 1) + 1 = count(*) OVER of_rank, true
        ) AS is_gapless
    FROM lined
    WINDOW of_rank AS (PARTITION BY run, communicator, rank, is_p2p)
),
keyed AS (
    SELECT
        *,
        CASE
            WHEN line = '' THEN concat_ws(' ', communicator, kind, collective_seq)
            WHEN line = 'any' OR NOT bool_and(is_gapless) OVER (PARTITION BY run, communicator, line) THEN 'rank ' || rank
            ELSE ''
        END AS key
    FROM counted
)
SELECT
    run, rank, process_group, group_ranks, line, key,
    line = '' AND collective_seq IS NOT NULL AS is_numbered,
    NULL::BIGINT AS kernels,
    started_ns AS start_ns,
    started_ns + dur_ns AS end_ns,
    event_id, kind,
    kind AS collective,
    NULL::BIGINT AS step,
    group_size, collective_seq,
    json_text(input_dtypes) ->> '$[0]' AS element_type,
    CASE
        WHEN kind IN ('reduce_scatter', 'all_to_all') THEN try_cast(whole_bytes AS BIGINT)
        WHEN kind <> 'recv' THEN message_bytes
    END AS in_bytes,
    CASE
        WHEN kind IN ('all_gather', 'all_to_all') THEN try_cast(whole_bytes AS BIGINT)
        WHEN kind <> 'send' THEN message_bytes
    END AS out_bytes,
    NULL::VARCHAR AS in_splits,
    peer_rank,
    NULL::INTEGER AS call_thread,
    NULL::BIGINT AS call_ns,
    row_number() OVER of_key AS turn,
    dur_ns,
    coalesce(started_ns, written_ns) AS at_ns,
    record_id
FROM keyed
WINDOW of_key AS (
    PARTITION BY run, rank, process_group, group_ranks, line, key ORDER BY p2p_seq, coalesce(started_ns, written_ns), record_id
)
QUALIFY line <> '' OR collective_seq IS NULL OR turn = 1;

-- matched_parts: one row per collective of a run, with a struct for each rank that takes part: `members`, by rank. `loaded`
-- are the ranks of its group whose traces are loaded. If the group is not known, it is assumed to be the whole run.
-- parameter parts TABLE  rows of collective_parts or recorded_parts
-- parameter traces TABLE  `traces` of the same runs
-- column run, process_group, collective_seq, group_ranks  as in events
-- column collective, kind, element_type  as in collective_slices
-- column match BIGINT  number of the collective, by run and by the time at which its first rank came to it
-- column number BIGINT  number of the collective in its run, by start
-- column step BIGINT  lowest step of its ranks
-- column ranks BIGINT  number of ranks that took part
-- column expected_ranks BIGINT  number of ranks in its group; NULL if not known
-- column members STRUCT[]  each rank with its `event_id`, `kernels`, start, end, bytes, step, splits, peer and call, by rank
-- column of_group INTEGER[]  ranks of its group that are loaded
-- column matched_by VARCHAR  seq, order or none, as in `collectives`
-- column missing_ranks VARCHAR  ranks of the group that lack it: 2,5; NULL if there are none
-- column mismatch VARCHAR  what does not fit, as in `collectives`; NULL if everything does
-- column bytes BIGINT  size, as in `collectives`
-- column imbalance DOUBLE  largest over mean size of the ranks
-- example: WITH parts AS (FROM collective_parts(events)) FROM matched_parts(parts, traces)
CREATE OR REPLACE TEMP MACRO matched_parts(parts, traces) AS TABLE
WITH runs AS (
    SELECT
        run, list(rank ORDER BY rank) AS ranks,
        CASE WHEN count(*) > 1 OR count(world_size) > 0 THEN greatest(max(world_size), count(*)) END AS world_size
    FROM query_table(traces)
    GROUP BY run
),
groups AS (
    SELECT run, process_group, group_ranks, list_sort(list(DISTINCT rank)) AS ranks
    FROM query_table(parts)
    GROUP BY ALL
),
matches AS (
    SELECT
        run, process_group, group_ranks, line,
        bool_and(is_numbered) AS is_numbered,
        min(kind) AS kind,
        min(collective) AS collective,
        min(step) AS step,
        min(collective_seq) AS collective_seq,
        min(element_type) AS element_type,
        max(group_size) AS group_size,
        count(*) AS ranks,
        -- min < max says whether values differ, without a count(DISTINCT) in each group.
        coalesce(min(own_kind) < max(own_kind), false) AS has_kinds,
        coalesce(min(lower(element_type)) < max(lower(element_type)), false)
        OR coalesce(min(element_bytes(element_type)) < max(element_bytes(element_type)), false) AS has_types,
        coalesce(min(group_size) < max(group_size), false) AS has_sizes,
        list(rank) AS present,
        list_sort(list(
            {
                'rank': rank, 'event_id': event_id, 'kernels': kernels, 'start_ns': start_ns, 'end_ns': end_ns,
                'in_bytes': in_bytes, 'out_bytes': out_bytes, 'step': step, 'in_splits': in_splits, 'peer_rank': peer_rank,
                'call_thread': call_thread, 'call_ns': call_ns, 'kind': kind, 'dur_ns': dur_ns, 'at_ns': at_ns
            }
        )) AS members
    FROM (SELECT *, CASE WHEN line = '' THEN coalesce(kind, lower(collective)) END AS own_kind FROM query_table(parts))
    GROUP BY run, process_group, group_ranks, line, key, turn
),
placed AS (
    SELECT
        matches.*,
        CASE
            WHEN contains(line, '>') THEN from_json('[' || replace(line, '>', ',') || ']', '["INTEGER"]')
            WHEN line = 'any' THEN []::INTEGER[]
            WHEN matches.group_ranks IS NOT NULL THEN from_json(json_text(matches.group_ranks), '["INTEGER"]')
            WHEN matches.process_group IS NOT NULL THEN groups.ranks
            ELSE runs.ranks
        END AS of_group,
        runs.ranks AS of_run,
        runs.world_size
    FROM matches
    LEFT JOIN runs ON matches.run = runs.run
    LEFT JOIN groups
        ON matches.run = groups.run
        AND matches.process_group IS NOT DISTINCT FROM groups.process_group
        AND matches.group_ranks IS NOT DISTINCT FROM groups.group_ranks
),
counted AS (
    SELECT
        *,
        CASE
            WHEN line <> '' THEN 2
            WHEN group_size IS NOT NULL THEN group_size
            WHEN process_group IS NULL AND group_ranks IS NULL THEN world_size
            WHEN len(of_group) > 1 OR group_ranks IS NOT NULL THEN greatest(len(of_group), ranks)
        END AS expected_ranks,
        CASE
            WHEN ranks = len(of_group) AND list_has_all(of_group, present) THEN []
            ELSE list_filter(of_group, lambda r: NOT list_contains(present, r))
        END AS missing
    FROM placed
),
sized AS (
    SELECT
        *,
        list_filter(
            list_transform(members, lambda m: message_bytes(kind, m.in_bytes, m.out_bytes, expected_ranks)),
            lambda bytes: bytes IS NOT NULL
        ) AS sizes,
        list_intersect(missing, of_run) AS lacking,
        members[1].kernels IS NULL AS is_recorded
    FROM counted
)
SELECT
    row_number() OVER (ORDER BY run, members[1].at_ns, members[1].rank, members[1].event_id, process_group,
        kind, collective_seq, line) AS match,
    row_number() OVER (PARTITION BY run ORDER BY members[1].at_ns, members[1].rank, members[1].event_id, process_group,
        kind, collective_seq, line) AS number,
    run, process_group, collective, kind, step, collective_seq, element_type, ranks, expected_ranks, members, group_ranks,
    of_group,
    CASE
        WHEN ranks = 1 THEN 'none'
        WHEN is_numbered THEN 'seq'
        ELSE 'order'
    END AS matched_by,
    CASE WHEN len(missing) > 0 THEN array_to_string(missing, ',') END AS missing_ranks,
    nullif(
        concat_ws(
            ' ',
            CASE WHEN has_kinds THEN 'collective' END,
            CASE WHEN kind <> 'all_to_all' AND len(list_distinct(sizes)) > 1 THEN 'size' END,
            CASE WHEN has_types THEN 'dtype' END,
            CASE WHEN has_sizes OR ranks > expected_ranks THEN 'group' END,
            CASE WHEN line = 'any' THEN 'unmatched' END,
            CASE WHEN len(lacking) > 0 AND NOT is_recorded THEN 'missing_rank' END,
            CASE WHEN line <> 'any' AND expected_ranks > ranks + if(is_recorded, 0, len(lacking)) THEN 'not_loaded' END
        ),
        ''
    ) AS mismatch,
    CASE WHEN kind = 'all_to_all' THEN try_cast(round(list_avg(sizes)) AS BIGINT) ELSE list_max(sizes) END AS bytes,
    list_max(sizes) / nullif(list_avg(sizes), 0) AS imbalance
FROM sized;

-- collective_matches: the collectives in `events`: rows of matched_parts.
-- parameter events TABLE  `events`, or a part of it
-- parameter traces TABLE  `traces` of the same runs
-- column *  as in matched_parts
-- example: FROM collective_matches(events, traces)
CREATE OR REPLACE TEMP MACRO collective_matches(events, traces) AS TABLE
WITH own_parts AS MATERIALIZED (
    FROM collective_parts(events)
)
FROM matched_parts('own_parts', traces);

-- all_matches: the collectives of each run: those in `events`, or, if a rank has records of a profiler plugin of NCCL and no
-- collectives in `events`, those in the records of all its ranks.
-- parameter events TABLE  `events`, or a part of it
-- parameter traces TABLE  `traces` of the same runs
-- parameter recorded TABLE  `recorded_collectives` of the same runs
-- column *  as in matched_parts
-- example: FROM all_matches(events, traces, recorded_collectives)
CREATE OR REPLACE TEMP MACRO all_matches(events, traces, recorded) AS TABLE
WITH traced AS MATERIALIZED (
    FROM collective_parts(events)
),
noted AS MATERIALIZED (
    FROM recorded_parts(recorded)
),
untraced AS (
    SELECT DISTINCT noted.run
    FROM noted
    ANTI JOIN traced ON noted.run = traced.run AND noted.rank = traced.rank
),
all_parts AS MATERIALIZED (
    FROM traced
    ANTI JOIN untraced ON traced.run = untraced.run
    UNION ALL BY NAME
    FROM noted
    SEMI JOIN untraced ON noted.run = untraced.run
)
FROM matched_parts('all_parts', traces);

-- clock_offsets: how far the clock of each rank is ahead of that of the lowest rank of its run that communicates with it. All
-- ranks of a collective that waits for all of them leave it at the same time: the median difference of its ends is the offset.
-- Ranks that share no collective with that rank are reached through as few other ranks as possible.
-- parameter matches TABLE  rows of collective_matches
-- column run, rank  as in events
-- column reference_rank INTEGER  rank whose clock it is compared with
-- column offset_ns BIGINT  how far its clock is ahead
-- column error_ns BIGINT  its standard error; NULL for a single collective
-- column collectives BIGINT  number of collectives in the estimate; NULL for the reference
-- example: WITH matches AS (FROM collective_matches(events, traces)) FROM clock_offsets(matches)
CREATE OR REPLACE TEMP MACRO clock_offsets(matches) AS TABLE
WITH RECURSIVE ends AS (
    SELECT run, number, members[1].rank AS from_rank, members[1].end_ns AS from_ns, unnest(members) AS member
    FROM query_table(matches)
    WHERE
        ranks > 1
        -- A broadcast or a reduce lets some ranks leave before others have come, so their ends say nothing about clocks.
        AND kind IN ('all_reduce', 'all_gather', 'reduce_scatter', 'all_to_all', 'barrier')
        -- What does not fit was perhaps matched with another collective.
        AND NOT regexp_matches(coalesce(mismatch, ''), 'collective|size|dtype')
),
medians AS (
    SELECT
        run, from_rank, member.rank AS to_rank, member.end_ns - from_ns AS ahead_ns,
        quantile_disc(member.end_ns - from_ns, 0.5) OVER (PARTITION BY run, from_rank, member.rank) AS median_ns
    FROM ends
    WHERE member.rank > from_rank AND member.end_ns IS NOT NULL AND from_ns IS NOT NULL
),
pairs AS MATERIALIZED (
    SELECT
        run, from_rank, to_rank,
        any_value(median_ns) AS offset_ns,
        count(*) AS collectives,
        -- 1.4826 turns a median distance into a standard deviation, and the median has 1.2533 times the error of a mean.
        CASE WHEN count(*) > 1 THEN 1.858 * quantile_disc(abs(ahead_ns - median_ns), 0.5) / sqrt(count(*)) END AS error_ns
    FROM medians
    GROUP BY run, from_rank, to_rank
),
both_ways AS MATERIALIZED (
    FROM pairs
    UNION ALL
    SELECT run, to_rank, from_rank, -offset_ns, collectives, error_ns
    FROM pairs
),
firsts AS (
    SELECT run, min(from_rank) AS rank
    FROM pairs
    GROUP BY run
),
reached USING KEY (run, rank) AS (
    SELECT
        run, rank, rank AS reference_rank, 0::BIGINT AS offset_ns, 0::DOUBLE AS error_ns, NULL::BIGINT AS collectives
    FROM firsts
    UNION ALL
    SELECT
        run, rank, first(reference_rank ORDER BY error_ns NULLS LAST, from_rank),
        first(offset_ns ORDER BY error_ns NULLS LAST, from_rank),
        first(error_ns ORDER BY error_ns NULLS LAST, from_rank),
        first(collectives ORDER BY error_ns NULLS LAST, from_rank)
    FROM (
        SELECT
            step.run, step.to_rank AS rank, step.from_rank, origin.reference_rank, origin.offset_ns + step.offset_ns AS offset_ns,
            origin.error_ns + step.error_ns AS error_ns,
            least(origin.collectives, step.collectives) AS collectives
        FROM reached AS origin
        JOIN both_ways AS step ON origin.run = step.run AND origin.rank = step.from_rank
        ANTI JOIN recurring.reached AS done ON step.run = done.run AND step.to_rank = done.rank
    )
    GROUP BY run, rank
)
SELECT run, rank, reference_rank, offset_ns, round(error_ns)::BIGINT AS error_ns, collectives
FROM reached;

-- held_up: the time by which one or several late ranks hold up a collective: it begins when the last rank comes, and would begin
-- when the last of the others does. Everywhere, this is what a job gains if they come with the others.
-- parameter last_ns BIGINT  arrival of the last late rank
-- parameter others_ns BIGINT  arrival of the last of the other ranks
-- returns BIGINT  nanoseconds; 0 if another rank is the last
-- example: SELECT held_up(40::BIGINT, 30::BIGINT)
CREATE OR REPLACE TEMP MACRO held_up(last_ns, others_ns) AS greatest(last_ns - others_ns, 0);

-- lower_median: the median of values, of an even number of them the lower one of the two: one of the values.
-- parameter every BIGINT[]  the values
-- returns BIGINT  their median; NULL if there are none
-- example: SELECT lower_median([9, 1, 5, 7]::BIGINT[])
CREATE OR REPLACE TEMP MACRO lower_median(every) AS list_sort(every)[(len(every) + 1) // 2];

-- collective_waits: one row per rank of each collective, with when it came and how long it waited for the last rank. With
-- `corrected`, times are on the clock of the lowest rank, if all offsets are known. Between clocks with different origins nothing
-- is known otherwise. Values of the whole collective are in each row. The time by which a rank alone holds up the job,
-- `held_up_ns`, is held_up of it: what the job would gain if it came with the others. A collective begins when its last rank
-- comes, and without that rank when the second-to-last does: the last rank holds it up from then to its own arrival, not from the
-- first rank, which may just have been early, and no other rank does. If several are late, such as all ranks of a slow machine,
-- the job gains more once all of them come with the median rank: `behind_ns` is the part of that for each rank that comes later
-- than the median, from the rank before it to itself. For the last rank that equals held_up_ns. On a tie the lowest rank is late;
-- with an even number of ranks the earlier of the two in the middle is the median.
-- parameter matches TABLE  rows of collective_matches
-- parameter traces TABLE  `traces` of the same runs
-- parameter corrected BOOLEAN  subtract clock_offsets from the times
-- column run, process_group, collective_seq, rank  as in events
-- column match, number, collective, kind, step, element_type  as in collective_matches
-- column ranks, expected_ranks, matched_by, missing_ranks  as in collective_matches
-- column mismatch, bytes, imbalance  as in collective_matches
-- column kernels, call_thread, call_ns  as in collective_parts
-- column event_id BIGINT  event_id of the rank's first kernel
-- column start_ns BIGINT  first start on the rank, on its own clock
-- column dur_ns BIGINT  first start to last end on the rank
-- column is_corrected BOOLEAN  whether the offsets are subtracted
-- column came_ns BIGINT  its start on the clock of the lowest rank; NULL if clocks cannot be compared, like the next eleven
-- column wait_ns BIGINT  time from its start to that of the last rank
-- column transfer_ns BIGINT  rest of its duration, after the last rank came
-- column late_ns BIGINT  time from the start of the first rank to its own
-- column held_up_ns BIGINT  time by which it holds up the job, see above; 0 except for the last rank
-- column behind_ns BIGINT  how far it is behind the rank before it, see above; 0 for a rank that is not late
-- column before_rank INTEGER  rank that came before it, if it is late
-- column late_since_ns BIGINT  came_ns of that rank
-- column start_skew_ns BIGINT  last start minus first
-- column end_skew_ns BIGINT  last end minus first
-- column first_rank INTEGER  rank that came first, the lowest on a tie
-- column last_rank INTEGER  rank that came last, the lowest on a tie
-- column latency_ns BIGINT  shortest duration of a rank
-- column algorithm_gb_per_s DOUBLE  bytes over latency_ns
-- column bus_gb_per_s DOUBLE  the same for the slowest link
-- example: WITH matches AS (FROM collective_matches(events, traces)) FROM collective_waits(matches, traces, false)
CREATE OR REPLACE TEMP MACRO collective_waits(matches, traces, corrected) AS TABLE
WITH offsets AS (
    SELECT run, rank, offset_ns
    FROM clock_offsets(matches)
    WHERE corrected
),
members AS MATERIALIZED (
    SELECT
        members.match, member.rank AS rank, member.event_id AS event_id, member.kernels AS kernels, member.start_ns AS start_ns,
        member.end_ns AS end_ns, member.dur_ns AS dur_ns, member.call_thread AS call_thread, member.call_ns AS call_ns,
        traces.clock, offsets.offset_ns
    FROM (SELECT run, match, unnest(members) AS member FROM query_table(matches)) AS members
    LEFT JOIN offsets ON members.run = offsets.run AND members.member.rank = offsets.rank
    LEFT JOIN query_table(traces) AS traces ON members.run = traces.run AND members.member.rank = traces.rank
),
wholes AS (
    SELECT
        match,
        bool_and(offset_ns IS NOT NULL) AS is_corrected,
        count(*) > 1
        AND bool_and(start_ns IS NOT NULL)
        AND (
            bool_and(offset_ns IS NOT NULL)
            -- Clocks of one origin may be off a little, but they compare; those of different origins do not.
            OR min(clock) IS NOT DISTINCT FROM max(clock) AND min(clock) IS DISTINCT FROM 'unknown'
        ) AS is_comparable
    FROM members
    GROUP BY match
),
clocked AS MATERIALIZED (
    SELECT
        members.*, is_corrected, is_comparable,
        CASE WHEN is_comparable THEN start_ns - CASE WHEN is_corrected THEN offset_ns ELSE 0 END END AS came_ns,
        CASE WHEN is_comparable THEN end_ns - CASE WHEN is_corrected THEN offset_ns ELSE 0 END END AS left_ns
    FROM members
    JOIN wholes ON members.match = wholes.match
),
bounds AS (
    SELECT
        match,
        min(came_ns) AS first_ns,
        max(came_ns) AS last_ns,
        max(left_ns) - min(left_ns) AS end_skew_ns,
        arg_min(rank, {'ns': came_ns, 'rank': rank}) FILTER (is_comparable) AS first_rank,
        arg_min(rank, {'ns': -came_ns, 'rank': rank}) FILTER (is_comparable) AS last_rank,
        min(dur_ns) AS latency_ns
    FROM clocked
    GROUP BY match
),
arrivals AS (
    SELECT
        match, rank,
        lag(rank) OVER arrival AS before_rank,
        -- Half of the ranks may come before the median one, and are not late.
        CASE WHEN row_number() OVER arrival > (ranks + 1) // 2 THEN came_ns - lag(came_ns) OVER arrival ELSE 0 END AS behind_ns,
        CASE
            WHEN row_number() OVER arrival = ranks THEN lag(came_ns) OVER arrival
            ELSE max(came_ns) OVER (PARTITION BY match)
        END AS others_ns
    FROM (SELECT match, rank, came_ns, count(*) OVER (PARTITION BY match) AS ranks FROM clocked WHERE is_comparable)
    WINDOW arrival AS (PARTITION BY match ORDER BY came_ns, rank)
)
SELECT
    matches.* EXCLUDE (members, of_group, group_ranks),
    clocked.rank, clocked.event_id, clocked.kernels, clocked.start_ns, clocked.dur_ns,
    clocked.call_thread, clocked.call_ns, clocked.is_corrected,
    came_ns,
    last_ns - came_ns AS wait_ns,
    -- A rank may leave before the last one came, by its own clock: then nothing of its time was transfer.
    CASE WHEN came_ns IS NOT NULL THEN greatest(clocked.dur_ns - (last_ns - came_ns), 0) END AS transfer_ns,
    came_ns - first_ns AS late_ns,
    CASE WHEN came_ns IS NOT NULL THEN held_up(came_ns, arrivals.others_ns) END AS held_up_ns,
    arrivals.behind_ns,
    CASE WHEN arrivals.behind_ns > 0 THEN arrivals.before_rank END AS before_rank,
    CASE WHEN arrivals.behind_ns > 0 THEN came_ns - arrivals.behind_ns END AS late_since_ns,
    last_ns - first_ns AS start_skew_ns,
    end_skew_ns, first_rank, last_rank, latency_ns,
    bytes / nullif(latency_ns, 0) AS algorithm_gb_per_s,
    bytes / nullif(latency_ns, 0) * bus_factor(kind, expected_ranks) AS bus_gb_per_s
FROM clocked
JOIN bounds ON clocked.match = bounds.match
LEFT JOIN arrivals ON clocked.match = arrivals.match AND clocked.rank = arrivals.rank
JOIN query_table(matches) AS matches ON clocked.match = matches.match;

-- collective_transfers: how many bytes each rank sends to each other rank in each all_to_all and send for which this is known, as
-- in `collective_traffic`.
-- parameter matches TABLE  rows of collective_matches
-- column run, process_group, rank  as in events
-- column match, kind  as in collective_matches
-- column peer_rank INTEGER  rank that it sends to, including itself
-- column bytes HUGEINT  bytes that it sends, rounded down
-- example: WITH matches AS (FROM collective_matches(events, traces)) FROM collective_transfers(matches)
CREATE OR REPLACE TEMP MACRO collective_transfers(matches) AS TABLE
WITH members AS (
    SELECT
        match, run, process_group, of_group, member.rank AS rank, member.in_bytes::HUGEINT AS in_bytes, member.kind AS kind,
        member.peer_rank AS peer_rank,
        CASE
            WHEN member.in_splits IS NULL OR translate(member.in_splits, ' ', '') IN ('', '[]')
                THEN list_transform(of_group, lambda r: 1::BIGINT)
            ELSE from_json(json_text(member.in_splits), '["BIGINT"]')
        END AS splits
    FROM (SELECT *, unnest(members) AS member FROM query_table(matches))
    WHERE group_ranks IS NOT NULL OR member.peer_rank IS NOT NULL
),
sized AS (
    -- Splits of 0 mean that nothing was sent, whatever size the op records.
    SELECT * REPLACE (CASE WHEN list_sum(splits) = 0 THEN 0 ELSE in_bytes END AS in_bytes)
    FROM members
    WHERE
        kind = 'all_to_all' AND len(of_group) > 0 AND len(splits) = len(of_group)
        AND list_min(splits) >= 0 AND NOT list_contains(list_transform(splits, lambda size: size IS NULL), true)
),
parts AS (
    SELECT
        match, kind, run, rank, process_group, in_bytes, unnest(of_group) AS peer_rank, unnest(splits)::HUGEINT AS split,
        coalesce(nullif(list_sum(splits), 0), 1) AS splits
    FROM sized
    UNION ALL
    SELECT match, kind, run, rank, process_group, in_bytes, peer_rank, 1, 1
    FROM members
    WHERE kind = 'send' AND peer_rank IS NOT NULL
)
SELECT run, process_group, match, kind, rank, peer_rank, in_bytes * split // splits AS bytes
FROM parts
WHERE in_bytes IS NOT NULL;
