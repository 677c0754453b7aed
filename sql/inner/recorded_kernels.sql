-- recorded_kernels: which kernel of a rank's trace each record of a profiler plugin of NCCL is about.
-- One row per record, and one for all kernels that could be of several records; by record.
-- Kernels of a group are those of a communicator with its name, or else of one with as many ranks and this rank in its place.
-- The n-th collective of an operation in a group has the n-th number after the first one in the trace, which is found by sizes,
-- durations and starts: at this place all of them must fit, and at no other place half as many, or, where starts are recorded,
-- none as close.
-- A record's duration is within the kernel, whose start and end take some time: up to 20 us and a tenth. Both clocks are of one
-- machine: their times are within 50 ms, and the records of another place are four times as far.
-- In a bare shell read from `sql/lib` first: lanes, devices, collectives.
-- needs: events, recorded_collectives
-- record_id BIGINT  record; NULL for the row of kernels that are not certain
-- event_id  BIGINT  first kernel of the collective
-- kernels   BIGINT  collectives in the trace that could be of several records; NULL for a record
WITH kernels AS MATERIALIZED (
    SELECT
        *, message_bytes(kind, in_bytes, out_bytes, group_size) AS bytes,
        row_number() OVER (PARTITION BY process_group, group_ranks, kind ORDER BY start_ns, event_id) AS place
    FROM collective_parts(events)
    WHERE line = '' AND kind IS NOT NULL
),
records AS MATERIALIZED (
    SELECT
        noted.record_id, parts.kind, parts.collective_seq AS seq, parts.dur_ns, parts.start_ns, noted.written_ns,
        noted.communicator, noted.process_group AS name, noted.group_size, noted.group_rank, noted.rank,
        message_bytes(parts.kind, parts.in_bytes, parts.out_bytes, parts.group_size) AS bytes
    FROM recorded_parts(recorded_collectives) AS parts
    JOIN recorded_collectives AS noted ON parts.record_id = noted.record_id
    WHERE parts.line = '' AND parts.collective_seq IS NOT NULL AND parts.is_numbered AND noted.is_p2p = false
),
communicators_of_groups AS MATERIALIZED (
    SELECT DISTINCT kernels.process_group, kernels.group_ranks, records.communicator
    FROM (SELECT DISTINCT process_group, group_ranks, group_size FROM kernels) AS kernels
    JOIN (SELECT DISTINCT communicator, name, group_size, group_rank, rank FROM records) AS records
        ON coalesce(kernels.group_size = records.group_size, true)
        AND (
            kernels.process_group = records.name
            OR (records.name IS NULL OR kernels.process_group IS NULL OR regexp_full_match(kernels.process_group, '\d+'))
            AND kernels.group_size = records.group_size
            AND coalesce(
                list_position(from_json(json_text(kernels.group_ranks), '["INTEGER"]'), records.rank) - 1 = records.group_rank,
                kernels.group_ranks IS NULL
            )
        )
),
fitting AS MATERIALIZED (
    SELECT
        kernels.process_group, kernels.group_ranks, kernels.kind, kernels.place, kernels.event_id, records.communicator,
        records.record_id, records.seq - kernels.place AS shift, abs(records.start_ns - kernels.start_ns) AS apart_ns
    FROM kernels
    JOIN communicators_of_groups AS groups
        ON kernels.process_group IS NOT DISTINCT FROM groups.process_group
        AND kernels.group_ranks IS NOT DISTINCT FROM groups.group_ranks
    JOIN records
        ON groups.communicator IS NOT DISTINCT FROM records.communicator
        AND kernels.kind = records.kind
        AND coalesce(kernels.bytes = records.bytes, true)
        AND records.dur_ns BETWEEN kernels.dur_ns * 9 // 10 - 20000 AND kernels.dur_ns + 2000
        AND coalesce(abs(records.start_ns - kernels.start_ns) <= 50000000, true)
        AND coalesce(records.written_ns >= kernels.start_ns + kernels.dur_ns - 50000000, true)
),
shifts AS MATERIALIZED (
    SELECT
        process_group, group_ranks, kind, communicator, shift, count(*) AS fits, quantile_cont(apart_ns, 0.5) AS apart_ns
    FROM fitting
    GROUP BY ALL
),
-- Records at such a place that do not fit rule it out.
counted AS MATERIALIZED (
    SELECT shifts.*, count(records.record_id) AS records
    FROM shifts
    JOIN kernels
        ON shifts.process_group IS NOT DISTINCT FROM kernels.process_group
        AND shifts.group_ranks IS NOT DISTINCT FROM kernels.group_ranks
        AND shifts.kind = kernels.kind
    LEFT JOIN records
        ON shifts.communicator IS NOT DISTINCT FROM records.communicator
        AND shifts.kind = records.kind
        AND shifts.shift + kernels.place = records.seq
    GROUP BY ALL
),
ranked AS (
    SELECT
        *,
        row_number() OVER (of_group ORDER BY fits DESC, apart_ns) AS turn,
        lead(fits) OVER (of_group ORDER BY fits DESC, apart_ns) AS next_fits,
        max(fits) OVER of_group AS most_fits,
        min(apart_ns) OVER of_group AS least_apart_ns
    FROM counted
    WHERE fits = records
    WINDOW of_group AS (PARTITION BY process_group, group_ranks, kind)
),
possible AS (
    SELECT *
    FROM ranked
    WHERE 2 * fits >= most_fits AND coalesce(apart_ns <= 4 * least_apart_ns + 10000, true)
),
certain AS (
    SELECT process_group, group_ranks, kind, any_value(communicator) AS communicator, any_value(shift) AS shift
    FROM possible
    GROUP BY ALL
    HAVING count(*) = 1
),
pairs AS MATERIALIZED (
    SELECT fitting.record_id, fitting.event_id
    FROM fitting
    JOIN certain
        ON fitting.process_group IS NOT DISTINCT FROM certain.process_group
        AND fitting.group_ranks IS NOT DISTINCT FROM certain.group_ranks
        AND fitting.kind = certain.kind
        AND fitting.communicator IS NOT DISTINCT FROM certain.communicator
        AND fitting.shift = certain.shift
    QUALIFY count(*) OVER (PARTITION BY fitting.record_id) = 1
)
SELECT record_id, event_id, NULL::BIGINT AS kernels
FROM pairs
UNION ALL
SELECT NULL, NULL, count(DISTINCT event_id)
FROM fitting
ANTI JOIN pairs ON fitting.event_id = pairs.event_id
ORDER BY record_id NULLS LAST
