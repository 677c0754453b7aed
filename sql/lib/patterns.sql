-- What rules about adjacent slices share: `shared_marked` in sql/lib/advice.sql has the slices; these macros describe them.

-- is_marked: the slices that these rules begin with. Each rule takes its own subset.
-- parameter kind VARCHAR  kind of a slice
-- parameter name VARCHAR  its name
-- returns BOOLEAN  whether it is
-- example: SELECT is_marked('host_op', 'aten::copy_')
CREATE OR REPLACE TEMP MACRO is_marked(kind, name) AS
CASE kind
    WHEN 'host_op' THEN
        name IN (
            'aten::to', 'aten::_to_copy', 'aten::copy_', 'aten::fill_', 'aten::zero_', 'aten::normal_', 'aten::uniform_',
            'aten::random_', 'aten::bernoulli_', 'aten::exponential_', 'aten::select', 'aten::zeros', 'aten::zeros_like',
            'aten::new_zeros', 'aten::add_', 'aten::mul_', 'aten::addcmul_', 'aten::addcdiv_', 'aten::lerp_', 'aten::conv1d',
            'aten::conv2d', 'aten::conv3d', 'aten::conv_transpose1d', 'aten::conv_transpose2d', 'aten::conv_transpose3d',
            'aten::batch_norm'
        )
        OR regexp_matches(name, '^aten::_(foreach|fused)_|^Optimizer\.|^enumerate\(DataLoader\)#')
    WHEN 'annotation' THEN regexp_matches(name, '^Optimizer\.|^enumerate\(DataLoader\)#')
    WHEN 'python' THEN regexp_matches(
        name,
        ': zero_grad$|_single_tensor_[a-z]+$'
        '|[/\\]dataloader\.py\(\d+\): (__iter__|_get_iterator|check_worker_number_rationality)$'
    )
    ELSE false
END;

-- shown_line: a source line as a place to look at; NULL if none is known.
-- parameter line VARCHAR  a frame of a stack
-- returns VARCHAR  the text
-- example: SELECT shown_line('a.py(3): f')
CREATE OR REPLACE TEMP MACRO shown_line(line) AS CASE WHEN line IS NOT NULL THEN shown(line) END;

-- details_of: a few slices, with the columns that `shared_marked` lacks.
-- parameter events TABLE  `events`, or a part of it
-- parameter slices TABLE  rows with `run`, `rank` and `event_id`, and any other columns; few of them
-- column *  as in slices
-- column kind, name, input_dims, input_strides, input_types  as in events
-- column place BIGINT  preorder of the slice
-- column frames VARCHAR  its stack: `python_stack`, else `stack`
-- example: WITH slices AS (SELECT run, rank, event_id FROM events) FROM details_of(events, slices)
CREATE OR REPLACE TEMP MACRO details_of(events, slices) AS TABLE
SELECT
    slices.*, slice.kind, slice.name, slice.preorder AS place, slice.input_dims, slice.input_strides, slice.input_types,
    coalesce(slice.python_stack, slice.stack) AS frames
FROM query_table(events) AS slice
JOIN few(slices) AS slices
    ON slice.run = slices.run AND slice.rank = slices.rank AND slice.event_id = slices.event_id;

-- marks_before: each point with the last mark before it on its thread. Both have `run rank thread place`, and any other value in
-- `given`. Not an ASOF JOIN: if the planner expects few points, it compares each of them with all marks.
-- parameter points TABLE  rows with `run`, `rank`, `thread`, `place` and `given`
-- parameter marks TABLE  rows with the same columns
-- column run, rank, thread, place  as in points
-- column point BIGINT  `given` of the point
-- column mark_place BIGINT  place of the mark
-- column mark BIGINT  `given` of the mark
-- example: WITH points AS (SELECT run, rank, thread, preorder AS place, event_id AS given FROM events WHERE preorder IS NOT
-- NULL) FROM marks_before(points, points)
CREATE OR REPLACE TEMP MACRO marks_before(points, marks) AS TABLE
SELECT run, rank, thread, place, point, mark_place, mark
FROM (
    SELECT
        run, rank, thread, place, point,
        max(mark_place) OVER in_order AS mark_place,
        last_value(mark IGNORE NULLS) OVER in_order AS mark
    FROM (
        SELECT run, rank, thread, place, given AS point FROM query_table(points)
        UNION ALL BY NAME
        SELECT run, rank, thread, place, place AS mark_place, given AS mark FROM query_table(marks)
    )
    WINDOW in_order AS (PARTITION BY run, rank, thread ORDER BY place ROWS UNBOUNDED PRECEDING)
)
WHERE point IS NOT NULL AND mark IS NOT NULL;

-- slices_between: for pairs of slices of one thread, what begins after one is over and before the other begins. `pairs` have
-- `pair run rank last_place next_place`.
-- parameter events TABLE  `events`, or a part of it
-- parameter pairs TABLE  rows with `pair`, `run`, `rank`, `last_place` and `next_place`
-- column pair  as in pairs
-- column kind, name, input_dims  as in events
-- example: WITH pairs AS (SELECT event_id AS pair, run, rank, preorder AS last_place, preorder + 2 AS next_place FROM events
-- WHERE preorder IS NOT NULL) FROM slices_between(events, pairs)
CREATE OR REPLACE TEMP MACRO slices_between(events, pairs) AS TABLE
WITH places AS MATERIALIZED (
    SELECT pair, run, rank, unnest(range(last_place + 1, next_place)) AS preorder
    FROM query_table(pairs)
)
SELECT places.pair, slice.kind, slice.name, slice.input_dims
FROM query_table(events) AS slice
JOIN few(places) AS places
    ON slice.run = places.run AND slice.rank = places.rank AND slice.preorder = places.preorder;

-- nth_dims: shape (or strides) of an input, if it and those before it are tensors or empty. It avoids JSON functions, which fail
-- on text that is not JSON.
-- parameter input_dims VARCHAR  `input_dims` or `input_strides` of `events`
-- parameter n INTEGER  number of the input, from 0
-- returns VARCHAR  its shape; NULL if not known
-- example: SELECT nth_dims('[[2,3],[4]]', 1)
CREATE OR REPLACE TEMP MACRO nth_dims(input_dims, n) AS
nullif(regexp_extract(input_dims, '^\[(?:\[[\d,]*\],){' || n || '}(\[[\d,]*\])', 1), '');

-- nth_type: type of an input, if it and those before it are tensors or empty.
-- parameter input_types VARCHAR  `input_types` of `events`
-- parameter n INTEGER  number of the input, from 0
-- returns VARCHAR  its type; NULL if not known
-- example: SELECT nth_type('["float"]', 0)
CREATE OR REPLACE TEMP MACRO nth_type(input_types, n) AS
nullif(regexp_extract(input_types, '^\[(?:"[^"]*",){' || n || '}"([^"]*)"', 1), '');

-- sizes_of: the numbers of a shape.
-- parameter dims VARCHAR  result of nth_dims
-- returns BIGINT[]  the numbers; NULL if there are none
-- example: SELECT sizes_of('[2,3]')
CREATE OR REPLACE TEMP MACRO sizes_of(dims) AS
try_cast(string_split(nullif(trim(dims, '[]'), ''), ',') AS BIGINT[]);

-- row_length: elements from one row of a matrix to the next; the number of columns without strides. NULL for a single row.
-- parameter sizes BIGINT[]  shape of the matrix
-- parameter strides BIGINT[]  its strides
-- returns BIGINT  elements; NULL for a single row
-- example: SELECT row_length([2, 3]::BIGINT[], [3, 1]::BIGINT[])
CREATE OR REPLACE TEMP MACRO row_length(sizes, strides) AS
CASE
    WHEN sizes[-1] > 1 AND sizes[-2] > 1
    THEN CASE WHEN len(strides) = len(sizes) THEN greatest(strides[-1], strides[-2]) ELSE sizes[-1] END
END;
