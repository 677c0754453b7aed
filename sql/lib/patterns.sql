-- What rules of neighbouring slices share: `shared_marked` of sql/lib/advice.sql has the slices, and here are the words for them.

-- is_marked: the slices that these rules begin with. Each rule takes its own of them.
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

-- shown_line: a line of source as a place to look at; NULL where none is known.
CREATE OR REPLACE TEMP MACRO shown_line(line) AS CASE WHEN line IS NOT NULL THEN shown(line) END;

-- details_of: slices of which there are few, with what `shared_marked` lacks.
CREATE OR REPLACE TEMP MACRO details_of(events, slices) AS TABLE
SELECT
    slices.*, slice.kind, slice.name, slice.preorder AS place, slice.input_dims, slice.input_strides, slice.input_types,
    coalesce(slice.python_stack, slice.stack) AS frames
FROM query_table(events) AS slice
JOIN few(slices) AS slices
    ON slice.run = slices.run AND slice.rank = slices.rank AND slice.event_id = slices.event_id;

-- marks_before: with each point the last mark before it on its thread. Both have `run rank thread place`, and what else is wanted
-- of them in `given`. No ASOF JOIN: where the planner takes the points for few, it compares each of them with all marks.
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

-- slices_between: of pairs of slices of one thread, what begins after one is over and before the other begins. `pairs` have
-- `pair run rank last_place next_place`.
CREATE OR REPLACE TEMP MACRO slices_between(events, pairs) AS TABLE
WITH places AS MATERIALIZED (
    SELECT pair, run, rank, unnest(range(last_place + 1, next_place)) AS preorder
    FROM query_table(pairs)
)
SELECT places.pair, slice.kind, slice.name, slice.input_dims
FROM query_table(events) AS slice
JOIN few(places) AS places
    ON slice.run = places.run AND slice.rank = places.rank AND slice.preorder = places.preorder;

-- nth_dims, nth_type: shape (or strides) and type of an input, counted from 0, where it and those before it are tensors or
-- nothing. No JSON functions, which fail on a text that is none.
CREATE OR REPLACE TEMP MACRO nth_dims(input_dims, n) AS
nullif(regexp_extract(input_dims, '^\[(?:\[[\d,]*\],){' || n || '}(\[[\d,]*\])', 1), '');

CREATE OR REPLACE TEMP MACRO nth_type(input_types, n) AS
nullif(regexp_extract(input_types, '^\[(?:"[^"]*",){' || n || '}"([^"]*)"', 1), '');

-- sizes_of: the numbers of a shape.
CREATE OR REPLACE TEMP MACRO sizes_of(dims) AS
try_cast(string_split(nullif(trim(dims, '[]'), ''), ',') AS BIGINT[]);

-- row_length: elements from one row of a matrix to the next; columns where the strides are not known. A single row has none.
CREATE OR REPLACE TEMP MACRO row_length(sizes, strides) AS
CASE
    WHEN sizes[-1] > 1 AND sizes[-2] > 1
    THEN CASE WHEN len(strides) = len(sizes) THEN greatest(strides[-1], strides[-2]) ELSE sizes[-1] END
END;
