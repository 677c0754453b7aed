-- dumps: what flight recorder dumps contain.
-- One row per run.
-- In a bare shell read from `sql/lib` first: collectives.
-- needs: recorded_collectives, process_groups, traces
-- run        VARCHAR      run that the dumps belong to
-- ranks      VARCHAR      ranks with a dump: 0,1,3
-- world_size INTEGER      number of ranks in the job; NULL if the dumps do not say
-- backends   VARCHAR      communication libraries: gloo, nccl; NULL if the dumps do not say
-- versions   VARCHAR      versions of the dumps; NULL if they do not say
-- groups     BIGINT       process groups
-- records    BIGINT       records
-- open       BIGINT       records not seen to have ended; NULL if none is tracked, as with gloo
-- first_ns   BIGINT  ns   when the first of them was called
-- last_ns    BIGINT  ns   when the last of them was called
WITH records AS (
    SELECT
        run,
        string_agg(DISTINCT backend, ', ' ORDER BY backend) AS backends,
        count(*) AS records,
        count(*) FILTER (state <> 'completed') AS open,
        count(*) FILTER (state IN ('started', 'completed')) AS followed,
        min(created_ns) AS first_ns,
        max(created_ns) AS last_ns
    FROM recorded_collectives
    WHERE NOT is_of_plugin(recorder)
    GROUP BY run
),
groups AS (
    SELECT run, count(*) AS groups
    FROM (
        SELECT run, process_group, group_ranks FROM recorded_collectives WHERE NOT is_of_plugin(recorder)
        UNION
        SELECT run, process_group, group_ranks FROM process_groups
    )
    GROUP BY run
),
headers AS (
    SELECT
        run,
        rank,
        world_size,
        CASE WHEN format = 'flight_recorder' THEN json_extract_string(try_cast(metadata AS JSON), '$.version') END
            AS version
    FROM traces
),
ranks AS (
    SELECT run, rank FROM recorded_collectives WHERE NOT is_of_plugin(recorder)
    UNION
    SELECT run, rank FROM process_groups
    UNION
    SELECT run, rank FROM traces WHERE format = 'flight_recorder'
)
SELECT
    run,
    string_agg(rank::VARCHAR, ',' ORDER BY rank) AS ranks,
    max(world_size) AS world_size,
    any_value(records.backends) AS backends,
    string_agg(DISTINCT version, ', ' ORDER BY version) AS versions,
    any_value(groups.groups) AS groups,
    coalesce(any_value(records.records), 0) AS records,
    CASE WHEN any_value(records.followed) > 0 THEN any_value(records.open) END AS open,
    any_value(records.first_ns) AS first_ns,
    any_value(records.last_ns) AS last_ns
FROM ranks
LEFT JOIN headers USING (run, rank)
LEFT JOIN records USING (run)
LEFT JOIN groups USING (run)
GROUP BY run
ORDER BY run
