"use strict";

// Draws what is seen of a timeline: slices as pixels, then texts, lines and marks above them.
const timelineDraw = (() => {
  const { count, fitted } = drawing;
  const RULER = 24;
  const LABELLED = 28;
  const FONT = "11px system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', sans-serif";
  const MOST_UNDERLINES = 2000;
  const UNITS = [[1e9, "s"], [1e6, "ms"], [1e3, "us"], [1, "ns"]];

  function draw(view) {
    const { canvas, raster, ratio, width, height } = view;
    const pixels = [Math.max(1, Math.round(width * ratio)), Math.max(1, Math.round(height * ratio))];
    if (canvas.width !== pixels[0] || canvas.height !== pixels[1]) [canvas.width, canvas.height] = pixels;
    const context = canvas.getContext("2d", { alpha: false, willReadFrequently: true });
    raster.clear(context, ...pixels, view.colours.ground);
    const items = view.seen();
    for (const item of items) pixelsOf(view, item);
    raster.show(context);
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.font = FONT;
    context.textBaseline = "middle";
    context.direction = "ltr";
    grid(view, context);
    for (const item of items) textsOf(view, context, item);
    marks(view, context, items);
    for (const slice of new Set([view.selected, view.hovered])) if (slice >= 0) outline(view, context, slice);
    arrows(view, context);
    span(view, context);
    ruler(view, context);
  }

  // ---- pixels

  function pixelsOf(view, item) {
    const { raster, ratio, colours } = view;
    const top = Math.round(view.y(item) * ratio);
    const high = Math.max(Math.round((item.height - 1) * ratio), 1);
    const scaled = { from: view.from, scale: ratio / view.perPixel };
    if (item.sort === "row") {
      raster.row(item.data, item.line, scaled, top, high, view.paints, view.first);
    } else if (item.sort === "trace") {
      raster.box(0, top, raster.width, high, colours.raised);
    } else if (item.sort === "steps") {
      const { steps } = view.data.head;
      bands(view, item, steps, top, high, (i) => colours.bands[i % 2]);
    } else if (item.sort === "path") {
      const path = view.data.critical?.[item.trace];
      if (path) bands(view, item, path, top, high, (i) => colours.bounds[path.bound[i]]);
    }
  }

  // Boxes one after another; of those that are in one pixel the first.
  function bands(view, item, { trace, begin, end }, top, high, colour) {
    const { raster, ratio } = view;
    const scale = ratio / view.perPixel;
    let drawn = -1;
    for (let i = view.firstOf(begin, end); i < begin.length && begin[i] < view.to; i++) {
      if (trace[i] !== item.trace) continue;
      const right = (end[i] - view.from) * scale;
      if (right < drawn + 1) continue;
      const left = Math.max((begin[i] - view.from) * scale, drawn);
      raster.box(left, top, Math.max(right - left - (right - left > 4 ? 1 : 0), 1), high, colour(i));
      drawn = Math.floor(right);
    }
  }

  // ---- texts

  function textsOf(view, context, item) {
    const y = view.y(item);
    const { colours } = view;
    if (item.sort === "row") labels(view, context, item, y);
    else if (item.sort === "head" || item.sort === "trace") {
      const sign = view.folded.has(item.key) ? "\u25b8" : "\u25be";
      context.fillStyle = item.sort === "trace" ? colours.ink : colours.soft;
      const note = item.note ? `  (${item.note})` : "";
      const text = fitted(context, `${sign} ${item.title}${note}`, view.width - 8);
      backed(view, context, text, 4, y + item.height / 2, item.sort === "head");
    } else if (item.sort === "counter") counter(view, context, item, y);
    else if (item.sort === "steps") {
      const { steps } = view.data.head;
      named(view, context, item, steps, y, (i) => `step ${steps.step[i]}`);
    } else if (item.sort === "path") {
      context.fillStyle = colours.ink;
      backed(view, context, fitted(context, item.title, view.width - 8), 4, y + item.height / 2, true);
    }
  }

  function backed(view, context, text, x, y, isBacked) {
    if (isBacked) {
      const { fillStyle } = context;
      context.fillStyle = view.colours.veil;
      context.fillRect(x - 2, y - 8, context.measureText(text).width + 4, 16);
      context.fillStyle = fillStyle;
    }
    context.fillText(text, x, y);
  }

  function named(view, context, item, { trace, begin, end }, y, text) {
    context.fillStyle = view.colours.ink;
    for (let i = view.firstOf(begin, end); i < begin.length && begin[i] < view.to; i++) {
      const left = Math.max(view.x(begin[i]), 0);
      const room = Math.min(view.x(end[i]), view.width) - left;
      if (trace[i] === item.trace && room >= LABELLED) {
        context.fillText(fitted(context, text(i), room - 6), left + 3, y + item.height / 2);
      }
    }
  }

  // Names in slices that have room for some of it.
  function labels(view, context, item, y) {
    const { data, line } = item;
    const { perPixel, from, to, width } = view;
    const least = LABELLED * perPixel;
    let i = data.firstAt(line, from);
    const [small, large] = line.blocks;
    while (i < line.to && data.begin[i] < to) {
      const block = short(data, line, i, large, least) ?? short(data, line, i, small, least);
      if (block) {
        i += block.size;
        continue;
      }
      if (data.end[i] - data.begin[i] >= least) {
        const left = Math.max((data.begin[i] - from) / perPixel, 0);
        const room = Math.min((data.end[i] - from) / perPixel, width) - left;
        if (room >= LABELLED) {
          const what = data.what[i];
          context.fillStyle = view.inks[what];
          context.fillText(view.text(context, what, room - 7), left + 3, y + item.height / 2);
        }
      }
      i++;
    }
  }

  // The part of a line that begins with a slice, if none of its slices has room for a name.
  function short(data, line, i, blocks, least) {
    const place = i - line.from;
    if (place % blocks.size !== 0 || place / blocks.size >= blocks.busy.length) return null;
    return blocks.longest[place / blocks.size] < least ? blocks : null;
  }

  // ---- counters

  function counter(view, context, item, y) {
    const { begin, value, unit } = item.counter;
    const most = (item.counter.most ??= value.reduce((a, b) => Math.max(a, b), 0));
    const least = (item.counter.least ??= value.reduce((a, b) => Math.min(a, b), 0));
    const floor = y + item.height - 3;
    const high = item.height - 20;
    const level = (number) => floor - (high * (number - least)) / (most - least || 1);
    let i = Math.max(view.after(begin, view.from) - 1, 0);
    let last = 0;
    const to = (time, number) => {
      const x = Math.min(Math.max(view.x(time), 0), view.width);
      context.lineTo(x, level(last));
      context.lineTo(x, level(number));
      last = number;
    };
    context.beginPath();
    context.moveTo(Math.max(view.x(begin[i]), 0), level(0));
    for (; i < begin.length && begin[i] < view.to; i++) to(begin[i], value[i]);
    to(Math.max(view.data.head.span, begin.at(-1)), 0);
    context.closePath();
    context.fillStyle = view.colours.counter;
    context.globalAlpha = 0.55;
    context.fill();
    context.globalAlpha = 1;
    const of = ["device", "stream"].filter((key) => item.counter[key] !== null);
    const place = of.map((key) => `, ${key} ${item.counter[key]}`).join("");
    const text = `${item.counter.name}${place}: at most ${amount(most, unit)}`;
    context.fillStyle = view.colours.soft;
    backed(view, context, fitted(context, text, view.width - 8), 4, y + 8, true);
  }

  function amount(number, unit) {
    if (unit !== "bytes") return `${count(Number(number.toPrecision(6)))} ${unit}`.trim();
    let size = number;
    for (const step of ["B", "KiB", "MiB", "GiB"]) {
      if (Math.abs(size) < 1023.5) return `${step === "B" ? size.toFixed(0) : size.toFixed(2)} ${step}`;
      size /= 1024;
    }
    return `${size.toFixed(2)} TiB`;
  }

  // ---- marks

  // Findings above slices, and what the critical path is in below them.
  function marks(view, context, items) {
    const lines = new Set(items.filter((item) => item.sort === "row" && item.lane).map((item) => item.line.number));
    for (const mark of view.data.head.marks) {
      context.fillStyle = view.colours.severities[mark.severity] ?? view.colours.ink;
      for (const slice of mark.slices) {
        const box = seenBox(view, slice, lines);
        if (!box) continue;
        const x = Math.max(box.left, 4);
        context.beginPath();
        context.moveTo(x - 4, box.top - 4);
        context.lineTo(x + 4, box.top - 4);
        context.lineTo(x, box.top + 4);
        context.fill();
      }
    }
    for (const path of view.data.critical ?? []) underlines(view, context, path, lines);
  }

  function underlines(view, context, path, lines) {
    const from = view.firstOf(path.begin, path.end);
    const to = view.after(path.begin, view.to);
    if (to - from > MOST_UNDERLINES) return;
    context.fillStyle = view.colours.severities.high;
    for (let i = from; i < to; i++) {
      const box = path.slice[i] >= 0 && seenBox(view, path.slice[i], lines);
      if (!box) continue;
      const left = Math.max(view.x(path.begin[i]), box.left);
      const right = Math.min(view.x(path.end[i]), box.right);
      if (right > left) context.fillRect(left, box.top + box.height - 3, Math.max(right - left, 1), 2);
    }
  }

  function seenBox(view, slice, lines) {
    const { data } = view;
    if (data.begin[slice] > view.to || data.end[slice] < view.from) return null;
    return lines.has(data.lineOf(slice).number) ? view.box(slice) : null;
  }

  function outline(view, context, slice) {
    const box = view.box(slice);
    if (!box) return;
    context.strokeStyle = view.colours.ink;
    context.lineWidth = 2;
    const left = Math.max(box.left, -4);
    const right = Math.min(box.right, view.width + 4);
    context.strokeRect(left, box.top + 0.5, Math.max(right - left, 2), box.height - 2);
  }

  // From the call that launched to what it launched.
  function arrows(view, context) {
    context.strokeStyle = view.colours.ink;
    context.lineWidth = 1.25;
    for (const [from, to] of view.arrows) {
      const one = view.box(from);
      const other = view.box(to);
      if (!one || !other) continue;
      const [x, y] = [one.left + Math.min((one.right - one.left) / 2, 6), one.top + one.height / 2];
      const [right, low] = [other.left, other.top + other.height / 2];
      const bend = Math.max(Math.abs(right - x) / 2, 20);
      context.globalAlpha = 0.75;
      context.beginPath();
      context.moveTo(x, y);
      context.bezierCurveTo(x + bend, y, right - bend, low, right, low);
      context.stroke();
      context.beginPath();
      context.moveTo(right - 5, low - 3.5);
      context.lineTo(right, low);
      context.lineTo(right - 5, low + 3.5);
      context.stroke();
      context.globalAlpha = 1;
    }
  }

  function span(view, context) {
    if (!view.span) return;
    const left = view.x(view.span.from);
    const right = view.x(view.span.to);
    context.fillStyle = view.colours.accent;
    context.globalAlpha = 0.14;
    const top = view.span.top === null ? 0 : view.span.top - view.scrolled + RULER;
    const bottom = view.span.bottom === null ? view.height : view.span.bottom - view.scrolled + RULER;
    context.fillRect(left, top, right - left, bottom - top);
    context.globalAlpha = 1;
    context.fillRect(left, top, 1, bottom - top);
    context.fillRect(right - 1, top, 1, bottom - top);
  }

  // ---- the axis

  function step(perPixel) {
    const least = 90 * perPixel;
    const power = 10 ** Math.floor(Math.log10(least));
    return [1, 2, 5, 10].map((times) => times * power).find((size) => size >= least);
  }

  function ticks(view) {
    const size = Math.max(step(view.perPixel), 1e-3);
    const first = Math.ceil(view.from / size);
    const last = Math.floor(view.to / size);
    return { size, times: Array.from({ length: Math.max(last - first + 1, 0) }, (_, i) => (first + i) * size) };
  }

  function grid(view, context) {
    context.fillStyle = view.colours.grid;
    for (const time of ticks(view).times) context.fillRect(Math.round(view.x(time)), RULER, 1, view.height);
  }

  function ruler(view, context) {
    const { size, times } = ticks(view);
    context.fillStyle = view.colours.raisedText;
    context.fillRect(0, 0, view.width, RULER - 1);
    context.fillStyle = view.colours.soft;
    const [unit, name] = UNITS.find(([least]) => Math.max(view.to, size) >= least) ?? UNITS.at(-1);
    const digits = Math.max(0, Math.min(12, -Math.floor(Math.log10(size / unit) + 1e-9)));
    const shown = new Intl.NumberFormat("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits });
    for (const time of times) {
      const x = Math.round(view.x(time));
      context.fillRect(x, RULER - 7, 1, 6);
      context.fillText(`${shown.format(time / unit)} ${name}`, x + 4, RULER / 2);
    }
  }

  return { draw, amount, RULER };
})();
