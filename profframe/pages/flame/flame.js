"use strict";

// A flame graph on a canvas: an icicle, the outermost on top, as wide as its time.
//
// flameGraph(element, columns, options) draws the rows of the answer `flame` into an element:
// `columns` has an array for each of its columns, `options` may have `colours`
// ({kind: [on light, on dark]}) and `height` (most pixels of the graph). It gives back an object
// with redraw(), zoom(node_id), reset(), find(text), measure(metric), pass(direction), link(other)
// and state(). With a column `change_ns` nodes are marked that changed by at least `least`; `words`
// says what such a change is (`more`, `less`), and what the time is (`label`, `verb`). Of linked
// graphs one shows the node that the other zooms in on.
const flameGraph = (() => {
  const { shortened, duration, count, percent, label, make, channels, varied, contrast, fitted } =
    drawing;
  const ROW = 20;
  const NARROWEST = 0.3;
  const LABELLED = 24;
  const FONT = "12px system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', sans-serif";
  const METRICS = {
    host: { label: "host time", self: "self_ns", verb: "on the host" },
    device: { label: "device time", self: "self_device_ns", verb: "on devices" },
  };
  const WORDS = {
    host_op: "operator",
    python: "Python",
    runtime: "runtime call",
    driver: "driver call",
    other: "unknown kind",
    others: "others, not shown separately",
    outside: "work without a known operator",
  };

  // The nodes of one (run, rank), below one that stands for all of them. Node 0 is that one.
  class Tree {
    constructor(columns, rows) {
      this.ids = [null];
      this.names = ["all"];
      this.kinds = ["all"];
      this.directions = [null];
      this.calls = [0];
      this.changes = [0];
      this.parents = [-1];
      this.depths = [0];
      this.self = { host: [0], device: [0] };
      const place = new Map();
      for (const row of rows) {
        const id = Number(columns.node_id[row]);
        const parent = columns.parent_id[row];
        const around = parent === null || parent === undefined ? 0 : (place.get(Number(parent)) ?? 0);
        place.set(id, this.ids.length);
        this.ids.push(id);
        this.parents.push(around);
        this.depths.push(this.depths[around] + 1);
        this.names.push(columns.name[row] ?? "(no name)");
        this.kinds.push(columns.kind[row]);
        this.directions.push(columns.direction[row]);
        this.calls.push(Number(columns.calls[row]));
        this.changes.push(Number(columns.change_ns?.[row] ?? 0));
        for (const metric in METRICS) {
          this.self[metric].push(Number(columns[METRICS[metric].self][row] ?? 0));
        }
      }
      this.places = place;
      this.children = this.ids.map(() => []);
      for (let node = 1; node < this.ids.length; node++) this.children[this.parents[node]].push(node);
    }

    // Time of each node and all inside it, of one pass or both; a node comes after its parent.
    totals(metric, pass) {
      const totals = this.self[metric].map((ns, node) =>
        pass === "all" || this.directions[node] === pass ? ns : 0,
      );
      for (let node = totals.length - 1; node > 0; node--) totals[this.parents[node]] += totals[node];
      return totals;
    }

    around(node) {
      const found = [];
      for (let outer = this.parents[node]; outer >= 0; outer = this.parents[outer]) found.push(outer);
      return found.reverse();
    }
  }

  // The rows of each (run, rank), in their order.
  function traces(columns) {
    const found = new Map();
    for (let row = 0; row < columns.node_id.length; row++) {
      const key = JSON.stringify([columns.run[row], columns.rank[row]]);
      if (!found.has(key)) {
        found.set(key, { run: String(columns.run[row]), rank: columns.rank[row], rows: [] });
      }
      found.get(key).rows.push(row);
    }
    return [...found.values()];
  }

  class Graph {
    constructor(element, columns, options) {
      this.element = element;
      this.columns = columns;
      this.options = options;
      this.traces = traces(columns);
      this.metric = "host";
      this.direction = "all";
      this.needle = "";
      this.linked = [];
      this.build();
      this.show(0);
      this.observer = new ResizeObserver(() => this.redraw());
      this.observer.observe(this.view);
    }

    // ---- what is there

    build() {
      this.box = make("div", "flame-graph");
      this.bar = make("div", "flame-bar");
      this.view = make("div", "flame-view");
      this.view.style.maxHeight = `${this.options.height ?? 560}px`;
      this.sheet = make("div", "flame-sheet");
      this.canvas = make("canvas", "flame-canvas");
      this.canvas.tabIndex = 0;
      this.canvas.setAttribute("role", "application");
      this.canvas.setAttribute(
        "aria-label",
        "Flame graph. Arrow keys move, Enter zooms in, Escape zooms out, Home shows all, / searches.",
      );
      this.told = make("p", "flame-told");
      this.told.setAttribute("aria-live", "polite");
      this.tip = make("div", "flame-tip");
      this.tip.hidden = true;
      this.legend = make("div", "flame-legend");
      this.sheet.append(this.canvas);
      this.view.append(this.sheet);
      this.box.append(this.bar, this.told, this.view, this.legend, this.tip);
      this.element.replaceChildren(this.box);
      this.controls();
      this.listen();
    }

    controls() {
      if (this.traces.length > 1) {
        const select = make("select", "flame-trace");
        select.setAttribute("aria-label", "Run and rank");
        const runs = new Set(this.traces.map((trace) => trace.run)).size;
        this.traces.forEach((trace, number) => {
          const name = runs > 1 ? `${shortened(trace.run)}, rank ${trace.rank}` : `rank ${trace.rank}`;
          const option = make("option", "", name);
          option.value = String(number);
          select.append(option);
        });
        select.addEventListener("change", () => this.show(Number(select.value)));
        this.bar.append(select);
      }
      this.metrics = this.switch("Width", "metric", ["host", "device"], (key) => METRICS[key].label);
      this.passes = this.switch("Pass", "direction", ["all", "forward", "backward"], (key) => key);
      const search = make("input", "flame-search");
      search.type = "search";
      search.placeholder = "Search";
      search.setAttribute("aria-label", "Search names in the flame graph");
      search.addEventListener("input", () => this.find(search.value));
      search.addEventListener("keydown", (event) => {
        if (event.key === "Enter") this.canvas.focus();
      });
      this.search = search;
      this.whole = make("button", "flame-whole", "Show all");
      this.whole.type = "button";
      this.whole.addEventListener("click", () => this.reset());
      this.bar.append(search, this.whole);
    }

    // Buttons of which one is pressed.
    switch(title, field, keys, label) {
      const group = make("div", "flame-switch");
      group.setAttribute("role", "group");
      group.setAttribute("aria-label", title);
      for (const key of keys) {
        const button = make("button", "", label(key));
        button.type = "button";
        button.dataset.key = key;
        button.addEventListener("click", () => this.choose(field, key));
        group.append(button);
      }
      this.bar.append(group);
      return group;
    }

    listen() {
      const at = (event) => {
        const place = this.canvas.getBoundingClientRect();
        return this.boxAt(event.clientX - place.left, event.clientY - place.top);
      };
      this.canvas.addEventListener("pointermove", (event) => this.hover(at(event), event));
      this.canvas.addEventListener("pointerleave", () => this.hover(null));
      this.canvas.addEventListener("click", (event) => {
        const box = at(event);
        if (box) this.goTo(box.node);
      });
      this.canvas.addEventListener("keydown", (event) => this.key(event));
      this.canvas.addEventListener("focus", () => this.tell());
      this.canvas.addEventListener("blur", () => this.draw());
      this.view.addEventListener("scroll", () => this.draw());
    }

    // ---- what is chosen

    show(number) {
      const trace = this.traces[number];
      this.tree = new Tree(this.columns, trace ? trace.rows : []);
      const has = (metric) => this.tree.self[metric].some((ns) => ns !== 0);
      this.metrics.hidden = !(has("device") && has("host"));
      if (!has(this.metric)) this.metric = has("host") || !has("device") ? "host" : "device";
      this.passes.hidden = !this.tree.directions.includes("backward");
      if (this.passes.hidden) this.direction = "all";
      this.zoomed = 0;
      this.cursor = 0;
      this.colours();
      this.measured();
    }

    choose(field, key) {
      this[field] = key;
      this.measured();
    }

    // Widths are other ones now.
    measured() {
      const { tree } = this;
      this.totals = tree.totals(this.metric, this.direction);
      const last = (node) => Number(tree.kinds[node] === "others" || tree.kinds[node] === "outside");
      this.order = tree.children.map((nodes) =>
        nodes
          .filter((node) => this.totals[node] > 0)
          .sort((a, b) => last(a) - last(b) || this.totals[b] - this.totals[a] || a - b),
      );
      if (this.zoomed && !(this.totals[this.zoomed] > 0)) this.zoomed = 0;
      this.cursor = this.zoomed;
      for (const [group, key] of [
        [this.metrics, this.metric],
        [this.passes, this.direction],
      ]) {
        for (const button of group.children) {
          button.setAttribute("aria-pressed", String(button.dataset.key === key));
        }
      }
      this.find(this.needle);
    }

    find(text) {
      this.needle = text;
      if (this.search.value !== text) this.search.value = text;
      const wanted = text.toLowerCase();
      const { tree } = this;
      this.hits = wanted
        ? tree.names.map((name, node) => node > 0 && name.toLowerCase().includes(wanted))
        : null;
      this.found = { nodes: 0, ns: 0 };
      if (this.hits) {
        const within = tree.names.map(() => false);
        for (let node = 1; node < tree.names.length; node++) {
          const inside = within[tree.parents[node]];
          within[node] = inside || this.hits[node];
          if (!this.hits[node] || !(this.totals[node] > 0)) continue;
          this.found.nodes += 1;
          if (!inside) this.found.ns += this.totals[node];
        }
      }
      this.redraw();
      this.tell();
    }

    zoomTo(node) {
      this.zoomed = node;
      this.cursor = node;
      this.view.scrollTop = 0;
      this.hover(null);
      this.redraw();
      this.tell();
    }

    // By hand: what is linked follows, if it has the node.
    goTo(node) {
      this.zoomTo(node);
      const id = this.tree.ids[node];
      for (const other of this.linked) {
        if (id === null || other.tree.places.has(id)) other.zoomTo(other.place(id));
      }
    }

    reset() {
      this.goTo(0);
    }

    key(event) {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      const { tree, order, cursor } = this;
      const siblings = cursor ? order[tree.parents[cursor]] : [0];
      const beside = (by) => siblings[siblings.indexOf(cursor) + by] ?? cursor;
      const moves = {
        ArrowUp: () => Math.max(tree.parents[cursor], 0),
        ArrowDown: () => order[cursor][0] ?? cursor,
        ArrowLeft: () => beside(-1),
        ArrowRight: () => beside(1),
      };
      if (event.key in moves) {
        this.move(moves[event.key]());
      } else if (event.key === "Enter" || event.key === " ") {
        this.goTo(cursor);
      } else if (event.key === "Escape" || event.key === "Backspace") {
        if (!this.zoomed) return;
        this.goTo(tree.parents[this.zoomed]);
      } else if (event.key === "Home" || event.key === "0") {
        this.reset();
      } else if (event.key === "/") {
        this.search.focus();
      } else {
        return;
      }
      event.preventDefault();
    }

    // To a node that may be outside of what is zoomed in on, or too narrow to be seen.
    move(node) {
      this.cursor = node;
      const isSeen = node === this.zoomed || this.tree.around(node).includes(this.zoomed);
      if (!isSeen) this.zoomed = this.tree.around(this.zoomed).includes(node) ? node : this.tree.parents[node];
      this.redraw();
      const top = this.tree.depths[node] * ROW;
      if (top < this.view.scrollTop) this.view.scrollTop = top;
      const below = top + ROW - this.view.scrollTop - this.view.clientHeight;
      if (below > 0) this.view.scrollTop += below;
      this.draw();
      this.tell();
    }

    // ---- what is seen

    colours() {
      const kinds = [...new Set(this.tree.kinds)].filter((kind) => kind !== "all");
      this.swatches = new Map();
      this.legend.replaceChildren();
      const marks = this.tree.changes.some((change) => this.mark(change)) ? ["more", "less"] : [];
      for (const kind of ["all", "hit", ...marks, ...kinds]) {
        const item = make("span", "flame-kind");
        const swatch = make("i", "flame-swatch");
        swatch.dataset.kind = kind;
        const given = this.options.colours?.[kind];
        if (given) swatch.style.backgroundColor = `light-dark(${given[0]}, ${given[1]})`;
        const said = marks.includes(kind) ? this.options.words?.[kind] : null;
        const word = said ?? WORDS[kind] ?? String(kind).replaceAll("_", " ");
        item.append(swatch, make("span", "", kind === "hit" ? "found" : word));
        item.hidden = kind === "all" || kind === "hit";
        this.legend.append(item);
        this.swatches.set(kind, swatch);
      }
    }

    // Whether a change is marked, and how.
    mark(change) {
      if (!this.options.least || Math.abs(change) < this.options.least) return null;
      return change > 0 ? "more" : "less";
    }

    word(key) {
      return this.options.words?.[key] ?? METRICS[this.metric][key];
    }

    // Each box from the top on; what is too narrow to be seen is left out, and what is inside it.
    layout(width) {
      const { tree, order, totals, zoomed } = this;
      const boxes = [];
      const add = (node, left, right) => {
        const row = tree.depths[node];
        (boxes[row] ??= []).push({ node, row, left, right });
      };
      for (const node of tree.around(zoomed)) add(node, 0, width);
      const waiting = [[zoomed, 0, width]];
      while (waiting.length) {
        const [node, left, right] = waiting.pop();
        add(node, left, right);
        const inside = order[node].reduce((sum, child) => sum + totals[child], 0);
        const scale = (right - left) / Math.max(totals[node], inside, 1);
        let from = left;
        for (const child of order[node]) {
          const to = from + totals[child] * scale;
          if (to - from < NARROWEST) break;
          waiting.push([child, from, to]);
          from = to;
        }
      }
      for (const row of boxes) row.sort((a, b) => a.left - b.left);
      return boxes;
    }

    redraw() {
      const width = this.view.clientWidth;
      this.boxes = this.layout(Math.max(width, 1));
      this.sheet.style.height = `${this.boxes.length * ROW}px`;
      this.whole.disabled = !this.zoomed;
      this.legend.querySelector("[data-kind=hit]").parentElement.hidden = !this.hits;
      this.draw();
    }

    draw() {
      const width = this.view.clientWidth;
      const height = Math.min(this.boxes.length * ROW, this.view.clientHeight || this.boxes.length * ROW);
      const ratio = window.devicePixelRatio || 1;
      const { canvas } = this;
      canvas.width = Math.max(1, Math.round(width * ratio));
      canvas.height = Math.max(1, Math.round(height * ratio));
      canvas.style.height = `${height}px`;
      const context = canvas.getContext("2d");
      context.scale(ratio, ratio);
      context.font = FONT;
      context.textBaseline = "middle";
      context.direction = "ltr";
      const shades = new Map();
      for (const [kind, swatch] of this.swatches) {
        shades.set(kind, channels(getComputedStyle(swatch).backgroundColor));
      }
      const ink = getComputedStyle(this.box).color;
      const top = this.view.scrollTop;
      const last = Math.min(this.boxes.length, Math.ceil((top + height) / ROW));
      for (let row = Math.floor(top / ROW); row < last; row++) {
        for (const box of this.boxes[row]) this.drawBox(context, box, row * ROW - top, shades, ink);
      }
      if (document.activeElement === canvas) this.outline(context, this.cursor, ink, top);
      if (this.hovered) this.outline(context, this.hovered.node, ink, top);
    }

    drawBox(context, box, y, shades, ink) {
      const { tree, hits } = this;
      const { node } = box;
      const width = Math.max(box.right - box.left - (box.right - box.left > 3 ? 1 : 0), NARROWEST);
      const isHit = hits !== null && hits[node];
      const shade = isHit ? shades.get("hit") : varied(shades.get(tree.kinds[node]), tree.names[node]);
      const isFaded = (hits !== null && !isHit) || tree.depths[node] < tree.depths[this.zoomed];
      context.globalAlpha = isFaded ? 0.45 : 1;
      context.fillStyle = `rgb(${shade.join(" ")})`;
      context.fillRect(box.left, y, width, ROW - 1);
      const mark = this.mark(tree.changes[node]);
      if (mark) {
        context.fillStyle = `rgb(${shades.get(mark).join(" ")})`;
        context.fillRect(box.left, y + ROW - 5, width, 4);
      }
      context.globalAlpha = 1;
      if (width < LABELLED) return;
      context.fillStyle = isFaded ? ink : contrast(shade);
      const all = `all: ${duration(this.totals[0])}`;
      const text = node ? label(tree.names[node], tree.kinds[node]) : all;
      context.fillText(fitted(context, text, width - 8), box.left + 4, y + ROW / 2);
    }

    outline(context, node, ink, top) {
      const box = this.boxes[this.tree.depths[node]]?.find((one) => one.node === node);
      if (!box) return;
      context.strokeStyle = ink;
      context.lineWidth = 2;
      const width = Math.max(box.right - box.left - 2, 1);
      context.strokeRect(box.left + 1, box.row * ROW - top + 1, width, ROW - 3);
    }

    boxAt(x, y) {
      const row = this.boxes[Math.floor((y + this.view.scrollTop) / ROW)];
      return row?.find((box) => x >= box.left && x < box.right) ?? null;
    }

    hover(box, event) {
      const changed = box?.node !== this.hovered?.node;
      this.hovered = box;
      this.canvas.style.cursor = box ? "pointer" : "default";
      this.tip.hidden = !box;
      if (changed) {
        if (box) this.tip.replaceChildren(...this.lines(box.node));
        this.draw();
      }
      if (!box) return;
      const { clientWidth, clientHeight } = document.documentElement;
      const { offsetWidth, offsetHeight } = this.tip;
      const left = Math.min(event.clientX + 12, clientWidth - offsetWidth - 4);
      const over = event.clientY + 16 + offsetHeight > clientHeight;
      const top = over ? event.clientY - offsetHeight - 12 : event.clientY + 16;
      this.tip.style.left = `${Math.max(left, 4)}px`;
      this.tip.style.top = `${Math.max(top, 4)}px`;
    }

    facts(node) {
      const { tree, totals } = this;
      const self = tree.self[this.metric][node];
      const facts = [
        [this.word("label"), `${duration(totals[node])}, ${percent(totals[node], totals[0])}`],
      ];
      if (!node) return facts;
      const around = tree.parents[node];
      if (around) facts.push(["share of its parent", percent(totals[node], totals[around])]);
      if (this.isOfPass(node)) facts.push(["self", duration(self)]);
      const mark = this.mark(tree.changes[node]);
      if (mark) facts.push([this.word(mark) ?? mark, duration(Math.abs(tree.changes[node]))]);
      facts.push(["calls", count(tree.calls[node])]);
      const what = WORDS[tree.kinds[node]] ?? String(tree.kinds[node]).replaceAll("_", " ");
      facts.push(["what", [what, tree.directions[node]].filter(Boolean).join(", ")]);
      return facts;
    }

    lines(node) {
      const name = make("div", "flame-name", shortened(this.tree.names[node]));
      const facts = this.facts(node).map(([label, value]) => {
        const line = make("div", "flame-fact");
        line.append(make("span", "", label), make("b", "", value));
        return line;
      });
      return [name, ...facts];
    }

    // What is zoomed in on or moved to, and what was found, in words.
    tell() {
      const { tree, totals, cursor, zoomed } = this;
      if (tree.ids.length < 2) {
        this.told.textContent = "No host slices.";
        return;
      }
      const self = tree.self[this.metric][cursor];
      const words = [
        `${duration(totals[cursor])} ${this.word("verb")}, ${percent(totals[cursor], totals[0])}`,
        ...(cursor && this.isOfPass(cursor) ? [`${duration(self)} of it its own`] : []),
        ...(cursor ? [`${count(tree.calls[cursor])} ${tree.calls[cursor] === 1 ? "call" : "calls"}`] : []),
      ];
      const said = `${shortened(tree.names[cursor])}: ${words.join(", ")}.`;
      const share = percent(this.found.ns, totals[0]);
      const here = zoomed ? ` (${count(this.foundInside(zoomed))} of them here)` : "";
      const found = `${count(this.found.nodes)} found${here}, ${duration(this.found.ns)}, ${share}. `;
      this.told.textContent = (this.hits ? found : "") + said;
    }

    foundInside(node) {
      const { hits, totals, order } = this;
      let number = 0;
      const waiting = [node];
      while (waiting.length) {
        const next = waiting.pop();
        if (hits?.[next] && totals[next] > 0) number += 1;
        for (const child of order[next]) waiting.push(child);
      }
      return number;
    }

    isOfPass(node) {
      return this.direction === "all" || this.tree.directions[node] === this.direction;
    }

    place(id) {
      return id === null ? 0 : (this.tree.places.get(id) ?? 0);
    }

    state() {
      const { tree } = this;
      return {
        zoomed: tree.ids[this.zoomed],
        cursor: tree.ids[this.cursor],
        metric: this.metric,
        direction: this.direction,
        total: this.totals[0],
        found: this.found,
        boxes: this.boxes.flat().map(({ node, row, left, right }) => ({
          id: tree.ids[node],
          name: tree.names[node],
          total: this.totals[node],
          left,
          right,
          top: row * ROW - this.view.scrollTop,
          height: ROW,
        })),
      };
    }
  }

  return (element, columns, options = {}) => {
    const graph = new Graph(element, columns, options);
    return {
      redraw: () => graph.redraw(),
      zoom: (id) => graph.goTo(graph.place(id)),
      link: (other) => graph.linked.push(other.graph),
      graph,
      reset: () => graph.reset(),
      find: (text) => graph.find(text),
      measure: (metric) => graph.choose("metric", metric),
      pass: (direction) => graph.choose("direction", direction),
      state: () => graph.state(),
    };
  };
})();
