"use strict";

// Ways to a slice of a timeline: by name, from finding to finding, and from the tables of a page.
const timelineSearch = (() => {
  class Search {
    // Names with this text in them, or with the pieces of it that dots stand between.
    find(text) {
      const pieces = text.toLowerCase().split("\u2026").filter(Boolean);
      const matches = (name) => {
        let at = 0;
        return pieces.every((piece) => {
          const found = name.indexOf(piece, at);
          at = found + piece.length;
          return found >= 0;
        });
      };
      const { names } = this.data.head;
      const first = Uint8Array.from(names, (name) => Number(matches((name ?? "").toLowerCase())));
      this.sought(pieces.length ? first : null);
      if (this.search.value !== text) this.search.value = text;
    }

    findName(what) {
      const { names } = this.data.head;
      this.find(names[what] ?? "");
      this.sought(Uint8Array.from(names, (name) => Number(name === names[what])));
    }

    sought(first) {
      const { view, data } = this;
      view.first = first;
      this.hits = null;
      this.marks.selectedIndex = 0;
      data.blocks(first);
      for (const marked of data.annotations) marked?.blocks(first);
      view.coloured();
      this.total = first ? data.counts.reduce((sum, number, what) => sum + (first[what] ? number : 0), 0) : 0;
      this.told();
      this.moved();
    }

    mark(number) {
      const mark = this.data.head.marks[number];
      if (!mark) return;
      this.sought(null);
      this.search.value = "";
      this.marks.value = String(number);
      this.hits = mark.slices;
      this.place = -1;
      this.step(1);
    }

    // Scroll to a row with a match, where no row that is seen has one.
    reveal() {
      const { view, data } = this;
      const isMatch = (item) => {
        if (item.sort !== "row" || !item.lane) return false;
        for (let i = item.line.from; i < item.line.to; i++) {
          if (view.first[data.what[i]] && data.end[i] >= view.from && data.begin[i] <= view.to) return true;
        }
        return false;
      };
      if (!view.first || view.seen().some(isMatch)) return;
      const item = view.items.find(isMatch);
      if (!item) return;
      this.scroller.scrollTop = item.top - view.height / 2;
      view.scrolled = this.scroller.scrollTop;
      this.moved();
    }

    // To the next of what was searched for, or of what shows a finding.
    step(by) {
      if (this.hits) {
        this.place = (this.place + by + this.hits.length) % this.hits.length;
        this.goTo(this.hits[this.place]);
        return;
      }
      const slice = this.view.first ? this.neighbour(by) : -1;
      if (slice >= 0) this.goTo(slice);
    }

    // The next match by begin, and place of those at once; after the last one the first.
    neighbour(by) {
      const { data, view } = this;
      const { begin, what } = data;
      const at = view.selected;
      const now = at < 0 ? -Infinity : begin[at];
      const isAfter = (i) => by * (begin[i] - now) > 0 || (begin[i] === now && by * (i - at) > 0);
      const isBefore = (i, j) => j < 0 || by * (begin[i] - begin[j]) < 0 || (begin[i] === begin[j] && by * (i - j) < 0);
      let [next, first] = [-1, -1];
      for (let i = 0; i < data.size; i++) {
        if (!view.first[what[i]]) continue;
        if (isBefore(i, first)) first = i;
        if (i !== at && isAfter(i) && isBefore(i, next)) next = i;
      }
      return next >= 0 ? next : first;
    }

    // ---- from outside

    // The slice of an event; -1 where it is left out.
    async event(trace, event_id) {
      const { data } = this;
      await data.rest();
      for (let i = 0; i < data.size; i++) {
        if (data.event[i] === event_id && data.laneOf(i).trace === trace) return i;
      }
      return -1;
    }

    async goToEvent(trace, event_id) {
      const slice = await this.event(trace, event_id);
      if (slice >= 0) await this.goTo(slice);
      else this.status.textContent = `slice ${event_id} is left out`;
    }

    // All slices of a name, and the first one of a trace, or of a step.
    async goToName(name, trace, step = null) {
      const { data, view } = this;
      this.find(name);
      const i = step === null ? -1 : this.stepOf(trace, step);
      const from = i < 0 ? -Infinity : data.head.steps.begin[i];
      let first = -1;
      for (const line of data.lines) {
        if (line.lane.trace !== trace) continue;
        for (let slice = line.from; slice < line.to; slice++) {
          if (!view.first[data.what[slice]] || data.begin[slice] < from) continue;
          if (first < 0 || data.begin[slice] < data.begin[first]) first = slice;
        }
      }
      if (first >= 0) await this.goTo(first);
    }

    goToStream(trace, device, stream) {
      const { view } = this;
      if (view.folded.delete(`trace ${trace}`)) this.relaid();
      const item = view.items.find(
        ({ lane }) => lane?.trace === trace && lane.stream === stream && (device === null || lane.device === device),
      );
      if (item) this.scroller.scrollTop = item.top - view.height / 3;
      this.moved();
    }

    stepOf(trace, step) {
      const { steps } = this.data.head;
      return steps.step.findIndex((one, n) => one === step && steps.trace[n] === trace);
    }

    goToStep(trace, step) {
      const { steps } = this.data.head;
      const i = this.stepOf(trace, step);
      if (i < 0) return null;
      this.view.show(steps.begin[i], steps.end[i]);
      return this.chosen({ from: steps.begin[i], to: steps.end[i], top: null, bottom: null }, trace);
    }

    // Show a stretch of time by the clock of a trace, as a span.
    window(trace, from, to) {
      const zero = BigInt(this.data.head.traces[trace].zero);
      const [begin, end] = [Number(from - zero), Number(to - zero)];
      const room = Math.max((end - begin) * 0.5, 100);
      this.view.show(begin - room, end + room);
      this.moved();
      return this.chosen({ from: begin, to: Math.max(end, begin + 1), top: null, bottom: null }, trace);
    }
  }

  return { Search };
})();
