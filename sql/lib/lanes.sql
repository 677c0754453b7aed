-- Rows along lanes: a lane is what rows follow one another on, such as a (run, rank), a device or a stream, as a number, because
-- numbers sort faster than text.

-- few: the same rows, from a list, so that the planner expects few and builds a join's hash table from them.
-- parameter relation TABLE  any rows
-- column *  as in relation
-- example: FROM few(traces)
CREATE OR REPLACE TEMP MACRO few(relation) AS TABLE
SELECT unnest(list(given), max_depth := 2) FROM query_table(relation) AS given;

-- lanes: a number for each (run, rank), the same each time.
-- parameter events TABLE  `events`, or a part of it
-- column run, rank  as in events
-- column lane BIGINT  number of the (run, rank), from 1
-- example: FROM lanes(events)
CREATE OR REPLACE TEMP MACRO lanes(events) AS TABLE
SELECT run, rank, row_number() OVER (ORDER BY run, rank) AS lane
FROM (SELECT DISTINCT run, rank FROM query_table(events));

-- device_lanes: a number for each (run, rank, device, stream) of a relation.
-- parameter work TABLE  rows with `run`, `rank`, `device` and `stream`
-- column run, rank, device, stream  as in events
-- column lane BIGINT  number, from 1
-- example: WITH work AS (FROM launched_work(events)) FROM device_lanes(work)
CREATE OR REPLACE TEMP MACRO device_lanes(work) AS TABLE
SELECT run, rank, device, stream, row_number() OVER () AS lane
FROM (SELECT DISTINCT run, rank, device, stream FROM query_table(work));

-- on_device_lanes: the rows of a relation with these columns replaced by the `lane` of device_lanes.
-- parameter work TABLE  rows with `run`, `rank`, `device` and `stream`, and any other columns
-- parameter lanes TABLE  device_lanes of them
-- column *  as in work
-- column lane BIGINT  number of the (run, rank, device, stream)
-- example: WITH work AS (FROM launched_work(events)), lanes AS (FROM device_lanes(work)) FROM on_device_lanes(work, lanes)
CREATE OR REPLACE TEMP MACRO on_device_lanes(work, lanes) AS TABLE
SELECT lanes.lane, work.* EXCLUDE (run, rank, device, stream)
FROM query_table(work) AS work
JOIN few(lanes) AS lanes
    ON work.run = lanes.run
    AND work.rank = lanes.rank
    AND work.device IS NOT DISTINCT FROM lanes.device
    AND work.stream IS NOT DISTINCT FROM lanes.stream;
