-- queue_depth: how much work was waiting for each stream: launched, and not begun.
-- One row per (run, rank, device, stream, moment in which the number changes), in this order.
-- Each kernel, copy or fill waits from the start of the call that launched it to its own start; a graph launch puts all of
-- its work into the queue at once. Work whose launch is not in the trace counts for nothing. A depth below 0 is work that
-- starts before its call, on clocks that disagree.
-- In a bare shell read `sql/_devices.sql` and `sql/_queues.sql` first.
-- needs: events
-- run      VARCHAR      run that the trace belongs to
-- rank     INTEGER      rank within the run
-- device   INTEGER      index of the device; NULL where the source does not say
-- stream   INTEGER      stream of the device; NULL where the source does not say
-- time_ns  BIGINT   ns  when, on the clock that traces.clock names
-- depth    BIGINT       pieces of work that wait from then on, until the next row of the stream
SELECT run, rank, device, stream, time_ns, depth
FROM queue_changes(events)
ORDER BY run, rank, device NULLS LAST, stream NULLS LAST, time_ns
