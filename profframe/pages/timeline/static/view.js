"use strict";

// What of a timeline is seen, and how it looks: time and pixels, items and colours.
const timelineView = (() => {
  const { channels, varied, contrast, label, fitted } = drawing;
  const { firstWhere } = timelineData;
  const { RULER } = timelineDraw;
  const LEAST_PER_PIXEL = 0.01;
  const SEVERITIES = ["high", "medium", "low"];

  class View {
    constructor(data, canvas, scroller, box) {
      this.data = data;
      this.canvas = canvas;
      this.scroller = scroller;
      this.box_ = box;
      this.raster = new timelineRaster.Raster();
      this.folded = new Set();
      this.selected = -1;
      this.hovered = -1;
      this.arrows = [];
      this.span = null;
      this.first = null;
      this.from = 0;
      this.perPixel = 1;
      this.texts = new Map();
      this.scrolled = 0;
    }

    // ---- time and pixels

    get to() {
      return this.from + this.width * this.perPixel;
    }

    x(time) {
      return (time - this.from) / this.perPixel;
    }

    time(x) {
      return this.from + x * this.perPixel;
    }

    // The first of some stretches, which follow one another, that is not over.
    firstOf(begin, end) {
      return firstWhere(0, begin.length, (i) => end[i] >= this.from);
    }

    after(begin, time) {
      return firstWhere(0, begin.length, (i) => begin[i] > time);
    }

    // Show from one moment to another: all of it at most, with a little at the ends.
    show(from, to) {
      const { span } = this.data.head;
      const most = (span * 1.04) / this.width;
      this.perPixel = Math.min(Math.max((to - from) / this.width, LEAST_PER_PIXEL), most);
      const middle = (from + to) / 2;
      const half = (this.width * this.perPixel) / 2;
      const margin = Math.min(span * 0.02, half / 2);
      const low = -margin;
      const high = span + margin - 2 * half;
      this.from = Math.max(Math.min(middle - half, high), low);
      if (high < low) this.from = (span - 2 * half) / 2;
    }

    zoom(factor, x) {
      const at = this.time(x);
      const per = this.perPixel * factor;
      this.show(at - x * per, at + (this.width - x) * per);
    }

    pan(pixels) {
      this.show(this.from + pixels * this.perPixel, this.to + pixels * this.perPixel);
    }

    // ---- items

    laid() {
      const { items, height } = timelineLayout.items(this.data, this.folded);
      this.items = items;
      this.total = height + RULER;
      this.itemOfLine = new Map();
      for (const item of items) if (item.sort === "row" && item.lane) this.itemOfLine.set(item.line.number, item);
    }

    y(item) {
      return item.top - this.scrolled + RULER;
    }

    seen() {
      const { items, scrolled, height } = this;
      const from = firstWhere(0, items.length, (i) => items[i].top + items[i].height > scrolled);
      const to = firstWhere(from, items.length, (i) => items[i].top >= scrolled + height - RULER);
      return items.slice(from, to);
    }

    itemAt(y) {
      const at = y - RULER + this.scrolled;
      const { items } = this;
      const number = firstWhere(0, items.length, (i) => items[i].top > at) - 1;
      const item = items[number];
      return item && at < item.top + item.height && y >= RULER ? item : null;
    }

    // The slice at a point, or nearest to it on its line.
    sliceAt(x, y) {
      const item = this.itemAt(y);
      if (item?.sort === "path") {
        const critical = this.data.critical?.[item.trace];
        if (!critical) return -1;
        const time = this.time(x);
        const i = this.after(critical.begin, time) - 1;
        return i >= 0 && critical.end[i] >= time ? critical.slice[i] : -1;
      }
      if (item?.sort !== "row") return -1;
      const slice = item.data.at(item.line, this.time(x), 3 * this.perPixel);
      return slice >= 0 && item.data.ids ? item.data.ids[slice] : slice;
    }

    // Where a slice is on the canvas; null in what is folded.
    box(slice) {
      const item = this.itemOfLine.get(this.data.lineOf(slice).number);
      if (!item) return null;
      return {
        left: this.x(this.data.begin[slice]),
        right: this.x(this.data.end[slice]),
        top: this.y(item),
        height: item.height,
      };
    }

    // ---- looks

    sized() {
      this.width = Math.max(this.scroller.clientWidth, 1);
      this.ratio = window.devicePixelRatio || 1;
      const most = this.scroller.clientHeight || this.total;
      this.height = Math.max(Math.min(this.total, most), RULER + 20);
      this.canvas.style.height = `${this.height}px`;
    }

    colour(value) {
      const probe = drawing.make("i");
      probe.style.color = value;
      this.box_.append(probe);
      const found = channels(getComputedStyle(probe).color);
      probe.remove();
      return found;
    }

    // Colours of the theme: of each name that of its kind, a little varied.
    themed() {
      const { head } = this.data;
      const css = ([red, green, blue], part = 1) => `rgb(${red} ${green} ${blue} / ${part})`;
      const theme = (name) => this.colour(`var(--t-${name})`);
      const pair = (name) => {
        const [light, dark] = head.colours[name] ?? head.colours.others;
        return this.colour(`light-dark(${light}, ${dark})`);
      };
      const ground = theme("page");
      const ink = theme("ink");
      const raised = theme("raised");
      const line = theme("line");
      this.colours = {
        ground,
        raised,
        raisedText: css(raised),
        ink: css(ink),
        soft: css(theme("soft")),
        accent: css(theme("accent")),
        grid: css(line, 0.45),
        veil: css(ground, 0.72),
        counter: css(pair("allocated")),
        bands: [raised, line],
        bounds: head.path.bounds.map(pair),
        severities: Object.fromEntries(SEVERITIES.map((name) => [name, css(pair(name))])),
      };
      const kinds = new Map([...new Set(head.kinds)].map((kind) => [kind, pair(kind)]));
      this.kinds = kinds;
      this.shades = head.names.map((name, what) => varied(kinds.get(head.kinds[what]), name ?? ""));
      this.texts.clear();
      this.coloured();
    }

    // What was searched for has its colour, all else is faint.
    coloured() {
      const { ground } = this.colours;
      const isFaint = (what) => this.first !== null && !this.first[what];
      const faded = this.shades.map((shade, what) =>
        isFaint(what) ? shade.map((channel, i) => Math.round(ground[i] + (channel - ground[i]) * 0.28)) : shade,
      );
      this.paints = Float32Array.from(faded.flat());
      this.inks = faded.map((shade, what) => (isFaint(what) ? this.colours.soft : contrast(shade)));
    }

    // The name, or as much of it as has room.
    text(context, what, room) {
      const { names, kinds } = this.data.head;
      const key = what * 4096 + Math.min(Math.floor(room / 6), 4095);
      let text = this.texts.get(key);
      if (text === undefined) {
        if (this.texts.size > 50_000) this.texts.clear();
        text = fitted(context, label(names[what] ?? "(no name)", kinds[what]), Math.floor(room / 6) * 6);
        this.texts.set(key, text);
      }
      return text;
    }
  }

  return { View };
})();
