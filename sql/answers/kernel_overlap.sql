-- kernel_overlap: how much of the communication was hidden under computation.
-- One row per (run, rank) that communicated, per (run, rank, process_group), or per communication kernel, by run, rank, start.
-- Communication is what events.kernel_category says; kernels without a start or a duration are left out. Hidden is time in which
-- any device of the rank also computed: memory fills count as computation, copies do not. hidden_ns + exposed_ns is
-- communication_ns, and for a rank the two equal those of the whole trace in time_breakdown. Concurrent kernels count once in a
-- row, so rows of process groups can add up to more than the row of their rank.
-- In a bare shell read from `sql/lib` first: devices, lanes, intervals, steps, busy.
-- needs: events
-- recorded: communication
-- no rows: no kernel that communicates has a start and a duration
-- divides by: rank
-- main columns: name, process_group, exposed_ns, communication_ns, hidden_share, hidden_ns, collective, calls, start_ns
-- parameter per  VARCHAR(rank|process_group|collective) = rank  what each row is; collective: every communication kernel
-- run               VARCHAR        run that the trace belongs to
-- rank              INTEGER        rank within the run
-- process_group     VARCHAR        process group, of the kernel or its op; NULL with per=rank, or if not known
-- collective        VARCHAR        collective operation; NULL unless per=collective, or if the source does not say
-- event_id          BIGINT         event_id of the kernel; NULL unless per=collective
-- name              VARCHAR        name of the kernel; NULL unless per=collective
-- start_ns          BIGINT   ns    start of the first of the kernels, on the clock that traces.clock names
-- calls             BIGINT         number of kernels
-- communication_ns  BIGINT   ns    time in which at least one of them ran
-- hidden_ns         BIGINT   ns    part of communication_ns in which computation also ran
-- exposed_ns        BIGINT   ns    part of communication_ns in which no computation ran
-- hidden_share      DOUBLE   0..1  hidden_ns over communication_ns; NULL if that is 0
WITH clock AS MATERIALIZED (
    SELECT run, rank, event_id, op_id, start_ns, end_ns, alone_ns, alone_end_ns
    FROM device_clock(events)
    JOIN lanes(events) USING (lane)
    WHERE communicates
),
kernels AS (
    SELECT
        clock.*,
        CASE
            WHEN coalesce(getvariable('per'), 'rank') <> 'rank' THEN coalesce(kernel.process_group, op.process_group)
        END AS process_group,
        CASE
            WHEN coalesce(getvariable('per'), 'rank') = 'collective' THEN coalesce(kernel.collective, op.collective)
        END AS collective,
        CASE WHEN coalesce(getvariable('per'), 'rank') = 'collective' THEN kernel.name END AS name,
        CASE WHEN coalesce(getvariable('per'), 'rank') = 'collective' THEN clock.event_id END AS own_id
    FROM clock
    JOIN events AS kernel
        ON clock.run = kernel.run AND clock.rank = kernel.rank AND clock.event_id = kernel.event_id AND is_busy(kernel.kind)
    LEFT JOIN (
        SELECT run, rank, event_id, process_group, collective
        FROM events
        WHERE NOT is_busy(kind) AND (process_group IS NOT NULL OR collective IS NOT NULL)
    ) AS op
        ON clock.run = op.run AND clock.rank = op.rank AND clock.op_id = op.event_id
),
parts AS MATERIALIZED (
    SELECT *, dense_rank() OVER (ORDER BY run, rank, process_group, own_id) AS lane
    FROM kernels
),
exposed AS (
    SELECT lane, alone_ns AS start_ns, alone_end_ns AS end_ns FROM parts
),
sums AS (
    SELECT
        run,
        rank,
        process_group,
        collective,
        own_id AS event_id,
        name,
        min(start_ns) AS start_ns,
        count(*) AS calls,
        sum(added_ns)::BIGINT AS communication_ns,
        any_value(exposed.covered_ns)::BIGINT AS exposed_ns
    FROM busy_order('parts') AS parts
    JOIN covered_time('exposed') AS exposed ON parts.lane = exposed.lane
    GROUP BY run, rank, process_group, collective, own_id, name
)
SELECT
    run,
    rank,
    process_group,
    collective,
    event_id,
    name,
    start_ns,
    calls,
    communication_ns,
    communication_ns - exposed_ns AS hidden_ns,
    exposed_ns,
    (communication_ns - exposed_ns) / nullif(communication_ns, 0) AS hidden_share
FROM sums
ORDER BY run, rank, start_ns, process_group NULLS LAST, event_id
