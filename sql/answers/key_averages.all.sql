-- key_averages(per=all): the sums of all rows of key_averages.
-- One row per (run, rank) that has events, by run and rank.
-- As in torch, inclusive times and bytes count once per nesting level, and device time counts at the op and at the device
-- slice itself; other self values count once. Allocations outside all slices are included.
-- In a bare shell read from `sql/lib` first: key_events.
-- needs: events, memory, instants
-- recorded: slices|memory|instants
-- divides by: rank
-- main columns: name, self_cpu_ns, self_device_ns, calls, cpu_ns, device_ns
-- run                VARCHAR         run that the trace belongs to
-- rank               INTEGER         rank within the run
-- name               VARCHAR         always Total
-- calls              BIGINT          number of slices without duplicates
-- cpu_ns             BIGINT   ns     sum of durations on the host
-- self_cpu_ns        BIGINT   ns     host time, counted once on each thread
-- device_ns          BIGINT   ns     device time launched inside host slices, and the time of device slices
-- self_device_ns     BIGINT   ns     device time launched by host slices themselves, and the time of device slices
-- cpu_bytes          BIGINT   bytes  host memory allocated minus freed inside the slices; NULL if not recorded
-- self_cpu_bytes     BIGINT   bytes  cpu_bytes minus that of children; NULL if not recorded
-- device_bytes       BIGINT   bytes  device memory allocated minus freed inside the slices; NULL if not recorded
-- self_device_bytes  BIGINT   bytes  device_bytes minus that of children; NULL if not recorded
-- torch_flops        BIGINT   FLOP   FLOPs as counted by torch's with_flops; NULL if it counts none
WITH sides AS (
    SELECT
        run,
        rank,
        on_device,
        sum(calls) AS calls,
        sum(total_ns) AS total_ns,
        sum(self_ns) AS self_ns,
        sum(device_ns) AS device_ns,
        sum(self_device_ns) AS self_device_ns,
        sum(cpu_bytes) AS cpu_bytes,
        sum(self_cpu_bytes) AS self_cpu_bytes,
        sum(device_bytes) AS device_bytes,
        sum(self_device_bytes) AS self_device_bytes,
        sum(torch_flops) AS torch_flops
    FROM key_events(events, memory, instants, false, 0, false, false)
    GROUP BY run, rank, on_device
)
SELECT
    run,
    rank,
    'Total' AS name,
    sum(calls)::BIGINT AS calls,
    try_cast(coalesce(sum(total_ns) FILTER (WHERE NOT on_device), 0) AS BIGINT) AS cpu_ns,
    try_cast(coalesce(sum(self_ns) FILTER (WHERE NOT on_device), 0) AS BIGINT) AS self_cpu_ns,
    try_cast(coalesce(sum(CASE WHEN on_device THEN total_ns ELSE device_ns END), 0) AS BIGINT) AS device_ns,
    try_cast(coalesce(sum(CASE WHEN on_device THEN total_ns ELSE self_device_ns END), 0) AS BIGINT) AS self_device_ns,
    try_cast(sum(cpu_bytes) AS BIGINT) AS cpu_bytes,
    try_cast(sum(self_cpu_bytes) AS BIGINT) AS self_cpu_bytes,
    try_cast(sum(device_bytes) AS BIGINT) AS device_bytes,
    try_cast(sum(self_device_bytes) AS BIGINT) AS self_device_bytes,
    try_cast(sum(torch_flops) AS BIGINT) AS torch_flops
FROM sides
GROUP BY run, rank
ORDER BY run, rank
