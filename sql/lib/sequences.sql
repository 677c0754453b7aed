-- Kernels in the order in which they ran.

-- replay_id: what tells the replays of one captured op apart.
-- parameter attributed_by VARCHAR  how the op of the work was found
-- parameter launch_id BIGINT  `event_id` of the call that launched the work
-- returns BIGINT  the call; NULL if the op itself ran
-- example: SELECT replay_id('graph_name', 7::BIGINT)
CREATE OR REPLACE TEMP MACRO replay_id(attributed_by, launch_id) AS
CASE WHEN attributed_by NOT IN ('launch', 'source') THEN launch_id END;

-- is_in_sequence: kernels, and memory copies and fills on request.
-- parameter kind VARCHAR  kind of a slice
-- parameter with_copies BOOLEAN  include copies and fills
-- returns BOOLEAN  whether it is
-- example: SELECT is_in_sequence('memcpy', true)
CREATE OR REPLACE TEMP MACRO is_in_sequence(kind, with_copies) AS
kind = 'kernel' OR (with_copies AND kind IN ('memcpy', 'memset'));

-- kernel_names: every name, with a number: lists of numbers are compared, not lists of long names.
-- parameter events TABLE  `events`, or a part of it
-- parameter with_copies BOOLEAN  include copies and fills
-- column name VARCHAR  a name, `?` for NULL
-- column code BIGINT  its number
-- example: FROM kernel_names(events, false)
CREATE OR REPLACE TEMP MACRO kernel_names(events, with_copies) AS TABLE
SELECT name, row_number() OVER () AS code
FROM (SELECT DISTINCT coalesce(name, '?') AS name FROM query_table(events) WHERE is_in_sequence(kind, with_copies));

-- sequence_text: the names of a sequence of numbers; at most the first 64, and how many more there are.
-- parameter codes BIGINT[]  numbers of names, as in kernel_names
-- parameter names VARCHAR[]  the name of each number
-- returns VARCHAR  the text
-- example: SELECT sequence_text([1, 2], ['a', 'b'])
CREATE OR REPLACE TEMP MACRO sequence_text(codes, names) AS
array_to_string(list_select(names, codes[:64]), ' -> ')
|| CASE WHEN len(codes) > 64 THEN ' -> ... ' || (len(codes) - 64) || ' more' ELSE '' END;

-- mean_delay: a mean, rounded half up; negative means, from clocks that disagree, too.
-- parameter total HUGEINT  sum of the delays
-- parameter delays BIGINT  number of them
-- returns BIGINT  nanoseconds; NULL without delays
-- example: SELECT mean_delay(5::HUGEINT, 2)
CREATE OR REPLACE TEMP MACRO mean_delay(total, delays) AS
(
    (2 * total + delays - ((2 * total + delays) % (2 * delays) + 2 * delays) % (2 * delays)) // nullif(2 * delays, 0)
)::BIGINT;
