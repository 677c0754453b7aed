-- tensor_traffic: how many bytes ops of an execution trace read and write, by name.
-- One row per (run, rank, name, collective, process_group); by run and rank, those with the most bytes first.
-- Counts calls that write or communicate and contain no other call that writes: outer calls do not count the same bytes again.
-- Views and calls that only look at sizes move no bytes. A tensor counts once per call, with its whole size, however often the
-- call takes it; memory that is only allocated (aten::empty) does not count as written. Caches are not modelled, so a device may
-- move fewer bytes.
-- needs: nodes, tensors
-- recorded: nodes
-- no rows: no op of the execution trace writes or communicates a tensor
-- divides by: rank
-- main columns: name, read_bytes, written_bytes, allocated_bytes, calls, largest_bytes, largest_shape, largest_dtype, collective
-- run                       VARCHAR        run that the execution trace belongs to
-- rank                      INTEGER        rank within the run
-- name                      VARCHAR        name of the calls
-- collective                VARCHAR        collective operation: allreduce, ...; NULL if they do not communicate
-- process_group             VARCHAR        process group that they communicate in; NULL if there is none
-- process_group_description VARCHAR        purpose of the group; NULL if there is none
-- calls                     BIGINT         number of calls
-- read_bytes                BIGINT  bytes  sum of bytes they read; NULL if no size is known
-- written_bytes             BIGINT  bytes  sum of bytes they write; NULL if they write nothing, or no size is known
-- allocated_bytes           BIGINT  bytes  sum of bytes they only allocate; NULL if they allocate nothing, or no size is known
-- largest_bytes             BIGINT  bytes  size of the largest tensor; NULL if no size is known
-- largest_dtype             VARCHAR        data type of the largest tensor, as the source names it
-- largest_shape             VARCHAR        size of the largest tensor in each dimension, as a JSON list
-- largest_node_id           BIGINT         first node that has the largest tensor
WITH used AS (
    SELECT
        run,
        rank,
        node_id,
        dtype,
        shape,
        CASE WHEN elements >= 0 AND element_bytes >= 0 THEN elements::HUGEINT * element_bytes END AS bytes,
        bool_or(is_read) AS is_read,
        bool_or(is_written) AS is_written
    FROM tensors
    WHERE node_id IS NOT NULL
    GROUP BY
        run, rank, node_id, dtype, shape, bytes, tensor_id, storage_id, offset_elements, strides,
        CASE WHEN tensor_id IS NULL THEN (direction, position, list_position) END
),
calls AS MATERIALIZED (
    SELECT
        nodes.run,
        nodes.rank,
        nodes.node_id,
        nodes.parent_id,
        nodes.name,
        nodes.collective,
        nodes.process_group,
        nodes.process_group_description,
        coalesce(nodes.name SIMILAR TO 'aten::(new_)?empty(_.*)?|aten::(resize|set)_', false) AS is_allocation,
        bool_or(is_written) AS writes,
        sum(bytes) FILTER (is_read) AS read_bytes,
        sum(bytes) FILTER (is_written) AS written_bytes,
        max({'bytes': bytes, 'dtype': dtype, 'shape': shape}) FILTER (bytes IS NOT NULL) AS largest
    FROM nodes
    JOIN used ON nodes.run = used.run AND nodes.rank = used.rank AND nodes.node_id = used.node_id
    GROUP BY ALL
),
around AS (
    WITH RECURSIVE above AS (
        SELECT run, rank, parent_id FROM calls WHERE writes AND NOT is_allocation
        UNION
        SELECT nodes.run, nodes.rank, nodes.parent_id
        FROM above
        JOIN nodes ON above.run = nodes.run AND above.rank = nodes.rank AND above.parent_id = nodes.node_id
    )
    FROM above
),
names AS (
    SELECT
        run,
        rank,
        name,
        collective,
        process_group,
        any_value(process_group_description) AS process_group_description,
        count(*) AS calls,
        try_cast(sum(read_bytes) FILTER (NOT is_allocation) AS BIGINT) AS read_bytes,
        try_cast(sum(written_bytes) FILTER (NOT is_allocation) AS BIGINT) AS written_bytes,
        try_cast(sum(written_bytes) FILTER (is_allocation) AS BIGINT) AS allocated_bytes,
        max({'bytes': largest.bytes, 'before': -node_id, 'dtype': largest.dtype, 'shape': largest.shape})
            FILTER (largest IS NOT NULL) AS largest
    FROM calls
    WHERE
        (writes OR collective IS NOT NULL)
        AND NOT EXISTS (
            FROM around
            WHERE around.run = calls.run AND around.rank = calls.rank AND around.parent_id = calls.node_id
        )
    GROUP BY run, rank, name, collective, process_group
)
SELECT
    * EXCLUDE (largest),
    try_cast(largest.bytes AS BIGINT) AS largest_bytes,
    largest.dtype AS largest_dtype,
    largest.shape AS largest_shape,
    -largest.before AS largest_node_id
FROM names
ORDER BY run, rank, coalesce(read_bytes, 0)::HUGEINT + coalesce(written_bytes, 0) DESC, coalesce(allocated_bytes, 0) DESC,
    name NULLS LAST, collective NULLS LAST, process_group NULLS LAST
