"use strict";

// Where rows of tables are in the timeline: an event, a time, a step, or all slices of a name.
const places = (() => {
  const MOMENTS = ["start_ns", "time_ns", "peak_ns"];
  const NAMES = ["name", "kernel", "op", "op_name"];
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
    if (!box) return null;
    const column = (name) => frame.columns.find((one) => one.name === name);
    const value = (name) => column(name)?.value(row) ?? null;
    const evidence = /^\d+/.exec(value("evidence_events") ?? "");
    const event = evidence ? Number(evidence[0]) : value("event_id");
    if (event !== null) return async () => shown.goToEvent(traceOf(value), Number(event));
    const moment = MOMENTS.find((name) => value(name) !== null);
    if (moment) {
      const from = BigInt(column(moment).stated(row));
      const to = from + BigInt(value("dur_ns") ?? 0);
      return async () => shown.window(traceOf(value), from, to);
    }
    const name = NAMES.map(value).find((text) => text);
    if (name) return async () => shown.find(String(name), true);
    const step = value("step");
    return step === null ? null : async () => shown.goToStep(traceOf(value), Number(step));
  }

  // A button that shows the row in the timeline.
  function button(frame, row) {
    const show = of(frame, row);
    if (!show) return null;
    const made = document.createElement("button");
    made.type = "button";
    made.className = "place";
    made.textContent = "\u2316";
    made.title = "Show in the timeline";
    made.setAttribute("aria-label", made.title);
    made.addEventListener("click", async () => {
      if (!shown) return;
      await shown.opened;
      await show();
      box.scrollIntoView({ block: "start" });
      shown.canvas.focus({ preventScroll: true });
    });
    return made;
  }

  return {
    button,
    open: () => {
      if (!box) return null;
      const stored = (part) => document.getElementById(`${box.dataset.timeline}-${part}`).textContent;
      shown = timeline(box, JSON.parse(stored("head")), stored("packed"));
      return shown;
    },
  };
})();
