# %% [markdown]
# # Finding a GPU's idle time
#
# A GPU that waits costs as much as one that works. When does it wait, and for what?
#
# The trace is synthetic: `examples/synthetic_gpu.py` generates a language model of two blocks on an
# H100, with problems to find. You load your own trace in the same way.

# %%
import profframe

trace = profframe.load("examples/gpu_training.json.gz")
trace

# %% [markdown]
# ## How much?
#
# Each nanosecond of a step counts once: as computation, as exposed communication or an exposed
# copy, or as idle time.

# %%
trace.time_breakdown()

# %%
trace.plot.breakdown()

# %% [markdown]
# A third of each step is idle. (The first step begins with the trace, when there is no work yet.)
#
# ## Why?
#
# There is always a little time between two kernels (`kernel_wait`). A longer gap in which the next
# kernel was not even launched is `host_wait`: the GPU had nothing to do because the program had not
# launched anything.

# %%
trace.idle(per="device")

# %% [markdown]
# ## What did the program do meanwhile?
#
# `gaps` takes the longest gaps and shows what the host was in: the op, the Python function, the
# annotation.

# %%
columns = ["start_ns", "dur_ns", "cause", "after_name", "op_name", "frame_name", "annotation_name"]
trace.gaps(top=5).select(columns)

# %% [markdown]
# Both long gaps are in `train.py(18): __getitem__`, called by the data loader on the training
# thread: the GPU waits until the batch is ready.
#
# ## Was anything queued before?
#
# As long as the host is ahead, its launches wait in a queue, and a slow batch would not matter. The
# queue is full in backward, and empty twice in a step.

# %%
trace.plot.queue_depth()

# %%
trace.filter(steps=2).self_times().filter(kind="runtime")

# %% [markdown]
# `cudaStreamSynchronize` is where the host waits until the queue is empty. Who calls it?

# %%
trace.sql("""
    SELECT region.name AS region, op.name AS op, count(*) AS calls, sum(call.dur_ns) AS total_ns
    FROM events AS call
    JOIN events AS op ON call.parent_id = op.event_id
    JOIN events AS region ON region.kind = 'annotation' AND region.name NOT LIKE 'ProfilerStep%'
        AND call.thread = region.thread
        AND call.start_ns BETWEEN region.start_ns AND region.start_ns + region.dur_ns
    WHERE call.name = 'cudaStreamSynchronize'
    GROUP BY ALL
    ORDER BY total_ns DESC
""")

# %% [markdown]
# Each step reads two numbers back, the gradient norm and the loss (`aten::item`). Each time the
# queue runs empty, and then the batch or the optimizer's launches are late.
#
# ## What would a fix gain?
#
# The critical path is what the end of the step had to wait for. Its segments add up to the step.

# %%
trace.critical_path(step=2)

# %% [markdown]
# ## Without looking
#
# Common problems have rules. `advice` runs them all; each finding has its evidence
# (`evidence_events`), and says how its gain was estimated (`gain_basis`).

# %%
trace.advice().select("rule", "severity", "finding", "estimated_gain_ns")

# %% [markdown]
# **What to do about it.** Make batches in other processes (`DataLoader(num_workers=4)`), so that
# the next one is ready in time. Read the loss every hundred steps, not every step, and clip without
# reading (`clip_grad_norm_` returns a tensor; keep it one). The idle time in the table above is the
# most you can gain: a third of the step.
