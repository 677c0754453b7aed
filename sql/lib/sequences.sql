-- Kernels in the order in which they ran.

-- is_in_sequence: kernels; copies and fills of memory too, if they are asked for.
CREATE OR REPLACE TEMP MACRO is_in_sequence(kind, with_copies) AS
kind = 'kernel' OR (with_copies AND kind IN ('memcpy', 'memset'));

-- kernel_names: every name, with a number: lists of numbers are compared, not lists of long names.
CREATE OR REPLACE TEMP MACRO kernel_names(events, with_copies) AS TABLE
SELECT name, row_number() OVER () AS code
FROM (SELECT DISTINCT coalesce(name, '?') AS name FROM query_table(events) WHERE is_in_sequence(kind, with_copies));

-- sequence_text: the names of a sequence of numbers; of more than 64 the first 64, and how many more there are.
CREATE OR REPLACE TEMP MACRO sequence_text(codes, names) AS
array_to_string(list_select(names, codes[:64]), ' -> ')
|| CASE WHEN len(codes) > 64 THEN ' -> ... ' || (len(codes) - 64) || ' more' ELSE '' END;

-- mean_delay: rounded half up, also below zero, where clocks disagree.
CREATE OR REPLACE TEMP MACRO mean_delay(total, delays) AS
(
    (2 * total + delays - ((2 * total + delays) % (2 * delays) + 2 * delays) % (2 * delays)) // nullif(2 * delays, 0)
)::BIGINT;
