-- op_kernels: which op launched which kernels in which order, how often and with what delays.
-- One row per (run, rank, name, kind, launch_site, input_dims, sequence), largest device_ns first, by run, rank, first_event_id.
-- The sequence of an op is all kernels that it launched itself, on its own thread, ordered by start. If no op is around the call
-- that launched kernels, as around many graph launches, the call takes its place. A kernel whose call is not known either is a
-- separate sequence without a name. So each kernel is in one sequence. Delays are those of the first kernel. A captured op has a
-- sequence for each replay. If no op is known, launch_site says where the call was: the innermost annotation or frame of the
-- user's own code; a marker of an inference phase is shown as its phase, such as `decode phase`. For a kernel in a graph of which
-- only the Python stack of the captured call is known, it is the line of that call, and the launch of the graph is the call.
-- In a bare shell read from `sql/lib` first: devices, sequences, frames, phase_names, launch_sites.
-- needs: events
-- recorded: kernels
-- divides by: rank
-- over ranks: name, kind, launch_site, input_dims, sequence
-- main columns: name, device_ns, calls, sequence, p50_op_delay_ns, p50_runtime_delay_ns, kernels, total_ns, input_dims
-- main columns: launch_site, max_op_delay_ns
-- parameter group_by_input_shape BOOLEAN = false  separate rows for different input shapes
-- parameter copies               BOOLEAN = false  include memory copies and fills in the sequences
-- run                   VARCHAR      run that the trace belongs to
-- rank                  INTEGER      rank within the run
-- name                  VARCHAR      name of the op or call; NULL if none is known
-- kind                  VARCHAR      its kind: host_op, annotation, runtime or driver; NULL if none is known
-- launch_site           VARCHAR      annotation or Python frame around the call; NULL if an op is known, or none of them
-- input_dims            VARCHAR      input shapes; NULL if not grouped by, or unknown
-- sequence              VARCHAR      names of the kernels joined by ->; only the first 64; ? is one without a name
-- kernels               BIGINT       number of kernels in the sequence
-- calls                 BIGINT       number of ops that launched this sequence
-- device_ns             BIGINT   ns  sum of the durations of their kernels; NULL if none is known, or beyond BIGINT
-- total_ns              BIGINT   ns  time of the ops on the host; NULL if none is known, or beyond BIGINT
-- mean_op_delay_ns      BIGINT   ns  mean time from the start of the op to that of the call, rounded half up
-- p50_op_delay_ns       BIGINT   ns  its median, one of the values
-- p90_op_delay_ns       BIGINT   ns  its 90th percentile, one of the values
-- max_op_delay_ns       BIGINT   ns  the longest
-- mean_runtime_delay_ns BIGINT   ns  mean time from the start of the call to that of the kernel, rounded half up
-- p50_runtime_delay_ns  BIGINT   ns  its median, one of the values
-- p90_runtime_delay_ns  BIGINT   ns  its 90th percentile, one of the values
-- max_runtime_delay_ns  BIGINT   ns  the longest
-- first_event_id        BIGINT       event_id of the first of the ops by start; of the kernel if no call is known
WITH names AS MATERIALIZED (
    FROM kernel_names(events, coalesce(getvariable('copies'), false))
),
launched AS (
    SELECT
        run, rank,
        coalesce(op_id, launch_id) AS owner_id,
        CASE WHEN op_id IS NULL AND launch_id IS NULL THEN event_id END AS alone_id,
        replay_id(attributed_by, launch_id) AS replay_id,
        list(code ORDER BY start_ns, event_id) AS codes,
        sum(dur_ns) AS device_ns,
        first(launch_id ORDER BY start_ns, event_id) AS launch_id,
        bool_and(op_id IS NULL) AS is_without_op,
        min(start_ns) AS start_ns
    FROM events
    JOIN names ON coalesce(events.name, '?') = names.name
    WHERE is_in_sequence(kind, coalesce(getvariable('copies'), false))
    GROUP BY run, rank, owner_id, alone_id, replay_id
),
sequences AS (
    SELECT
        launched.run,
        launched.rank,
        coalesce(owner_id, alone_id) AS event_id,
        CASE WHEN op.kind = 'python' THEN call.name ELSE op.name END AS name,
        CASE WHEN op.kind = 'python' THEN call.kind ELSE op.kind END AS kind,
        CASE WHEN launched.is_without_op THEN sites.launch_site ELSE captured.launch_site END AS launch_site,
        CASE WHEN coalesce(getvariable('group_by_input_shape'), false) THEN op.input_dims END AS input_dims,
        codes,
        launched.device_ns,
        op.start_ns,
        op.dur_ns,
        CASE WHEN launched.replay_id IS NULL THEN try(call.start_ns - op.start_ns) END AS op_delay_ns,
        try(launched.start_ns - call.start_ns) AS runtime_delay_ns
    FROM launched
    LEFT JOIN events AS op ON launched.run = op.run AND launched.rank = op.rank AND owner_id = op.event_id
    LEFT JOIN events AS call ON launched.run = call.run AND launched.rank = call.rank AND launched.launch_id = call.event_id
    LEFT JOIN captured_sites(events) AS captured
        ON launched.run = captured.run AND launched.rank = captured.rank AND owner_id = captured.event_id
    LEFT JOIN launch_sites(events) AS sites
        ON launched.run = sites.run AND launched.rank = sites.rank AND launched.launch_id = sites.launch_id
),
named AS (
    SELECT
        run, rank, name, kind, launch_site, input_dims, codes,
        count(*) AS calls,
        sum(device_ns) AS device_ns,
        sum(dur_ns) AS total_ns,
        mean_delay(sum(op_delay_ns), count(op_delay_ns)) AS mean_op_delay_ns,
        quantile_disc(op_delay_ns, [0.5, 0.9]) AS op_percentiles,
        max(op_delay_ns) AS max_op_delay_ns,
        mean_delay(sum(runtime_delay_ns), count(runtime_delay_ns)) AS mean_runtime_delay_ns,
        quantile_disc(runtime_delay_ns, [0.5, 0.9]) AS runtime_percentiles,
        max(runtime_delay_ns) AS max_runtime_delay_ns,
        first(event_id ORDER BY start_ns, event_id) AS first_event_id
    FROM sequences
    GROUP BY run, rank, name, kind, launch_site, input_dims, codes
)
SELECT
    run,
    rank,
    name,
    kind,
    launch_site,
    input_dims,
    sequence_text(codes, (SELECT list(name ORDER BY code) FROM names)) AS sequence,
    len(codes) AS kernels,
    calls,
    try_cast(device_ns AS BIGINT) AS device_ns,
    try_cast(total_ns AS BIGINT) AS total_ns,
    mean_op_delay_ns,
    op_percentiles[1] AS p50_op_delay_ns,
    op_percentiles[2] AS p90_op_delay_ns,
    max_op_delay_ns,
    mean_runtime_delay_ns,
    runtime_percentiles[1] AS p50_runtime_delay_ns,
    runtime_percentiles[2] AS p90_runtime_delay_ns,
    max_runtime_delay_ns,
    first_event_id
FROM named
ORDER BY named.device_ns DESC NULLS LAST, run, rank, first_event_id
