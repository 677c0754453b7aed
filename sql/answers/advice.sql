-- advice: what makes the program slow or wastes memory, the evidence, and what to do.
-- One row per finding and cause, the most severe first, then by the estimated gain, the largest first, run, rank, rule, evidence.
-- If several ranks of a run have a finding for the same cause, it is one finding, on the rank with the largest gain;
-- `ranks` lists all of them. The cause is the same if one rule has the same `where` and suggestion, or if rules with a column
-- `cause` have the same `cause`. Rules are the files in `sql/rules`, and your own: each is a SELECT over the same tables. Times
-- are within the profiler's steps, or the whole trace if there are none. A rule without evidence gives no finding. No two
-- findings cover the same time of a rank: the one with the narrowest cause has it (`docs/rules.md` has the order), and the others
-- do not count it. A gain is at most the time examined. Each gain is for its suggestion alone, so gains may not add up. If a rule
-- says how a replay simulates its suggestion (`docs/what_if.md`), the gain comes from a replay of all ranks of the run, for all
-- ranks that have the finding; severity then follows that gain, and `gain_basis` says so. In plain SQL, gains are the rules' own
-- estimates: `profframe answer advice --sql` prints the query with all rules, for a bare shell.
-- needs: events, profiler_steps
-- recorded: slices
-- no rows: no rule fires, so nothing is wrong that profframe looks for
-- divides by: run
-- main columns: finding, estimated_gain_ns, severity, rule, where
-- run               VARCHAR        run that the trace belongs to
-- rank              INTEGER        rank within the run; with several ranks, the one that finding and events refer to
-- rule              VARCHAR        name of the rule: a file of sql/rules, or yours
-- severity          VARCHAR        high, medium or low
-- finding           VARCHAR        what was found, with numbers
-- evidence_events   BIGINT[]       evidence: event_id of events that show it, the strongest first, at most 100
-- events            BIGINT         number of all events that show it
-- estimated_gain_ns BIGINT    ns   time that could be gained, over the time examined; NULL if there is no basis for an estimate
-- gain_basis        VARCHAR        how the gain was computed, or why there is none
-- where             VARCHAR        the op, module, stream, device or process group; NULL for the whole rank
-- suggestion        VARCHAR        what to do
-- link              VARCHAR        page that describes it
-- ranks             BIGINT[]       all ranks with the finding
-- steps             BIGINT         number of profiler steps that the gain is a sum over; 0 if there are none
SELECT
    run,
    rank,
    rule,
    severity,
    finding,
    evidence_events[:100] AS evidence_events,
    events,
    estimated_gain_ns,
    gain_basis,
    "where",
    suggestion,
    link,
    ranks,
    steps
FROM (
    SELECT
        * EXCLUDE (ranks),
        list_sort(list_distinct(flatten(list(coalesce(ranks, [rank])) OVER of_cause))) AS ranks,
        row_number() OVER (
            of_cause ORDER BY severity_number, estimated_gain_ns DESC NULLS LAST, own_gain_ns DESC NULLS LAST, rank, rule
        ) AS place
    FROM (
        SELECT
            *,
            row_number() OVER (
                PARTITION BY run, rank, rule, cause_key
                ORDER BY severity_number, estimated_gain_ns DESC NULLS LAST, evidence_events, finding
            ) AS number
        FROM (
            SELECT
                *,
                CASE
                    WHEN cause IS NULL THEN {'rule': rule, 'cause': "where", 'suggestion': suggestion}
                    ELSE {'rule': NULL, 'cause': cause, 'suggestion': NULL}
                END AS cause_key,
                CASE severity
                    WHEN 'high' THEN 1
                    WHEN 'medium' THEN 2
                    WHEN 'low' THEN 3
                    ELSE error(
                        'rule ' || rule || ': severity needs to be high, medium or low, found ' || coalesce(severity, 'NULL')
                    )
                END AS severity_number
            FROM findings
            WHERE len(evidence_events) > 0
        )
    )
    WINDOW of_cause AS (PARTITION BY run, cause_key, number)
)
WHERE place = 1
ORDER BY severity_number, estimated_gain_ns DESC NULLS LAST, run, rank, rule, evidence_events, finding
