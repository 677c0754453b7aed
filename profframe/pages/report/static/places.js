"use strict";

// Where rows of tables are in the timeline: a time, an event, all slices of a name, a step, a stream.
const places = (() => {
  const EVENTS = ["evidence_events", "event_id", "first_event_id", "max_id", "op_id"];
  const MOMENTS = ["start_ns", "time_ns"];
  const NAMES = ["name", "op_name", "op"];
  const box = document.querySelector("[data-timeline]");
  let shown = null;

  // The first traces that a row may be of.
  function traceOf(value) {
    const keys = ["run", "rank"].filter((key) => value(key) !== null);
    const of = shown.data.head.traces.findIndex((one) => keys.every((key) => one[key] === value(key)));
    return Math.max(of, 0);
  }

  // What shows a row; null where it has no place, or there is no timeline.
  function of(frame, row) {
    const column = (name) => frame.columns.find((one) => one.name === name);
    const value = (name) => column(name)?.value(row) ?? null;
    const events = EVENTS.map((name) => /^\d+/.exec(value(name) ?? "")).find(Boolean);
    const moment = MOMENTS.find((name) => value(name) !== null);
    const name = NAMES.map(value).find((text) => text);
    const step = value("step");
    const trace = () => traceOf(value);
    if (moment) {
      const from = BigInt(column(moment).stated(row));
      const to = from + BigInt(value("dur_ns") ?? 0);
      return () => shown.window(trace(), from, to);
    }
    if (events && !(name && value("calls") > 1)) return () => shown.goToEvent(trace(), Number(events[0]));
    if (name) return () => shown.goToName(String(name), trace(), step);
    if (step !== null) return () => shown.goToStep(trace(), Number(step));
    if (value("stream") === null) return null;
    return () => shown.goToStream(trace(), value("device"), value("stream"));
  }

  // Whether rows of a table can have a place; sources and versions have none.
  const has = (table) => box !== null && table.closest("section")?.id !== "provenance";

  // A button that shows the row in the timeline.
  function button(frame, row) {
    const show = of(frame, row);
    if (!show) return null;
    const made = document.createElement("button");
    made.type = "button";
    made.className = "place";
    made.textContent = "\u2192";
    made.title = "Show in the timeline";
    made.setAttribute("aria-label", made.title);
    made.addEventListener("click", async () => {
      await shown?.opened;
      if (!shown?.view) return;
      await show();
      box.scrollIntoView({ block: "start" });
      shown.canvas.focus({ preventScroll: true });
    });
    return made;
  }

  return {
    has,
    of,
    button,
    open: () => {
      if (!box) return null;
      const stored = (part) => document.getElementById(`${box.dataset.timeline}-${part}`).textContent;
      shown = timeline(box, JSON.parse(stored("head")), stored("packed"));
      return shown;
    },
  };
})();
