"use strict";

// Tables below a timeline: all columns of a slice, and what ran in a span.
const timelineDetails = (() => {
  const { make, duration, count, percent, shortened } = drawing;
  const FEW = 50;
  const MOST_ROWS = 100;

  const shown = (head, what) => shortened(head.names[what] ?? "(no name)");
  const word = (kind) => String(kind).replaceAll("_", " ");

  function link(timeline, slice, text) {
    const button = make("button", "timeline-link", text ?? shown(timeline.data.head, timeline.data.what[slice]));
    button.type = "button";
    button.addEventListener("click", () => timeline.goTo(slice));
    return button;
  }

  // What is shown of a slice, as pairs of a label and a text or elements.
  function facts(timeline, slice) {
    const { data } = timeline;
    const one = data.facts(slice);
    const exact = (ns) => `${duration(ns)} (${count(ns)} ns)`;
    const rows = [["kind", word(one.kind)]];
    if (one.category !== null) rows.push(["category", shortened(one.category)]);
    rows.push(["begin", exact(one.begin)]);
    const clock = BigInt(one.trace.zero) + BigInt(one.begin);
    rows.push(["start", `${count(clock)} ns on the clock of its rank`]);
    rows.push(["duration", one.dur === null ? "unknown: it never ended" : exact(one.dur)]);
    if (one.self !== null) rows.push(["self", exact(one.self)]);
    if (one.step !== null) rows.push(["step", String(one.step)]);
    rows.push(["lane", one.lane.title]);
    rows.push(["rank", `${one.trace.rank}`]);
    rows.push(["run", one.trace.run]);
    if (one.dims !== null) rows.push(["input shapes", one.dims]);
    rows.push(["event_id", String(one.event)]);
    rows.push(...around(timeline, one));
    return rows;
  }

  // Parents, launches and kernels, as links.
  function around(timeline, one) {
    const { data } = timeline;
    const rows = [];
    const parents = [];
    for (let at = one.parent; at >= 0; at = data.parent[at]) parents.push(at);
    if (parents.length) rows.push(["parents, innermost first", links(timeline, parents)]);
    if (one.launch >= 0) rows.push(["launched by", links(timeline, [one.launch])]);
    if (one.op >= 0) rows.push(["op", links(timeline, [one.op])]);
    if (one.forward >= 0) rows.push(["forward", links(timeline, [one.forward])]);
    if (one.lane.sort === "host") {
      const backward = data.backwardsOf(one.slice);
      if (backward.length) rows.push(["backward", links(timeline, backward)]);
      const launched = data.launchedIn(one.slice);
      const ns = launched.reduce((sum, i) => sum + data.end[i] - data.begin[i], 0);
      const title = `launched by it: ${count(launched.length)}, ${duration(ns)}`;
      if (launched.length) rows.push([title, links(timeline, launched)]);
    }
    for (const mark of data.head.marks) {
      if (mark.slices.includes(one.slice)) rows.push([`finding (${mark.severity})`, mark.text]);
    }
    return rows;
  }

  function links(timeline, slices) {
    const box = make("div");
    slices.slice(0, FEW).forEach((slice) => {
      const line = make("div");
      const { begin, end } = timeline.data;
      line.append(link(timeline, slice), ` ${duration(end[slice] - begin[slice])}`);
      box.append(line);
    });
    if (slices.length > FEW) box.append(make("div", "", `and ${count(slices.length - FEW)} more`));
    return box;
  }

  function slice(timeline, number) {
    const { data } = timeline;
    const title = make("h4", "", shown(data.head, data.what[number]));
    const table = make("table", "timeline-facts");
    const body = make("tbody");
    body.append(...facts(timeline, number).map(([name, value]) => factRow(name, value)));
    others(timeline, number).then((rows) => body.append(...rows));
    table.append(body);
    return [title, scrolled(table, "Selected slice")];
  }

  function factRow(name, value) {
    const row = make("tr");
    const head = make("th", "", name);
    head.scope = "row";
    const cell = make("td");
    cell.append(value);
    row.append(head, cell);
    return row;
  }

  // All other columns of the table `events`, by their names there.
  async function others({ data }, number) {
    const { names, left_out } = data.head.others;
    const rows = (await data.others(number)).map(([name, value]) => {
      if (typeof value !== "number") return factRow(name, value);
      return factRow(name, name.endsWith("_ns") ? `${duration(value)} (${count(value)} ns)` : count(value));
    });
    if (names === null) rows.push(factRow("other columns", "left out, because there are too many slices"));
    else if (left_out.length) rows.push(factRow("columns left out, for lack of room", left_out.join(", ")));
    return rows;
  }

  function scrolled(table, name) {
    const scroll = make("div", "timeline-scroll");
    scroll.tabIndex = 0;
    scroll.setAttribute("role", "region");
    scroll.setAttribute("aria-label", name);
    table.setAttribute("aria-label", name);
    scroll.append(table);
    return scroll;
  }

  // What ran in a span on some lanes, by name: times are those within the span.
  function totals(data, { from, to }, lanes) {
    const names = data.head.names.length;
    const sums = { calls: new Uint32Array(names), total: new Float64Array(names), self: new Float64Array(names), longest: new Float64Array(names) };
    for (const line of data.lines) {
      if (!lanes.has(line.lane)) continue;
      for (let i = data.firstAt(line, from); i < line.to && data.begin[i] <= to; i++) {
        if (data.end[i] < from) continue;
        const what = data.what[i];
        const dur = Math.min(data.end[i], to) - Math.max(data.begin[i], from);
        sums.calls[what] += 1;
        sums.total[what] += dur;
        sums.self[what] += dur;
        sums.longest[what] = Math.max(sums.longest[what], data.end[i] - data.begin[i]);
        if (data.parent[i] >= 0) sums.self[data.what[data.parent[i]]] -= dur;
      }
    }
    const rows = [];
    for (let what = 0; what < names; what++) {
      if (!sums.calls[what]) continue;
      const [calls, total, self, longest] = ["calls", "total", "self", "longest"].map((key) => sums[key][what]);
      const kind = word(data.head.kinds[what]);
      rows.push({ what, name: shown(data.head, what), kind, calls, total, self, mean: total / calls, longest });
    }
    return rows;
  }

  const COLUMNS = [
    ["name", "name", String],
    ["kind", "kind", String],
    ["calls", "slices", count],
    ["total", "total", duration],
    ["share", "of the span", null],
    ["self", "self", duration],
    ["mean", "mean", duration],
    ["longest", "longest", duration],
  ];

  function span(timeline, chosen, lanes) {
    const width = chosen.to - chosen.from;
    const rows = totals(timeline.data, chosen, lanes);
    const slices = rows.reduce((sum, row) => sum + row.calls, 0);
    const title = make(
      "h4",
      "",
      `${duration(width)} from ${duration(chosen.from)}: ${count(slices)} slices of ${count(rows.length)} names on ${count(lanes.size)} lanes`,
    );
    const table = make("table");
    const scroll = scrolled(table, "What ran in the span, by name");
    const more = make("p");
    const fill = (key, ascending) => {
      const sign = ascending ? 1 : -1;
      const by = key === "share" ? "total" : key;
      const text = by === "name" || by === "kind";
      rows.sort((a, b) => sign * (text ? a[by].localeCompare(b[by]) : a[by] - b[by]) || b.total - a.total);
      const head = heads(key, ascending, (next) => fill(next, next === key ? !ascending : next === "name" || next === "kind"));
      const body = make("tbody");
      body.append(...rows.slice(0, MOST_ROWS).map((row) => spanRow(timeline, row, width)));
      const focused = document.activeElement?.dataset?.column;
      table.replaceChildren(head, body);
      if (focused) head.querySelector(`[data-column="${focused}"]`)?.focus();
      more.textContent = rows.length > MOST_ROWS ? `and ${count(rows.length - MOST_ROWS)} more names` : "";
    };
    fill("total", false);
    return [title, scroll, more];
  }

  function heads(sorted, ascending, sort) {
    const head = make("thead");
    const row = make("tr");
    for (const [key, label] of COLUMNS) {
      const isText = key === "name" || key === "kind";
      const cell = make("th", isText ? "" : "timeline-number");
      cell.scope = "col";
      cell.setAttribute("aria-sort", key !== sorted ? "none" : ascending ? "ascending" : "descending");
      const button = make("button", "", `${label}${key !== sorted ? "" : ascending ? " \u2191" : " \u2193"}`);
      button.type = "button";
      button.dataset.column = key;
      button.addEventListener("click", () => sort(key));
      cell.append(button);
      row.append(cell);
    }
    head.append(row);
    return head;
  }

  function spanRow(timeline, row, width) {
    const line = make("tr");
    for (const [key, , text] of COLUMNS) {
      const cell = make("td", key === "name" || key === "kind" ? "" : "timeline-number");
      if (key === "name") {
        const button = make("button", "timeline-link", row.name);
        button.type = "button";
        button.addEventListener("click", () => timeline.findName(row.what));
        cell.append(button);
      } else if (key === "share") cell.textContent = percent(row.total, width);
      else {
        cell.textContent = text(row[key]);
        if (text === duration) cell.title = `${count(row[key])} ns`;
      }
      line.append(cell);
    }
    return line;
  }

  // A few words on the slice below the pointer.
  function tip(data, slice) {
    const { head } = data;
    const what = data.what[slice];
    const dur = data.isUnended?.[slice] ? "never ended" : duration(data.end[slice] - data.begin[slice]);
    const self = data.isWhole && !data.isWithoutSelf?.[slice] ? `, self ${duration(data.self[slice])}` : "";
    return [
      make("div", "timeline-name", shown(head, what)),
      make("div", "", `${dur}${self}, at ${duration(data.begin[slice])}`),
      make("div", "", word(head.kinds[what])),
    ];
  }

  // The value of a counter at a moment: that of the last one before.
  function level(counter, time) {
    const at = timelineData.firstWhere(0, counter.begin.length, (i) => counter.begin[i] > time) - 1;
    const value = at < 0 ? "no value yet" : timelineDraw.amount(counter.value[at], counter.unit);
    return [make("div", "timeline-name", counter.name), make("div", "", `${value}, at ${duration(time)}`)];
  }

  return { slice, span, tip, level };
})();
