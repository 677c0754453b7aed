-- contents: how many rows there are in tables that not all sources have.
-- One row per page: all runs and ranks together.
-- In a bare shell read from `sql/lib` first: collectives.
-- needs: nodes, recorded_collectives, process_groups, allocations, segments
-- execution_traces BIGINT  nodes of execution traces
-- dumps            BIGINT  records and process groups of flight recorder dumps
-- nccl_records     BIGINT  records of profiler plugins of NCCL
-- snapshots        BIGINT  allocations and segments of memory snapshots
SELECT
    (SELECT count(*) FROM nodes) AS execution_traces,
    (SELECT count(*) FROM recorded_collectives WHERE NOT is_of_plugin(recorder)) + (SELECT count(*) FROM process_groups)
        AS dumps,
    (SELECT count(*) FROM recorded_collectives WHERE is_of_plugin(recorder)) AS nccl_records,
    (SELECT count(*) FROM allocations) + (SELECT count(*) FROM segments) AS snapshots
