# %% [markdown]
# # Hunting idle time of a GPU
#
# A GPU that waits costs as much as one that works. When does it wait, and for whom?
#
# The trace is synthetic: `examples/synthetic_gpu.py` made it up, a language model of two blocks
# on an H100, with faults to find. Your own is read in the same way.

# %%
import profframe

trace = profframe.load("examples/gpu_training.json.gz")
trace

# %% [markdown]
# ## How much?
#
# Each nanosecond of a step counts once: as computation, as communication or a copy that nothing
# hides, or as idle time.

# %%
trace.time_breakdown()

# %%
trace.plot.breakdown()

# %% [markdown]
# A third of each step is idle. (The first begins with the trace, when nothing was there to do yet.)
#
# ## Why?
#
# Between two kernels there is always a little time (`kernel_wait`). A longer gap in which the
# next kernel was not even launched is `host_wait`: the GPU had nothing to do because the program
# had not asked for anything.

# %%
trace.idle(per="device")

# %% [markdown]
# ## What did the program do meanwhile?
#
# `gaps` takes the longest, and looks up what the host was in: the op, the Python function, the
# annotation.

# %%
columns = ["start_ns", "dur_ns", "cause", "after_name", "op_name", "frame_name", "annotation_name"]
trace.gaps(top=5).select(columns)

# %% [markdown]
# Both long gaps are in `train.py(18): __getitem__`, called by the data loader, on the thread that
# trains: the GPU waits until the batch is made.
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
# Two numbers are read back in each step, the norm of the gradients and the loss (`aten::item`).
# Each time the queue runs empty, and then the batch, or the launches of the optimizer, are late.
#
# ## What would it be worth?
#
# The critical path is what the end of the step had to wait for. Its stretches add up to the step.

# %%
trace.critical_path(step=2)

# %% [markdown]
# ## Without looking
#
# What is found so often has rules. `advice` asks them all; each finding has the events that show it
# (`evidence_events`), and how its gain was estimated (`gain_basis`).

# %%
trace.advice().select("rule", "severity", "finding", "estimated_gain_ns")

# %% [markdown]
# **What to do about it.** Make batches in other processes (`DataLoader(num_workers=4)`), so that
# the next one is there in time. Read the loss every hundred steps, not in each, and clip without
# reading (`clip_grad_norm_` gives a tensor; leave it one). Then the idle time of the table above is
# the most that can be won: a third of the step.
