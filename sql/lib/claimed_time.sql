-- The time that each finding of advice claims, so that no two findings claim the same. In a bare shell read `lanes.sql`,
-- `devices.sql`, `busy.sql` and `advice.sql` of `sql/lib` first.

-- span: a time of a rank, for the `claimed` of a rule.
-- parameter start_ns BIGINT  its start
-- parameter end_ns BIGINT  its end
-- returns STRUCT  the span; its `rank` is NULL, which is that of the finding
-- example: SELECT span(5::BIGINT, 20::BIGINT)
CREATE OR REPLACE TEMP MACRO span(start_ns, end_ns) AS
{'rank': NULL::INTEGER, 'start_ns': start_ns::BIGINT, 'end_ns': end_ns::BIGINT};

-- claimed_part: where the text of a finding has the time that it claims, in the words of part_text.
-- returns VARCHAR  a character that no name in a text has
-- example: SELECT 'Compiling takes ' || claimed_part()
CREATE OR REPLACE TEMP MACRO claimed_part() AS chr(26);

-- gain_within: the smaller of a gain and the time that is looked at.
-- parameter gain_ns DOUBLE  a gain
-- parameter window_ns DOUBLE  the time; NULL for no limit
-- returns DOUBLE  the smaller one; NULL where the gain is not known
-- example: SELECT gain_within(5::DOUBLE, 3::DOUBLE)
CREATE OR REPLACE TEMP MACRO gain_within(gain_ns, window_ns) AS CASE WHEN gain_ns > window_ns THEN window_ns ELSE gain_ns END;

-- claimed_spans: the times that findings claim, one row per finding and span: the spans of `claimed`, or the slices in
-- `changed_events`. A finding without `claims` has no rows.
-- parameter found TABLE  rows of rules, with a number `finding`
-- parameter events TABLE  `events`, or a part of it
-- column finding BIGINT  number of the finding
-- column run, rank  as in events
-- column start_ns BIGINT  start of the span
-- column end_ns BIGINT  its end
-- example: WITH found AS (SELECT event_id AS finding, run, rank, 'idle' AS claims, NULL::BIGINT[] AS changed_events,
-- [span(start_ns, start_ns + dur_ns)] AS claimed FROM events) FROM claimed_spans(found, events)
CREATE OR REPLACE TEMP MACRO claimed_spans(found, events) AS TABLE
WITH given AS (
    SELECT finding, run, rank, unnest(claimed) AS span
    FROM query_table(found)
    WHERE claims IS NOT NULL
),
changed AS (
    SELECT finding, run, rank, unnest(changed_events) AS event_id
    FROM query_table(found)
    WHERE claims IS NOT NULL AND claimed IS NULL
)
SELECT finding, run, coalesce(span.rank, rank) AS rank, span.start_ns AS start_ns, span.end_ns AS end_ns
FROM given
UNION ALL
SELECT finding, slice.run, slice.rank, slice.start_ns, slice.start_ns + slice.dur_ns
FROM query_table(events) AS slice
JOIN few('changed') AS changed
    ON slice.run = changed.run AND slice.rank = changed.rank AND slice.event_id = changed.event_id;

-- unclaimed_shares: the share of each finding's time that no finding of an earlier rule in `claim_order` claims. Findings of one
-- rule never share time. A claim of `idle` covers the moments at which no device of the rank is busy, `exposed` those at which
-- none computes, `all` every moment. Findings of a rank that come after 120 others keep all of their time.
-- parameter found TABLE  rows of rules, with a number `finding`
-- parameter events TABLE  `events`, or a part of it
-- column finding BIGINT  number of a finding that shares time with others
-- column share DOUBLE  share of its time that no earlier finding claims
-- example: WITH found AS (SELECT event_id AS finding, run, rank, 'idle' AS claims, event_id AS claim_order, 1 AS claimed_ns,
-- [span(start_ns, start_ns + dur_ns)] AS claimed, NULL::BIGINT[] AS changed_events FROM events)
-- FROM unclaimed_shares(found, events)
CREATE OR REPLACE TEMP MACRO unclaimed_shares(found, events) AS TABLE
WITH spans AS MATERIALIZED (
    FROM claimed_spans(found, events)
    WHERE start_ns < end_ns
),
-- Each finding of a rank has a bit; the two below are of what its devices do.
claimants AS MATERIALIZED (
    SELECT
        spans.run, spans.rank, spans.finding, kinds.claims,
        1 + row_number() OVER of_rank AS place, 1 + rank() OVER of_rules AS first_place
    FROM (SELECT DISTINCT run, rank, finding FROM spans) AS spans
    JOIN query_table(found) AS kinds ON spans.finding = kinds.finding
    WINDOW
        of_rank AS (
            PARTITION BY spans.run, spans.rank ORDER BY kinds.claim_order, kinds.claimed_ns DESC NULLS LAST, spans.finding
        ),
        of_rules AS (PARTITION BY spans.run, spans.rank ORDER BY kinds.claim_order)
    QUALIFY count(*) OVER (PARTITION BY spans.run, spans.rank) > 1 AND place < 122
),
ranks AS MATERIALIZED (
    SELECT
        run, rank, row_number() OVER () AS number,
        sum(CASE WHEN claims = 'idle' THEN 1::HUGEINT << place::INTEGER ELSE 0 END)::HUGEINT AS idle_bits,
        sum(CASE WHEN claims = 'exposed' THEN 1::HUGEINT << place::INTEGER ELSE 0 END)::HUGEINT AS exposed_bits
    FROM claimants
    GROUP BY run, rank
),
timed AS (
    SELECT ranks.number * 128 + claimants.place AS lane, 0 AS event_id, spans.start_ns, spans.end_ns
    FROM spans
    JOIN few('claimants') AS claimants
        ON spans.run = claimants.run AND spans.rank = claimants.rank AND spans.finding = claimants.finding
    JOIN few('ranks') AS ranks ON spans.run = ranks.run AND spans.rank = ranks.rank
    UNION ALL
    SELECT ranks.number * 128 + unnest(CASE WHEN class = 'compute' THEN [0, 1] ELSE [0] END), 0, start_ns, end_ns
    FROM device_work(events) AS work
    JOIN few('ranks') AS ranks ON work.run = ranks.run AND work.rank = ranks.rank
),
-- Of each lane without overlaps, so that a sum has a bit once.
turns AS (
    SELECT
        lane // 128 AS number, unnest([end_ns - added_ns, end_ns]) AS at_ns,
        unnest([1, -1]) * (1::HUGEINT << (lane % 128)::INTEGER) AS change
    FROM busy_order('timed')
    WHERE added_ns > 0
),
moments AS (
    SELECT
        number, lead(at_ns) OVER (PARTITION BY number ORDER BY at_ns) - at_ns AS length_ns,
        (sum(change) OVER (PARTITION BY number ORDER BY at_ns))::HUGEINT AS bits
    FROM (SELECT number, at_ns, sum(change)::HUGEINT AS change FROM turns GROUP BY number, at_ns)
),
claims AS MATERIALIZED (
    SELECT
        moments.number,
        CASE
            WHEN bits & 2 > 0 THEN (bits | ranks.idle_bits | ranks.exposed_bits | 3) - (ranks.idle_bits | ranks.exposed_bits | 3)
            WHEN bits & 1 > 0 THEN (bits | ranks.idle_bits | 3) - (ranks.idle_bits | 3)
            ELSE bits
        END AS bits,
        sum(length_ns) AS length_ns
    FROM moments
    JOIN few('ranks') AS ranks ON moments.number = ranks.number
    WHERE bits > 3
    GROUP BY ALL
)
SELECT
    claimants.finding,
    coalesce(sum(length_ns) FILTER (claims.bits & (before_bits - 1) = 0), 0) / sum(length_ns) AS share
FROM (SELECT *, 1::HUGEINT << first_place::INTEGER AS before_bits FROM claimants) AS claimants
JOIN ranks ON claimants.run = ranks.run AND claimants.rank = ranks.rank
JOIN claims ON ranks.number = claims.number AND claims.bits & (1::HUGEINT << claimants.place::INTEGER) > 0
GROUP BY claimants.finding
HAVING share < 1;

-- near_rule_text: how close a rule without a finding came to one.
-- parameter rule VARCHAR  its name
-- parameter part_ns DOUBLE  the time that it counts
-- parameter least_ns DOUBLE  the least time for a finding
-- parameter of_ns DOUBLE  what both are a part of
-- returns VARCHAR  the text
-- example: SELECT near_rule_text('launch_bound', 4, 10, 100)
CREATE OR REPLACE TEMP MACRO near_rule_text(rule, part_ns, least_ns, of_ns) AS
rule || ' counts ' || percent_text(part_ns / of_ns) || ' and is a finding from ' || percent_text(least_ns / of_ns);

-- settled_findings: the findings, without the time that earlier ones in `claim_order` claim, so that no two claim the same time
-- of a rank. A finding with less than `least_ns` or nothing left is dropped; `gain_basis` of those with `closest` says which of
-- these rules came closest. Without the columns `claimed`, `claimed_of_ns`, `least_ns` and `closest`.
-- parameter found TABLE  rows of rules
-- parameter events TABLE  `events`, or a part of it
-- parameter shared_windows TABLE  rows of shared_windows
-- column claimed_ns DOUBLE  what is left of its time
-- column steps BIGINT  number of steps that the rank was examined in; 0 if there are none
-- column *  as in found
-- example: WITH windows AS (FROM shared_windows(events, profiler_steps)), found AS (SELECT run, rank, 'low' AS severity, name AS
-- finding, name AS rule, [name] AS closest, '' AS gain_basis,
-- 0::BIGINT AS estimated_gain_ns, 0::BIGINT AS own_gain_ns, 'idle' AS claims, event_id AS claim_order, 1 AS claimed_ns,
-- 9 AS claimed_of_ns, 0 AS least_ns, [span(start_ns, start_ns + dur_ns)] AS claimed, NULL::BIGINT[] AS changed_events FROM
-- events) FROM settled_findings(found, events, windows)
CREATE OR REPLACE TEMP MACRO settled_findings(found, events, shared_windows) AS TABLE
WITH numbered AS MATERIALIZED (
    SELECT * EXCLUDE (finding), finding AS words, row_number() OVER () AS finding
    FROM query_table(found)
),
enough AS MATERIALIZED (
    FROM numbered
    WHERE coalesce(claimed_ns >= least_ns, true)
),
shares AS MATERIALIZED (
    FROM unclaimed_shares('enough', events)
),
settled AS MATERIALIZED (
    SELECT
        numbered.* EXCLUDE (claimed), windows.window_ns, coalesce(windows.steps, 0) AS steps, coalesce(shares.share, 1) AS share,
        claimed_ns * coalesce(shares.share, 1) AS left_ns,
        coalesce(left_ns >= least_ns, true) AND coalesce(shares.share, 1) > 0 AS is_finding
    FROM numbered
    LEFT JOIN shares ON numbered.finding = shares.finding
    LEFT JOIN query_table(shared_windows) AS windows ON numbered.run = windows.run AND numbered.rank = windows.rank
),
nearest AS (
    SELECT
        rest.finding,
        arg_max(
            near_rule_text(near.rule, near.left_ns, near.least_ns, coalesce(near.claimed_of_ns, near.window_ns)),
            {'part': near.left_ns / near.least_ns, 'rule': near.rule}
        ) AS near_words
    FROM (SELECT finding, run, rank, unnest(closest) AS rule FROM settled WHERE is_finding) AS rest
    JOIN settled AS near ON rest.run = near.run AND rest.rank = near.rank AND rest.rule = near.rule
    WHERE NOT near.is_finding AND near.left_ns >= 0.1 * near.least_ns
    GROUP BY rest.finding
)
SELECT
    settled.* EXCLUDE (words, finding, claimed_of_ns, least_ns, window_ns, share, left_ns, is_finding, closest) REPLACE (
        left_ns AS claimed_ns,
        CASE
            WHEN share = 1 OR severity = 'low' THEN severity
            WHEN severity_of(left_ns, window_ns) = 'high' THEN severity
            ELSE severity_of(left_ns, window_ns)
        END AS severity,
        gain_within(round(estimated_gain_ns * share), window_ns)::BIGINT AS estimated_gain_ns,
        gain_within(round(own_gain_ns * share), window_ns)::BIGINT AS own_gain_ns,
        CASE
            WHEN len(closest) = 0 THEN gain_basis
            ELSE gain_basis || coalesce('; closest: ' || near_words, '; none comes to a tenth of its limit')
        END AS gain_basis
    ),
    CASE
        WHEN claimed_ns IS NULL THEN words
        ELSE replace(
            words, claimed_part(),
            replace(
                part_text(left_ns, coalesce(claimed_of_ns, window_ns), CASE WHEN claimed_of_ns IS NULL THEN steps ELSE 0 END),
                ')', CASE WHEN share < 1 THEN ', not counting other findings)' ELSE ')' END
            )
        )
    END AS finding
FROM settled
LEFT JOIN nearest ON settled.finding = nearest.finding
WHERE is_finding;
