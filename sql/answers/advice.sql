-- advice: what makes the program slow or waste memory, the events that show it, and what to do.
-- One row per finding and cause, the most severe first, then by the estimated gain, the largest first, run, rank, rule and
-- evidence. What several ranks of a run have for the same cause is one finding, of the rank that has the largest gain: `ranks`
-- has all of them. The same cause is the same `where` and suggestion of a rule, or the same `cause` of any rules that have this
-- column. Rules are the files of `sql/rules`, and yours: each is a SELECT over the same tables. Times are of the profiler's
-- steps, or of the whole trace where it has none. A rule without evidence gives no finding. No two findings are of the same time
-- of a rank: the one with the narrowest cause has it, `docs/rules.md` has the order, and the rest say that they do not count it.
-- A gain is no more than the time that is looked at; each is of its suggestion alone, so that gains need not add up. Where a
-- rule says what its suggestion amounts to in a replay (`docs/what_if.md`), the gain is what the replay of all ranks of the run
-- says, for all of them that have the finding; severity goes by it, and `gain_basis` says so. In SQL alone the gains are those of
-- the rules: `profframe answer advice --sql` prints it with all rules in it, for a bare shell.
-- needs: events
-- run               VARCHAR        run that the trace belongs to
-- rank              INTEGER        rank within the run; of several the one that the finding and its events are of
-- rule              VARCHAR        name of the rule: a file of sql/rules, or yours
-- severity          VARCHAR        high, medium or low
-- finding           VARCHAR        what was found, with numbers
-- evidence_events   BIGINT[]       event_id of the events that show it, the strongest first, at most 100
-- events            BIGINT         number of all events that show it
-- estimated_gain_ns BIGINT    ns   time that could be gained over the times that were looked at; NULL where none can be argued
-- gain_basis        VARCHAR        how that was reached, or why there is none
-- where             VARCHAR        the op, module, stream, device or process group; NULL where it is the whole rank
-- suggestion        VARCHAR        what to do
-- link              VARCHAR        where that is described
-- ranks             BIGINT[]       all ranks that have it
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
    ranks
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
