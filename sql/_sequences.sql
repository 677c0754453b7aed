-- Kernels in the order in which they ran.

-- is_in_sequence: kernels; copies and fills of memory too, if they are asked for.
CREATE OR REPLACE TEMP MACRO is_in_sequence(kind, with_copies) AS
kind = 'kernel' OR (with_copies AND kind IN ('memcpy', 'memset'));

-- sequence_text: the names; of more than 64 the first 64, and how many more there are.
CREATE OR REPLACE TEMP MACRO sequence_text(names) AS
array_to_string(names[:64], ' -> ') || CASE WHEN len(names) > 64 THEN ' -> ... ' || (len(names) - 64) || ' more' ELSE '' END;

-- mean_delay: rounded half up, also below zero, where clocks disagree.
CREATE OR REPLACE TEMP MACRO mean_delay(total, delays) AS
(
    (2 * total + delays - ((2 * total + delays) % (2 * delays) + 2 * delays) % (2 * delays)) // nullif(2 * delays, 0)
)::BIGINT;
