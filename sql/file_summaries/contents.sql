-- contents: how many rows there are in tables that not all sources have.
-- One row per page: all runs and ranks together.
-- needs: nodes, recorded_collectives, process_groups, allocations, segments
-- execution_traces BIGINT  nodes of execution traces
-- dumps            BIGINT  records and process groups of flight recorder dumps
-- snapshots        BIGINT  allocations and segments of memory snapshots
SELECT
    (SELECT count(*) FROM nodes) AS execution_traces,
    (SELECT count(*) FROM recorded_collectives) + (SELECT count(*) FROM process_groups) AS dumps,
    (SELECT count(*) FROM allocations) + (SELECT count(*) FROM segments) AS snapshots
