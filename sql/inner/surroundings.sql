-- surroundings: an event, and what is around it: on its thread or stream, and along arrows of launches and backward.
-- One row per event and its relation to that event: the event first, then what is around it from the inside out, what launched it, what it
-- launched and what is inside it, the longest first, and what ran before and after it.
-- needs: events
-- parameter event BIGINT = 0   event_id of the event
-- parameter most  BIGINT = 10  maximum rows of what is inside it, and of what it launched
-- relation       VARCHAR      this, around, launched_by, op, annotation, frame, forward, launched, inside, before or after
-- run            VARCHAR      run that the trace belongs to
-- rank           INTEGER      rank within the run
-- event_id       BIGINT       number of the slice in its trace
-- kind           VARCHAR      kind of event
-- name           VARCHAR      name of the event
-- start_ns       BIGINT   ns  start, on the clock of the trace
-- dur_ns         BIGINT   ns  duration
-- self_ns        BIGINT   ns  duration without its direct children
-- device_ns      BIGINT   ns  device time launched inside it
-- thread         INTEGER      number of its thread within the rank
-- device         INTEGER      its device
-- stream         BIGINT       its stream
-- step           BIGINT       N of the profiler step that it belongs to
-- stack          VARCHAR      source frames, innermost first
WITH this AS MATERIALIZED (
    FROM events WHERE event_id = getvariable('event')
),
outer_slices AS (
    SELECT max_by(events.event_id, events.preorder) AS event_id
    FROM events, this
    WHERE events.root_id = this.root_id AND events.preorder < this.preorder AND events.depth < this.depth
    GROUP BY events.depth
),
longest_inside AS (
    SELECT events.event_id
    FROM events, this
    WHERE events.parent_id = this.event_id
    ORDER BY events.dur_ns DESC NULLS LAST, events.event_id
    LIMIT getvariable('most')
),
longest_launched AS (
    SELECT events.event_id
    FROM events, this
    WHERE events.launch_id = this.event_id
    ORDER BY events.dur_ns DESC NULLS LAST, events.event_id
    LIMIT getvariable('most')
),
beside AS (
    SELECT events.event_id, (events.start_ns, events.event_id) < (this.start_ns, this.event_id) AS is_before, events.start_ns
    FROM events, this
    WHERE
        events.event_id <> this.event_id
        AND events.pid IS NOT DISTINCT FROM this.pid
        AND events.tid IS NOT DISTINCT FROM this.tid
        AND events.parent_id IS NOT DISTINCT FROM this.parent_id
        AND (events.preorder IS NULL) = (this.preorder IS NULL)
        AND events.device IS NOT DISTINCT FROM this.device
        AND events.stream IS NOT DISTINCT FROM this.stream
),
related AS (
    SELECT 0 AS place, 'this' AS relation, event_id FROM this
    UNION ALL SELECT 1, 'around', event_id FROM outer_slices
    UNION ALL SELECT 2, 'launched_by', launch_id FROM this
    UNION ALL SELECT 3, 'op', op_id FROM this
    UNION ALL SELECT 4, 'annotation', annotation_id FROM this
    UNION ALL SELECT 5, 'frame', frame_id FROM this
    UNION ALL SELECT 6, 'forward', fwd_id FROM this
    UNION ALL SELECT 7, 'launched', event_id FROM longest_launched
    UNION ALL SELECT 8, 'inside', event_id FROM longest_inside
    UNION ALL SELECT 9, 'before', max_by(event_id, (start_ns, event_id)) FROM beside WHERE is_before
    UNION ALL SELECT 10, 'after', min_by(event_id, (start_ns, event_id)) FROM beside WHERE NOT is_before
)
SELECT
    related.relation,
    events.run::VARCHAR AS run,
    events.rank,
    events.event_id,
    events.kind::VARCHAR AS kind,
    events.name::VARCHAR AS name,
    events.start_ns,
    events.dur_ns,
    events.self_ns,
    events.device_ns,
    events.thread::INTEGER AS thread,
    events.device::INTEGER AS device,
    events.stream::BIGINT AS stream,
    events.step::BIGINT AS step,
    events.stack::VARCHAR AS stack
FROM related
INNER JOIN events ON related.event_id = events.event_id
ORDER BY
    related.place,
    CASE WHEN related.relation = 'around' THEN -events.preorder END,
    CASE WHEN related.relation <> 'around' THEN -events.dur_ns END NULLS LAST,
    events.event_id
