"use strict";

// What is above what in a timeline: of each trace its steps, critical path and annotations, then
// lanes with their rows and counters. Heights are in pixels of the page.
const timelineLayout = (() => {
  const ROW = 18;
  const HEAD = 20;
  const TRACE = 26;
  const BAND = 18;
  const COUNTER = 44;
  const GAP = 4;
  const MOST_ANNOTATION_ROWS = 6;

  // The annotations of a trace by themselves, as lines that are drawn as others are.
  function annotations(data, trace) {
    const { head } = data;
    const is = head.kinds.map((kind) => kind === "annotation");
    if (!is.includes(true)) return null;
    const slices = [];
    for (const line of data.lines) {
      if (line.lane.trace !== trace || line.lane.sort !== "host") continue;
      for (let i = line.from; i < line.to; i++) if (is[data.what[i]]) slices.push(i);
    }
    slices.sort((a, b) => data.begin[a] - data.begin[b] || data.end[b] - data.end[a] || a - b);
    const rows = [];
    for (const slice of slices) {
      const free = rows.findIndex((row) => data.end[row.at(-1)] <= data.begin[slice]);
      if (free >= 0) rows[free].push(slice);
      else if (rows.length < MOST_ANNOTATION_ROWS) rows.push([slice]);
      else rows.at(-1).push(slice);
    }
    return rows.length ? data.part(rows) : null;
  }

  // The items of the page from the top on, each with its `top` and `height`.
  function items(data, folded) {
    const { head } = data;
    const found = [];
    let top = 0;
    const add = (height, item) => {
      found.push({ ...item, top, height });
      top += height;
    };
    head.traces.forEach((trace, number) => {
      if (head.traces.length > 1) add(TRACE, { sort: "trace", trace: number, key: `trace ${number}`, title: trace.title });
      if (head.steps.trace.includes(number)) add(BAND, { sort: "steps", trace: number, title: "steps" });
      const { left_out, of, traces } = head.path;
      const path = `critical path of ${of[number]}${left_out ? ` (${drawing.count(left_out)} segments are left out)` : ""}`;
      if (traces.includes(number)) add(BAND, { sort: "path", trace: number, title: path });
      if (folded.has(`trace ${number}`)) return;
      const marked = data.annotationsOf(number);
      if (marked) {
        const key = `annotations ${number}`;
        add(HEAD, { sort: "head", key, title: "annotations", note: "" });
        if (!folded.has(key)) for (const line of marked.lines) add(ROW, { sort: "row", line, data: marked });
        top += GAP;
      }
      const counters = head.counters.filter((counter) => counter.trace === number);
      const drawn = new Set();
      const count = (those) => {
        for (const counter of those) {
          drawn.add(counter);
          add(COUNTER, { sort: "counter", counter, title: counter.name });
        }
      };
      for (const lane of head.lanes) {
        if (lane.trace !== number) continue;
        const key = `lane ${lane.number}`;
        add(HEAD, { sort: "head", key, lane, title: lane.title, note: left(lane) });
        if (folded.has(key)) continue;
        for (const line of lane.lines) add(ROW, { sort: "row", line, data, lane });
        if (lane.stream !== null) {
          count(counters.filter((one) => one.stream === lane.stream && one.device === lane.device));
        }
        top += GAP;
      }
      count(counters.filter((counter) => !drawn.has(counter)));
    });
    return { items: found, height: top };
  }

  function left(lane) {
    if (!lane.left_out) return "";
    const { count, duration } = drawing;
    return `${count(lane.left_out)} slices of ${duration(lane.shortest)} or less are left out`;
  }

  return { ROW, annotations, items };
})();
