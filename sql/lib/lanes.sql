-- Rows along lanes: a lane is what rows follow one another on, a (run, rank), a device or a stream, as a number, for numbers are
-- sorted faster than text. Rows are sorted once, by lane and time, and added up in that order with windows that have neither a
-- PARTITION BY nor an ORDER BY, which is several times as fast as a window for each lane.

-- few: the same rows, out of a list, so that the planner takes them for few and makes a join's hash table of them.
CREATE OR REPLACE TEMP MACRO few(relation) AS TABLE
SELECT unnest(list(given), max_depth := 2) FROM query_table(relation) AS given;

-- lanes: a number for each (run, rank), the same each time.
CREATE OR REPLACE TEMP MACRO lanes(events) AS TABLE
SELECT run, rank, row_number() OVER (ORDER BY run, rank) AS lane
FROM (SELECT DISTINCT run, rank FROM query_table(events));

-- device_lanes: a number for each (run, rank, device, stream) of a relation.
CREATE OR REPLACE TEMP MACRO device_lanes(work) AS TABLE
SELECT run, rank, device, stream, row_number() OVER () AS lane
FROM (SELECT DISTINCT run, rank, device, stream FROM query_table(work));

-- on_device_lanes: the rows of a relation with these columns, with the `lane` of device_lanes in their place.
CREATE OR REPLACE TEMP MACRO on_device_lanes(work, lanes) AS TABLE
SELECT lanes.lane, work.* EXCLUDE (run, rank, device, stream)
FROM query_table(work) AS work
JOIN few(lanes) AS lanes
    ON work.run = lanes.run
    AND work.rank = lanes.rank
    AND work.device IS NOT DISTINCT FROM lanes.device
    AND work.stream IS NOT DISTINCT FROM lanes.stream;
