-- recorded_columns: whether optional columns of events have values.
-- One row per page: all runs and ranks together.
-- needs: events
-- input_dims        BOOLEAN      input shapes were recorded
-- stack             BOOLEAN      stacks were recorded
-- python_module_id  BOOLEAN      module calls were recorded
-- module_hierarchy  BOOLEAN      the modules around ops were recorded
-- collective        BOOLEAN      there are collective names
-- process_group     BOOLEAN      there are process groups
-- phase_id          BOOLEAN      there are inference phases
-- graph_layer       BOOLEAN      graphs have repeating layers
SELECT
    count(input_dims) > 0 AS input_dims,
    count(stack) > 0 AS stack,
    count(python_module_id) > 0 AS python_module_id,
    count(module_hierarchy) > 0 AS module_hierarchy,
    count(collective) > 0 AS collective,
    count(process_group) > 0 AS process_group,
    count(phase_id) > 0 AS phase_id,
    count(graph_layer) > 0 AS graph_layer
FROM events
