-- How fast kernels were, and how fast their device could have been.

-- peak_dtype: the peak that work in a data type is compared with: that of matrix units if the device has a separate one.
-- parameter dtype VARCHAR  data type of the work
-- parameter device STRUCT  a row of `devices`
-- returns VARCHAR  a data type of `devices`
-- example: SELECT peak_dtype('fp32', d) FROM devices AS d
CREATE OR REPLACE TEMP MACRO peak_dtype(dtype, device) AS
CASE
    WHEN dtype = 'fp64' AND device.fp64_tensor_flop_per_s > coalesce(device.fp64_flop_per_s, 0) THEN 'fp64_tensor'
    WHEN dtype = 'fp32' AND device.fp32_tensor_flop_per_s > coalesce(device.fp32_flop_per_s, 0) THEN 'fp32_tensor'
    ELSE dtype
END;

-- peak_rate: the rate of that peak; NULL if the device is not known, or lacks the data type.
-- parameter dtype VARCHAR  data type of the work
-- parameter device STRUCT  a row of `devices`
-- returns DOUBLE  FLOP per second; NULL if not known
-- example: SELECT peak_rate('fp32', d) FROM devices AS d
CREATE OR REPLACE TEMP MACRO peak_rate(dtype, device) AS
CASE dtype
    WHEN 'fp64' THEN greatest(device.fp64_flop_per_s, device.fp64_tensor_flop_per_s)
    WHEN 'fp32' THEN greatest(device.fp32_flop_per_s, device.fp32_tensor_flop_per_s)
    WHEN 'tf32' THEN device.tf32_flop_per_s
    WHEN 'fp16' THEN device.fp16_flop_per_s
    WHEN 'bf16' THEN device.bf16_flop_per_s
    WHEN 'fp8' THEN device.fp8_flop_per_s
    WHEN 'fp6' THEN device.fp6_flop_per_s
    WHEN 'fp4' THEN device.fp4_flop_per_s
    WHEN 'int8' THEN device.int8_flop_per_s
END;

-- device_peaks: one row per device and data type of the kernels with known work, with the peaks that apply to them.
-- parameter events TABLE  `events`, or a part of it
-- parameter devices TABLE  `devices` of the same traces
-- parameter dtype VARCHAR  data type assumed for work of unknown type; '' for none
-- column run, rank, device, work_dtype  as in events
-- column peak_dtype VARCHAR  data type whose peak applies
-- column peak_flop_per_s DOUBLE  that peak; NULL if not known
-- column peak_bytes_per_s DOUBLE  peak rate of the memory; NULL if not known
-- example: FROM device_peaks(events, devices, '')
CREATE OR REPLACE TEMP MACRO device_peaks(events, devices, dtype) AS TABLE
SELECT
    used.*,
    peak_dtype(coalesce(used.work_dtype, nullif(dtype, '')), d) AS peak_dtype,
    peak_rate(coalesce(used.work_dtype, nullif(dtype, '')), d) AS peak_flop_per_s,
    d.bandwidth_bytes_per_s AS peak_bytes_per_s
FROM (
    SELECT DISTINCT run, rank, device, work_dtype
    FROM query_table(events)
    WHERE kind = 'kernel' AND coalesce(flops, bytes) IS NOT NULL
) AS used
LEFT JOIN (SELECT run, rank, device, places AS d FROM query_table(devices) AS places) AS models
    ON used.run = models.run AND used.rank = models.rank AND used.device = models.device;

-- needs_flops: work that its operations may limit, so that a limit from bytes alone says little: products, attention,
-- convolutions, state spaces, and work without a category. All other work is memory-bound.
-- parameter kernel_category VARCHAR  kernel_category of a kernel
-- returns BOOLEAN  whether it is; false for NULL
-- example: SELECT needs_flops('attention_decode')
CREATE OR REPLACE TEMP MACRO needs_flops(kernel_category) AS
coalesce(
    kernel_category IN ('gemm', 'grouped_gemm', 'convolution', 'state_space', 'other')
    OR starts_with(kernel_category, 'attention'),
    false
);

-- kernel_limits: one row per kernel with known work and duration, with the least time that its work takes at either peak, in
-- picoseconds, so that sums are exact.
-- parameter events TABLE  `events`, or a part of it
-- parameter devices TABLE  `devices` of the same traces
-- parameter dtype VARCHAR  data type assumed for work of unknown type; '' for none
-- column run, rank, event_id, device, name, work_id, op_id, launch_id, attributed_by, work_dtype, dur_ns  as in events
-- column flops, bytes, kernel_category  as in events
-- column peak_dtype, peak_flop_per_s, peak_bytes_per_s  as in device_peaks
-- column compute_ps BIGINT  least time for its operations, in ps
-- column memory_ps BIGINT  least time for its bytes, in ps
-- column limit_ps BIGINT  the longer of the two; NULL if only bytes are known and it needs_flops
-- column is_bytes_only BOOLEAN  whether its operations are unknown
-- example: FROM kernel_limits(events, devices, '')
CREATE OR REPLACE TEMP MACRO kernel_limits(events, devices, dtype) AS TABLE
SELECT
    *,
    CASE
        WHEN flops IS NULL AND needs_flops(kernel_category) THEN NULL
        WHEN peak_bytes_per_s IS NOT NULL AND memory_ps IS NOT NULL THEN greatest(compute_ps, memory_ps)
        WHEN peak_flop_per_s IS NOT NULL THEN nullif(compute_ps, 0)
    END AS limit_ps,
    flops IS NULL AS is_bytes_only
FROM (
    SELECT
        kernels.*,
        peaks.peak_dtype,
        peaks.peak_flop_per_s,
        peaks.peak_bytes_per_s,
        CASE WHEN flops = 0 THEN 0 ELSE try_cast(round(flops * 1e12 / peak_flop_per_s) AS BIGINT) END AS compute_ps,
        CASE WHEN bytes = 0 THEN 0 ELSE try_cast(round(bytes * 1e12 / peak_bytes_per_s) AS BIGINT) END AS memory_ps
    FROM (
        SELECT run, rank, event_id, device, name, work_id, op_id, launch_id, attributed_by, work_dtype, dur_ns, flops, bytes,
            kernel_category
        FROM query_table(events)
        WHERE kind = 'kernel' AND dur_ns IS NOT NULL AND coalesce(flops, bytes) IS NOT NULL
    ) AS kernels
    JOIN device_peaks(events, devices, dtype) AS peaks
        ON kernels.run = peaks.run AND kernels.rank = peaks.rank
        AND kernels.device IS NOT DISTINCT FROM peaks.device AND kernels.work_dtype IS NOT DISTINCT FROM peaks.work_dtype
);
