-- execution_traces: what execution traces contain, and how much of them is linked to the trace beside them.
-- One row per (run, rank).
-- needs: nodes, tensors, flows, traces
-- run             VARCHAR        run that the execution trace belongs to
-- rank            INTEGER        rank within the run
-- schema          VARCHAR        version of its schema; NULL beside a trace
-- recorded        VARCHAR        when it was recorded; NULL beside a trace
-- nodes           BIGINT         nodes
-- operators       BIGINT         nodes that are calls of operators
-- linked          BIGINT         calls of operators that lead to an event
-- threads         BIGINT         threads
-- collectives     BIGINT         nodes that communicate in a process group
-- process_groups  BIGINT         process groups
-- tensors         BIGINT         tensors
-- tensor_bytes    BIGINT  bytes  size of the largest tensor; NULL if no size is known
-- tensor_dtype    VARCHAR        its data type
-- tensor_shape    VARCHAR        its size in each dimension
-- tensor_device   VARCHAR        its device
-- dependencies    BIGINT         arrows from what wrote to what reads
WITH calls AS (
    SELECT
        run,
        rank,
        count(*) AS nodes,
        count(op_schema) AS operators,
        count(event_id) FILTER (op_schema IS NOT NULL) AS linked,
        count(DISTINCT tid) AS threads,
        count(collective) FILTER (process_group IS NOT NULL) AS collectives,
        count(DISTINCT process_group) AS process_groups
    FROM nodes
    GROUP BY run, rank
),
sized AS (
    SELECT
        *,
        CASE
            WHEN elements >= 0 AND element_bytes >= 0 THEN try_cast(elements::HUGEINT * element_bytes AS BIGINT)
        END AS bytes
    FROM tensors
),
sizes AS (
    SELECT
        run,
        rank,
        count(DISTINCT tensor_id) AS tensors,
        max({'bytes': bytes, 'dtype': dtype, 'shape': shape, 'device': device}) FILTER (bytes IS NOT NULL) AS largest
    FROM sized
    GROUP BY run, rank
),
arrows AS (
    SELECT run, rank, count(*) AS dependencies
    FROM flows
    WHERE category = 'data' AND phase = 's'
    GROUP BY run, rank
)
SELECT
    run,
    rank,
    CASE WHEN traces.format = 'execution_trace' THEN json_extract_string(try_cast(metadata AS JSON), '$.schema') END AS schema,
    CASE WHEN traces.format = 'execution_trace' THEN json_extract_string(try_cast(metadata AS JSON), '$.time') END AS recorded,
    nodes,
    operators,
    linked,
    threads,
    collectives,
    process_groups,
    coalesce(tensors, 0) AS tensors,
    largest.bytes AS tensor_bytes,
    largest.dtype AS tensor_dtype,
    largest.shape AS tensor_shape,
    largest.device AS tensor_device,
    coalesce(dependencies, 0) AS dependencies
FROM calls
LEFT JOIN traces USING (run, rank)
LEFT JOIN sizes USING (run, rank)
LEFT JOIN arrows USING (run, rank)
ORDER BY run, rank
