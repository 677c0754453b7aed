-- roofline: how close device work came to the hardware's limits, and the time that was lost.
-- One row per (run, rank, device, name, input_dims, peak_dtype), the largest lost_ns first; `unknown work` last.
-- Rows cover kernels with known work (`flops` or `bytes`); all others are one row per device, so shares add up to 1. Durations
-- are those of kernels: idle time does not count here. The work of an op is that of its owner (`work_id`). `note` explains a
-- share above 1.05. faster_than_memory: everything read and written counts, but some of it was in a cache. faster_than_peak: the
-- kernel does less than the formula counts, or computes in another data type. bytes_only: FLOPs of some kernels are not known.
-- Kernels that FLOPs may limit (`needs_flops`), such as attention with lengths that no trace has, then have no limit and no lost
-- time; for all others, bytes are the limit.
-- In a bare shell read from `sql/lib` first: sequences, roofline.
-- needs: events, devices
-- recorded: kernels
-- no rows: no kernel has a duration
-- divides by: rank
-- over ranks: name, input_dims, peak_dtype; device
-- main columns: name, input_dims, lost_ns, bound, flop_share, bandwidth_share, total_ns, share, calls, flop_per_s
-- main columns: bytes_per_s, limit_ns, peak_dtype, note
-- parameter per      VARCHAR(kernel|op|shapes|dtype) = kernel  what each row is: kernel name, op, op with input shapes, data type
-- parameter dtype    VARCHAR(fp64|fp32|tf32|fp16|bf16|fp8|fp6|fp4|int8) = ''  data type assumed for work of unknown type
-- parameter override BOOLEAN = false  compare all work with the peak of `dtype`, even if its type is known
-- run              VARCHAR              run that the trace belongs to
-- rank             INTEGER              rank within the run
-- device           INTEGER              index of the device; NULL if the source does not say
-- name             VARCHAR              name of the kernel or op, or data type; NULL if none is known
-- input_dims       VARCHAR              input shapes of the op, by shapes; else NULL
-- calls            BIGINT               number of ops; by kernel, number of kernels
-- kernels          BIGINT               number of kernels
-- total_ns         BIGINT    ns         sum of their durations
-- share            DOUBLE    0..1       total_ns over that of all kernels of the run and rank; NULL if that is 0
-- flops            BIGINT    FLOP       floating-point operations; NULL if not known, or beyond BIGINT
-- bytes            BIGINT    bytes      least bytes read and written; NULL if not known, or beyond BIGINT
-- flop_per_byte    DOUBLE    FLOP/byte  arithmetic intensity
-- flop_per_s       DOUBLE    FLOP/s     achieved rate
-- bytes_per_s      DOUBLE    bytes/s    achieved rate
-- peak_dtype       VARCHAR              data type whose peak applies; `_tensor`: of matrix units; NULL if not known
-- peak_flop_per_s  DOUBLE    FLOP/s     peak for that type, without sparsity; NULL if not known
-- peak_bytes_per_s DOUBLE    bytes/s    peak rate of the memory; NULL if not known
-- flop_share       DOUBLE    0..1       flop_per_s over its peak
-- bandwidth_share  DOUBLE    0..1       bytes_per_s over its peak
-- bound            VARCHAR              compute or memory: the peak that takes longer; NULL if one of them is not known
-- limit_ns         BIGINT    ns         time at the limit: the sum over kernels of the longer of flops and bytes at their peaks
-- lost_ns          BIGINT    ns         total_ns of work with a limit, minus limit_ns: negative if faster; NULL if none has
-- note             VARCHAR              unknown_work unknown_device no_peak (of the type) bytes_only faster_than_peak and _memory
WITH typed AS (
    SELECT
        run, rank, event_id, kind, device, name, work_id, op_id, launch_id, attributed_by, dur_ns, flops, bytes, kernel_category,
        CASE
            WHEN NOT coalesce(getvariable('override'), false) OR coalesce(getvariable('dtype'), '') = '' THEN work_dtype
        END AS work_dtype
    FROM events
    WHERE kind = 'kernel' AND coalesce(flops, bytes) IS NOT NULL
),
groups AS (
    SELECT
        run, rank, device, peak_dtype, peak_flop_per_s, peak_bytes_per_s,
        CASE coalesce(getvariable('per'), 'kernel') WHEN 'kernel' THEN name WHEN 'dtype' THEN peak_dtype END AS name,
        CASE WHEN coalesce(getvariable('per'), 'kernel') <> 'kernel' THEN coalesce(work_id, op_id) END AS owner_id,
        CASE WHEN coalesce(getvariable('per'), 'kernel') <> 'kernel' THEN replay_id(attributed_by, launch_id) END AS replay_id,
        count(*) AS kernels,
        sum(dur_ns) AS total_ns,
        sum(flops) AS flops,
        sum(bytes) AS bytes,
        sum(dur_ns) FILTER (flops IS NOT NULL) AS flops_ns,
        sum(dur_ns) FILTER (bytes IS NOT NULL) AS bytes_ns,
        CASE WHEN bool_and(compute_ps IS NOT NULL) THEN sum(compute_ps) END AS compute_ps,
        CASE WHEN bool_and(memory_ps IS NOT NULL) THEN sum(memory_ps) END AS memory_ps,
        sum(limit_ps) AS limit_ps,
        sum(dur_ns) FILTER (limit_ps IS NOT NULL OR NOT is_bytes_only) AS limited_ns,
        bool_or(is_bytes_only) AS is_bytes_only
    FROM kernel_limits(typed, devices, coalesce(getvariable('dtype'), ''))
    GROUP BY ALL
),
named AS (
    SELECT
        groups.* REPLACE (
            CASE WHEN coalesce(getvariable('per'), 'kernel') IN ('op', 'shapes') THEN op.name ELSE groups.name END AS name
        ),
        CASE WHEN coalesce(getvariable('per'), 'kernel') = 'shapes' THEN op.input_dims END AS input_dims,
        CASE WHEN coalesce(getvariable('per'), 'kernel') = 'kernel' THEN kernels ELSE (owner_id IS NOT NULL)::BIGINT END AS calls
    FROM groups
    LEFT JOIN events AS op ON groups.run = op.run AND groups.rank = op.rank AND groups.owner_id = op.event_id
),
sums AS (
    SELECT
        run, rank, device, name, input_dims, peak_dtype, peak_flop_per_s, peak_bytes_per_s,
        sum(calls) AS calls,
        sum(kernels) AS kernels,
        sum(total_ns) AS total_ns,
        sum(flops) AS flops,
        sum(bytes) AS bytes,
        sum(flops) * 1e9 / nullif(sum(flops_ns), 0) AS flop_per_s,
        sum(bytes) * 1e9 / nullif(sum(bytes_ns), 0) AS bytes_per_s,
        CASE WHEN bool_and(compute_ps IS NOT NULL) THEN sum(compute_ps) END AS compute_ps,
        CASE WHEN bool_and(memory_ps IS NOT NULL) THEN sum(memory_ps) END AS memory_ps,
        sum(limit_ps) AS limit_ps,
        sum(limited_ns) AS limited_ns,
        bool_or(is_bytes_only) AS is_bytes_only,
        true AS is_known
    FROM named
    GROUP BY ALL
    UNION ALL BY NAME
    SELECT run, rank, device, 'unknown work' AS name, count(*) AS kernels, sum(dur_ns) AS total_ns, false AS is_known
    FROM events
    WHERE kind = 'kernel' AND dur_ns IS NOT NULL AND coalesce(flops, bytes) IS NULL
    GROUP BY run, rank, device
),
shares AS (
    SELECT
        *,
        total_ns / nullif(sum(total_ns) OVER (PARTITION BY run, rank), 0) AS share,
        flop_per_s / peak_flop_per_s AS flop_share,
        bytes_per_s / peak_bytes_per_s AS bandwidth_share,
        try_cast((limit_ps + 500) // 1000 AS BIGINT) AS limit_ns
    FROM sums
)
SELECT
    run,
    rank,
    device,
    name,
    input_dims,
    coalesce(calls, 0)::BIGINT AS calls,
    kernels::BIGINT AS kernels,
    try_cast(total_ns AS BIGINT) AS total_ns,
    share,
    try_cast(flops AS BIGINT) AS flops,
    try_cast(bytes AS BIGINT) AS bytes,
    flops / nullif(bytes, 0) AS flop_per_byte,
    flop_per_s,
    bytes_per_s,
    peak_dtype,
    peak_flop_per_s,
    peak_bytes_per_s,
    flop_share,
    bandwidth_share,
    CASE WHEN compute_ps >= memory_ps THEN 'compute' WHEN compute_ps < memory_ps THEN 'memory' END AS bound,
    limit_ns,
    try_cast(limited_ns - limit_ns AS BIGINT) AS lost_ns,
    CASE
        WHEN NOT is_known THEN 'unknown_work'
        WHEN peak_flop_per_s IS NULL AND peak_bytes_per_s IS NULL THEN 'unknown_device'
        ELSE nullif(concat_ws(
            ' ',
            CASE WHEN peak_flop_per_s IS NULL AND flops > 0 THEN 'no_peak' END,
            CASE WHEN is_bytes_only THEN 'bytes_only' END,
            CASE WHEN flop_share > 1.05 THEN 'faster_than_peak' END,
            CASE WHEN bandwidth_share > 1.05 THEN 'faster_than_memory' END
        ), '')
    END AS note
FROM shares
ORDER BY is_known DESC, lost_ns DESC NULLS LAST, total_ns DESC, run, rank, device, name, input_dims, peak_dtype
