-- What the rules of `advice` share: words, and steps of work that several of them start from.

-- shown: a name of the source as a part of a sentence: without characters that a screen acts on, and not longer than 80.
CREATE OR REPLACE TEMP MACRO shown(name) AS
CASE
    WHEN length(name) > 80
    THEN regexp_replace(name[:79], '[\p{C}\x{2028}\x{2029}]', '?', 'g') || '…'
    ELSE coalesce(nullif(regexp_replace(name, '[\p{C}\x{2028}\x{2029}]', '?', 'g'), ''), '(no name)')
END;

-- duration_text: a duration for a sentence, as `12.3 ms`.
CREATE OR REPLACE TEMP MACRO duration_text(ns) AS
CASE
    WHEN abs(ns) >= 999950000 THEN format('{:.2f} s', ns / 1e9)
    WHEN abs(ns) >= 999500 THEN format('{:.1f} ms', ns / 1e6)
    WHEN abs(ns) >= 9950 THEN format('{:.0f} us', ns / 1e3)
    ELSE format('{:.1f} us', ns / 1e3)
END;

-- bytes_text: bytes for a sentence, in steps of 1024.
CREATE OR REPLACE TEMP MACRO bytes_text(bytes) AS
CASE
    WHEN abs(bytes) >= 1073741824 THEN format('{:.2f} GiB', bytes / 1073741824)
    WHEN abs(bytes) >= 1048576 THEN format('{:.1f} MiB', bytes / 1048576)
    WHEN abs(bytes) >= 1024 THEN format('{:.1f} KiB', bytes / 1024)
    ELSE format('{} B', bytes::BIGINT)
END;

-- percent_text: a share for a sentence, as `31 %`.
CREATE OR REPLACE TEMP MACRO percent_text(share) AS
CASE WHEN abs(share) >= 0.0995 OR share = 0 THEN format('{:.0f} %', 100 * share) ELSE format('{:.1f} %', 100 * share) END;

-- part_text: a part of the time that is looked at, as `12.3 ms of 40.1 ms per step (31 %)`; without steps, of the whole trace.
CREATE OR REPLACE TEMP MACRO part_text(part_ns, window_ns, steps) AS
duration_text(part_ns / greatest(steps, 1)) || ' of ' || duration_text(window_ns / greatest(steps, 1))
|| CASE WHEN steps > 0 THEN ' per step (' ELSE ' (' END || percent_text(part_ns / window_ns) || ')';

-- severity_of: how much a gain matters: a fifth of the time that is looked at is high, a twentieth medium.
CREATE OR REPLACE TEMP MACRO severity_of(gain_ns, window_ns) AS
CASE WHEN gain_ns >= 0.2 * window_ns THEN 'high' WHEN gain_ns >= 0.05 * window_ns THEN 'medium' ELSE 'low' END;

-- The macros below are done once for all rules: a rule reads what they give by their bare names, `FROM shared_windows`. Their
-- parameters are tables, or shared ones before them.

-- shared_windows: the time that is looked at, one row per (run, rank) with events: the profiler's steps that ended, or where
-- there are none (`steps` is 0) all from the first start to the last end, without the profiler's own span.
CREATE OR REPLACE TEMP MACRO shared_windows(events) AS TABLE
WITH marks AS (
    SELECT run, rank, count(*) AS steps, sum(dur_ns) AS window_ns
    FROM step_marks(events)
    WHERE dur_ns > 0
    GROUP BY run, rank
),
spans AS (
    SELECT run, rank, min(start_ns) AS start_ns, max(start_ns + coalesce(dur_ns, 0)) AS end_ns
    FROM query_table(events)
    WHERE kind <> 'profiler'
    GROUP BY run, rank
)
SELECT
    spans.*,
    coalesce(marks.steps, 0) AS steps,
    coalesce(marks.window_ns, spans.end_ns::HUGEINT - spans.start_ns)::DOUBLE AS window_ns
FROM spans
LEFT JOIN marks ON spans.run = marks.run AND spans.rank = marks.rank;
