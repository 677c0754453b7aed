"use strict";

// timeline(element, head, text, options) draws what profframe/pages/timeline packs into an element:
// `head` says what `text` has, `options` may have `height` (most pixels). It gives back an object with
// redraw(), find(text), goTo(slice), event(trace, event_id), window(trace, from, to), state() and
// `opened`, a promise.
const timeline = (() => {
  const { make, count, duration, shortened } = drawing;
  const MOST_ARROWS = 200;
  const MOST_OPEN = 2; // of more ranks only the first one is open at first
  const HELP =
    "Timeline. W and S zoom, A and D move, arrow keys go from slice to slice, F zooms to the slice, " +
    "0 shows all, V selects the visible span, / searches.";

  class Timeline extends timelineSearch.Search {
    constructor(element, head, text, options) {
      super();
      this.element = element;
      this.options = options;
      this.data = new timelineData.Data(head, text);
      this.selects = true;
      this.selectsByTouch = false;
      this.pointer = null;
      this.hits = null;
      this.build();
      this.opened = this.open().catch((error) => {
        this.status.textContent = `The timeline cannot be drawn: ${error.message}`;
        console.error(error);
      });
    }

    // ---- what is there

    build() {
      this.box = make("div", "timeline-box");
      this.bar = make("div", "timeline-bar");
      this.scroller = make("div", "timeline-view");
      this.scroller.style.maxHeight = `${this.options.height ?? 620}px`;
      this.sheet = make("div", "timeline-sheet");
      this.canvas = make("canvas", "timeline-canvas");
      this.canvas.tabIndex = 0;
      this.canvas.setAttribute("role", "application");
      this.canvas.setAttribute("aria-label", HELP);
      this.legend = make("div", "timeline-legend");
      this.details = make("div", "timeline-details");
      this.details.setAttribute("aria-live", "polite");
      this.tip = make("div", "timeline-tip");
      this.tip.hidden = true;
      this.sheet.append(this.canvas);
      this.scroller.append(this.sheet);
      this.printed = make("p", "timeline-printed");
      this.box.append(this.bar, this.scroller, this.printed, this.legend, this.details, this.tip);
      this.element.replaceChildren(this.box);
      this.controls();
    }

    controls() {
      this.search = make("input", "timeline-search");
      this.search.type = "search";
      this.search.placeholder = "Search names";
      this.search.spellcheck = false;
      this.search.setAttribute("aria-label", "Search names in the timeline");
      this.search.addEventListener("input", () => {
        this.find(this.search.value);
        this.reveal();
      });
      this.search.addEventListener("keydown", (event) => {
        if (event.key === "Enter") this.step(event.shiftKey ? -1 : 1);
        else if (event.key === "Escape") this.canvas.focus();
      });
      this.before = this.button("\u2039", () => this.step(-1), "Previous match");
      this.next = this.button("\u203a", () => this.step(1), "Next match");
      this.marks = make("select", "timeline-marks");
      this.marks.setAttribute("aria-label", "Findings of advice, in the timeline");
      this.status = make("p", "timeline-status");
      this.status.setAttribute("role", "status");
      const zoomIn = this.button("+", () => this.zoomBy(0.5), "Zoom in");
      const zoomOut = this.button("\u2212", () => this.zoomBy(2), "Zoom out");
      const all = this.button("Show all", () => this.all());
      this.mode = this.button("Drag selects", () => this.toggled());
      this.mode.setAttribute("aria-pressed", "true");
      this.bar.append(this.search, this.before, this.next, this.marks, this.status, zoomIn, zoomOut, all, this.mode);
    }

    button(text, work, label) {
      const button = make("button", "", text);
      button.type = "button";
      if (label) button.setAttribute("aria-label", label);
      button.addEventListener("click", work);
      return button;
    }

    async open() {
      const { data } = this;
      await data.open();
      const { steps } = data.head;
      steps.end = steps.begin.map((begin, i) => begin + steps.dur[i]);
      data.blocks(null);
      for (const [number] of data.head.traces.entries()) {
        data.annotationsOf(number)?.blocks(null);
      }
      this.view = new timelineView.View(data, this.canvas, this.scroller, this.box);
      if (data.head.traces.length > MOST_OPEN) {
        for (let n = 1; n < data.head.traces.length; n++) this.view.folded.add(`trace ${n}`);
      }
      this.findings();
      this.relaid();
      this.view.themed();
      this.named();
      this.all();
      timelineInput.listen(this);
      this.scroller.addEventListener("scroll", () => {
        this.view.scrolled = this.scroller.scrollTop;
        this.moved();
      });
      window.addEventListener("beforeprint", () => this.outOfView());
      this.observer = new ResizeObserver(() => this.resized());
      this.observer.observe(this.scroller);
      this.paint();
      this.told();
      const idle = window.requestIdleCallback ?? ((work) => setTimeout(work, 50));
      idle(() => data.rest().then(() => this.moved()));
    }

    findings() {
      const { marks } = this.data.head;
      this.marks.hidden = !marks.some((mark) => mark.slices.length);
      this.marks.append(make("option", "", "Findings"));
      marks.forEach((mark, number) => {
        if (!mark.slices.length) return;
        const rank = this.data.head.traces.length > 1 ? ` (${mark.ranks})` : "";
        const option = make("option", "", shortened(`${mark.severity}: ${mark.text}${rank}`));
        option.value = String(number);
        this.marks.append(option);
      });
      this.marks.addEventListener("change", () => this.mark(Number(this.marks.value)));
    }

    // Colours of kinds.
    named() {
      const { kinds } = this.view;
      this.legend.replaceChildren(
        ...[...kinds].map(([kind, colour]) => {
          const item = make("span", "timeline-kind");
          const swatch = make("i", "timeline-swatch");
          swatch.style.backgroundColor = `rgb(${colour.join(" ")})`;
          item.append(swatch, make("span", "", String(kind).replaceAll("_", " ")));
          return item;
        }),
      );
    }

    // ---- what is seen

    relaid() {
      this.view.laid();
      this.sheet.style.height = `${this.view.total}px`;
      this.view.sized();
    }

    // In another size the same stretch of time.
    resized() {
      const { view } = this;
      const { from, to, width, height } = view;
      view.sized();
      if (view.width === width && view.height === height) return;
      view.show(from, to);
      this.moved();
    }

    // Draw with the next frame.
    moved() {
      if (this.isWaiting) return;
      this.isWaiting = true;
      requestAnimationFrame(() => {
        this.isWaiting = false;
        this.paint();
      });
    }

    paint() {
      this.view.scrolled = this.scroller.scrollTop;
      timelineDraw.draw(this.view);
      this.frames = (this.frames ?? 0) + 1;
    }

    redraw() {
      if (!this.view) return;
      this.resized();
      this.view.themed();
      this.named();
      this.paint();
    }

    all() {
      this.view.show(0, this.data.head.span);
      this.moved();
    }

    zoomBy(factor) {
      const { view } = this;
      const box = view.selected >= 0 ? view.box(view.selected) : null;
      const isSeen = box && box.right > 0 && box.left < view.width;
      view.zoom(factor, isSeen ? Math.max(0, Math.min((box.left + box.right) / 2, view.width)) : view.width / 2);
      this.moved();
    }

    zoomTo(slice) {
      const { begin, end } = this.data;
      const room = Math.max((end[slice] - begin[slice]) * 0.15, 5);
      this.view.show(begin[slice] - room, end[slice] + room);
      this.select(slice);
    }

    toggled() {
      this.selects = !this.selects;
      this.selectsByTouch = this.selects;
      this.mode.textContent = this.selects ? "Drag selects" : "Drag moves";
      this.mode.setAttribute("aria-pressed", String(this.selects));
    }

    at(event) {
      const place = this.canvas.getBoundingClientRect();
      return { x: event.clientX - place.left, y: event.clientY - place.top };
    }

    // ---- what is chosen

    click({ x, y }) {
      const { view } = this;
      this.canvas.focus({ preventScroll: true });
      const item = view.itemAt(y);
      if (item?.key) {
        if (!view.folded.delete(item.key)) view.folded.add(item.key);
        this.relaid();
        this.moved();
        return;
      }
      if (item?.sort === "steps") {
        const { steps } = this.data.head;
        const time = view.time(x);
        const i = steps.begin.findIndex((begin, n) => steps.trace[n] === item.trace && begin <= time && steps.end[n] >= time);
        if (i >= 0) this.chosen({ from: steps.begin[i], to: steps.end[i], top: null, bottom: null }, item.trace);
        return;
      }
      const slice = view.sliceAt(x, y);
      if (slice >= 0) this.select(slice);
      else this.cleared();
    }

    cleared() {
      this.view.selected = -1;
      this.view.arrows = [];
      this.view.span = null;
      this.details.replaceChildren();
      this.told();
      this.moved();
    }

    async select(slice) {
      const { view, data } = this;
      view.selected = slice;
      view.span = null;
      this.moved();
      await data.rest();
      if (view.selected !== slice) return;
      view.arrows = this.flows(slice);
      this.details.replaceChildren(...timelineDetails.slice(this, slice));
      this.told();
      this.moved();
    }

    // Selected, and where it can be seen.
    goTo(slice) {
      const { view, data } = this;
      const { begin, end } = data;
      const line = data.lineOf(slice);
      const keys = [`lane ${line.lane.number}`, `trace ${line.lane.trace}`];
      if (keys.map((key) => view.folded.delete(key)).some(Boolean)) this.relaid();
      const dur = end[slice] - begin[slice];
      const wide = dur / view.perPixel;
      const isSeen = begin[slice] >= view.from && end[slice] <= view.to;
      if (!isSeen || wide < 20) {
        const width = wide < 20 || wide > view.width ? Math.max(dur * 12, 100) : view.width * view.perPixel;
        const middle = (begin[slice] + end[slice]) / 2;
        view.show(middle - width / 2, middle + width / 2);
      }
      const item = view.itemOfLine.get(line.number);
      const y = view.y(item);
      if (y < timelineDraw.RULER || y + item.height > view.height) {
        this.scroller.scrollTop = item.top - view.height / 2;
        view.scrolled = this.scroller.scrollTop;
      }
      this.scroller.scrollIntoView({ block: "nearest" });
      return this.select(slice);
    }

    // From launches to what they launched, and from forward to backward.
    flows(slice) {
      const { data } = this;
      const forward = data.forward[slice];
      const back = data.backwardsOf(slice).slice(0, MOST_ARROWS);
      return [
        ...(forward >= 0 ? [[forward, slice]] : []),
        ...back.map((backward) => [slice, backward]),
        ...this.launchFlows(slice),
      ];
    }

    launchFlows(slice) {
      const { data } = this;
      if (data.launch[slice] >= 0) return [[data.launch[slice], slice]];
      if (data.laneOf(slice).sort !== "host") return [];
      return data.launchedIn(slice, MOST_ARROWS).map((launched) => [data.launch[launched], launched]);
    }

    hover(at, event) {
      const { view, data } = this;
      const slice = at ? view.sliceAt(at.x, at.y) : -1;
      const item = at ? view.itemAt(at.y) : null;
      const counter = item?.sort === "counter" ? item.counter : null;
      if (slice !== view.hovered) {
        view.hovered = slice;
        this.canvas.style.cursor = slice >= 0 ? "pointer" : "default";
        const shown = slice >= 0 ? slice : view.selected;
        view.arrows = shown >= 0 && data.isWhole ? this.flows(shown) : [];
        if (slice >= 0) this.tip.replaceChildren(...timelineDetails.tip(data, slice));
        this.moved();
      }
      this.tip.hidden = slice < 0 && !counter;
      if (counter) this.tip.replaceChildren(...timelineDetails.level(counter, view.time(at.x)));
      if (this.tip.hidden) return;
      const { clientWidth, clientHeight } = document.documentElement;
      const { offsetWidth, offsetHeight } = this.tip;
      const over = event.clientY + 16 + offsetHeight > clientHeight;
      const top = over ? event.clientY - offsetHeight - 12 : event.clientY + 16;
      this.tip.style.left = `${Math.max(Math.min(event.clientX + 12, clientWidth - offsetWidth - 4), 4)}px`;
      this.tip.style.top = `${Math.max(top, 4)}px`;
    }

    // ---- spans

    // What is dragged over: from one point to another, on the lanes between them.
    span(one, other) {
      const { view } = this;
      if (!one) {
        view.span = null;
        this.moved();
        return;
      }
      const times = [view.time(one.x), view.time(other.x)].sort((a, b) => a - b);
      const heights = [one.y, other.y].sort((a, b) => a - b);
      const isAll = one.y < timelineDraw.RULER;
      const on = (y) => y - timelineDraw.RULER + view.scrolled;
      view.span = {
        from: Math.max(Math.round(times[0]), 0),
        to: Math.min(Math.round(times[1]), this.data.head.span),
        top: isAll ? null : on(heights[0]),
        bottom: isAll ? null : on(heights[1]),
      };
      view.selected = -1;
      view.arrows = [];
      this.moved();
    }

    spanChosen() {
      if (this.view.span && this.view.span.to > this.view.span.from) this.chosen(this.view.span);
    }

    async chosen(span, trace = null) {
      const { view, data } = this;
      const { top, bottom } = span;
      const touched = (item) => top === null || (item.top + item.height > top && item.top < bottom);
      const lanes = new Set();
      for (const item of view.items) {
        if (item.lane && touched(item) && (trace === null || item.lane.trace === trace)) lanes.add(item.lane);
      }
      view.span = span;
      view.selected = -1;
      view.arrows = [];
      await data.rest();
      this.details.replaceChildren(...timelineDetails.span(this, span, lanes));
      this.told();
      this.moved();
    }

    seenSpan() {
      const { view } = this;
      const to = Math.min(Math.ceil(view.to), this.data.head.span);
      return this.chosen({ from: Math.max(Math.floor(view.from), 0), to, top: null, bottom: null });
    }

    // ---- words

    told() {
      const { data, view } = this;
      const { head } = data;
      const isSearch = Boolean(view.first) || Boolean(this.hits);
      this.before.disabled = this.next.disabled = !isSearch;
      if (this.hits) {
        const { events } = head.marks[Number(this.marks.value)];
        const all = events > this.hits.length ? ` (${count(events)} show it)` : "";
        this.status.textContent = `${count(this.place + 1)} of ${count(this.hits.length)}${all}`;
      } else if (view.first) this.status.textContent = `${count(this.total)} found`;
      else {
        const left = head.lanes.reduce((sum, lane) => sum + lane.left_out, 0);
        const { slices: unread, longest } = head.unread;
        const short = unread ? `; ${count(unread)} of ${duration(longest)} or less are left out of all lanes` : "";
        const untimed = head.untimed ? `; ${count(head.untimed)} without a usable time are not drawn` : "";
        const path = head.path.lacks ? `; critical path: ${head.path.lacks}` : "";
        const out = left ? `; ${count(left)} short ones are left out` : "";
        this.status.textContent = `${count(data.size)} ${data.size === 1 ? "slice" : "slices"} in ${duration(head.span)}${out}${short}${untimed}${path}`;
      }
    }

    // What a print does not show: times before and after, and lanes above and below.
    outOfView() {
      const { view, data } = this;
      const { span } = data.head;
      const seen = new Set(view.seen().filter((item) => item.lane).map((item) => item.lane));
      const hidden = data.head.lanes.length - seen.size;
      const [from, to] = [Math.max(view.from, 0), Math.min(view.to, span)];
      const words = [];
      if (from > 0 || to < span) words.push(`it shows ${duration(from)} to ${duration(to)} of ${duration(span)}`);
      if (hidden) words.push(`${count(hidden)} of ${count(data.head.lanes.length)} lanes are out of view`);
      this.printed.textContent = words.length ? `Printed as it was on the screen: ${words.join("; ")}.` : "";
    }

    // ---- keys

    key(key, isShifted) {
      const { view } = this;
      const work = {
        ArrowLeft: () => this.along(-1),
        ArrowRight: () => this.along(1),
        ArrowUp: () => this.across(-1),
        ArrowDown: () => this.across(1),
        Escape: () => this.cleared(),
        Home: () => this.all(),
        0: () => this.all(),
        f: () => view.selected >= 0 && this.zoomTo(view.selected),
        v: () => this.seenSpan(),
        "/": () => this.search.focus(),
        Enter: () => this.step(isShifted ? -1 : 1),
      }[key];
      work?.();
      return Boolean(work);
    }

    // To the slice before or after on the same line; first to one that is seen.
    along(by) {
      const { view, data } = this;
      if (view.selected < 0) return this.first();
      const line = data.lineOf(view.selected);
      const next = view.selected + by;
      if (next >= line.from && next < line.to) this.goTo(next);
    }

    // To the parent, or the first child; where there is none, to the line above or below.
    across(by) {
      const { view, data } = this;
      if (view.selected < 0) return this.first();
      const number = data.lineOf(view.selected).number + by;
      const line = data.lines[number];
      if (!line || line.from === line.to) return;
      const at = Math.min(data.firstAt(line, data.begin[view.selected]), line.to - 1);
      this.goTo(at);
    }

    first() {
      const { view, data } = this;
      for (const item of view.items) {
        if (item.sort !== "row" || !item.lane || item.line.from === item.line.to) continue;
        const at = data.firstAt(item.line, view.from);
        if (at < item.line.to) return void this.goTo(at);
      }
    }

    state() {
      const { view, data } = this;
      return {
        from: view.from,
        to: view.to,
        perPixel: view.perPixel,
        width: view.width,
        selected: view.selected,
        hovered: view.hovered,
        span: view.span,
        found: view.first ? this.total : null,
        slices: data.size,
        arrows: view.arrows,
        frames: this.frames,
        items: view.items.map(({ sort, title, top, height }) => ({ sort, title, top, height })),
      };
    }
  }

  return (element, head, text, options = {}) => new Timeline(element, head, text, options);
})();
