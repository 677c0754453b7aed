"use strict";

// The columns of a timeline, as profframe/pages/timeline/encoding.py packs them, in typed arrays.
//
// Slices are in the order in which they are drawn: by line (a row of a lane) and begin. A line has
// `from` and `to`, the places of its slices. Times are nanoseconds since the left edge.
const timelineData = (() => {
  const SMALL = 16;
  const LARGE = 256;

  function bytesOf(text) {
    if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
    const characters = atob(text);
    const bytes = new Uint8Array(characters.length);
    for (let i = 0; i < bytes.length; i++) bytes[i] = characters.charCodeAt(i);
    return bytes;
  }

  async function inflated(bytes) {
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    return new Uint8Array(await new Response(stream).arrayBuffer());
  }

  // The planes of a column put together: numbers, and where there is none.
  function numbers(planes, column) {
    const { values: size, width, signed } = column;
    const missing = column.missing ? planes.subarray(width * size) : null;
    if (width > 4) return { out: wide(planes, size, width, signed), missing };
    const out = narrow(planes, size, width);
    if (!signed) return { out: new Uint32Array(out.buffer), missing };
    for (let i = 0; i < size; i++) out[i] = (out[i] >>> 1) ^ -(out[i] & 1);
    return { out, missing };
  }

  // One loop for each width: this is the first thing that a page does, before it is compiled well.
  function narrow(planes, size, width) {
    const out = new Int32Array(size);
    const [two, three, four] = [size, 2 * size, 3 * size];
    if (width === 1) for (let i = 0; i < size; i++) out[i] = planes[i];
    else if (width === 2) for (let i = 0; i < size; i++) out[i] = planes[i] | (planes[two + i] << 8);
    else if (width === 3) {
      for (let i = 0; i < size; i++) {
        out[i] = planes[i] | (planes[two + i] << 8) | (planes[three + i] << 16);
      }
    } else {
      for (let i = 0; i < size; i++) {
        out[i] = planes[i] | (planes[two + i] << 8) | (planes[three + i] << 16) | (planes[four + i] << 24);
      }
    }
    return out;
  }

  function wide(planes, size, width, signed) {
    const out = new Float64Array(size);
    for (let plane = width - 1; plane >= 0; plane--) {
      const from = plane * size;
      for (let i = 0; i < size; i++) out[i] = out[i] * 256 + planes[from + i];
    }
    if (signed) for (let i = 0; i < size; i++) out[i] = out[i] % 2 ? -(out[i] + 1) / 2 : out[i] / 2;
    return out;
  }

  // Sums of differences; -1 where a value is missing.
  function summed({ out, missing }, Kind) {
    const values = new Kind(out.length);
    for (let i = 0, last = 0; i < out.length; i++) {
      if (missing?.[i]) values[i] = -1;
      else values[i] = last += out[i];
    }
    return values;
  }

  class Data {
    constructor(head, text) {
      this.head = head;
      this.packed = bytesOf(text);
      this.columns = new Map();
      let from = 0;
      for (const column of head.columns) {
        this.columns.set(column.name, { ...column, from });
        from += column.bytes;
      }
      this.size = head.slices;
      this.lines = [];
      let at = 0;
      head.lanes.forEach((lane, number) => {
        lane.number = number;
        lane.lines = lane.rows.map((rows, row) => {
          const line = { lane, row, number: this.lines.length, from: at, to: (at += rows) };
          this.lines.push(line);
          return line;
        });
      });
    }

    async column(name) {
      const column = this.columns.get(name);
      const end = column.from + column.bytes;
      return numbers(await inflated(this.packed.subarray(column.from, end)), column);
    }

    // All other columns of a slice that have a value, as pairs of a name and a number or text.
    async others(slice) {
      const { names, texts } = this.head.others;
      const values = await Promise.all((names ?? []).map((name) => this.other(`other.${name}`, texts[name], slice)));
      return (names ?? []).map((name, i) => [name, values[i]]).filter(([, value]) => value !== null);
    }

    async other(name, texts, slice) {
      const { out, missing } = await this.column(name);
      if (missing?.[slice]) return null;
      if (texts) return texts[out[slice]];
      let sum = 0;
      for (let i = 0; i <= slice; i++) if (!missing?.[i]) sum += out[i];
      return sum;
    }

    // What is needed to draw.
    async open() {
      const [gap, dur, what] = await Promise.all(["gap", "dur", "what"].map((name) => this.column(name)));
      this.begin = new Float64Array(this.size);
      this.end = new Float64Array(this.size);
      this.what = what.out;
      this.isUnended = dur.missing;
      for (const line of this.lines) {
        let end = 0;
        let reach = -Infinity;
        for (let i = line.from; i < line.to; i++) {
          const begin = (this.begin[i] = end + gap.out[i]);
          end = this.end[i] = begin + dur.out[i];
          if (end < reach) line.overlaps = true;
          else reach = end;
        }
        this.reaches(line);
      }
      this.counts = new Uint32Array(this.head.names.length);
      for (let i = 0; i < this.size; i++) this.counts[this.what[i]] += 1;
    }

    // How far a line is taken at each slice: its end, or a later end of one before it.
    reaches(line) {
      line.reach = this.end.subarray(line.from, line.to);
      if (!line.overlaps) return;
      line.reach = line.reach.slice();
      for (let i = 1; i < line.reach.length; i++) {
        line.reach[i] = Math.max(line.reach[i], line.reach[i - 1]);
      }
    }

    // Parts of a line of the same number of slices, with the time in them and the longest slice.
    // `first` says of each name how it goes before others, whatever their lengths.
    blocks(first) {
      const sizes = [SMALL, LARGE];
      for (const line of this.lines) {
        line.blocks = sizes.map((size) => {
          const parts = Math.floor((line.to - line.from) / size);
          const busy = new Float64Array(parts);
          const best = new Uint32Array(parts);
          const longest = new Float64Array(parts);
          for (let part = 0, i = line.from; part < parts; part++) {
            let most = -1;
            for (const stop = i + size; i < stop; i++) {
              const dur = this.end[i] - this.begin[i];
              busy[part] += dur;
              if (dur > longest[part]) longest[part] = dur;
              const weight = first?.[this.what[i]] ? dur + 1e18 : dur;
              if (weight > most) {
                most = weight;
                best[part] = i;
              }
            }
          }
          return { size, busy, best, longest };
        });
      }
    }

    // What is shown of a slice that is chosen: once, when there is time or it is needed.
    rest() {
      this.pending ??= this.openRest();
      return this.pending;
    }

    async openRest() {
      await this.path();
      const names = ["parent", "self", "event", "launch", "op", "forward", "step", "dims"];
      const [parent, self, event, launch, op, forward, step, dims] = await Promise.all(
        names.map((name) => this.column(name)),
      );
      this.parent = this.parents(parent.out);
      this.self = this.selves(self);
      this.event = summed(event, Float64Array);
      this.launch = summed(launch, Int32Array);
      this.op = new Int32Array(this.size).fill(-1);
      for (let i = 0; i < this.size; i++) {
        if (op.missing?.[i]) continue;
        this.op[i] = op.out[i] + (this.launch[i] < 0 ? 0 : this.parent[this.launch[i]]);
      }
      this.forward = summed(forward, Int32Array);
      this.backwards();
      this.step = summed(step, Float64Array);
      this.isWithoutStep = step.missing;
      this.dims = dims.out;
      this.isWithoutDims = dims.missing;
      this.launches();
      this.isWhole = true;
    }

    // The likely parent is the last slice that has begun on the line above.
    parents(beyond) {
      const parent = new Int32Array(this.size);
      for (const line of this.lines) {
        const above = line.row && line.lane.sort === "host" ? this.lines[line.number - 1] : null;
        let around = above ? above.from - 1 : -1;
        for (let i = line.from; i < line.to; i++) {
          if (above) while (around + 1 < above.to && this.begin[around + 1] <= this.begin[i]) around++;
          parent[i] = beyond[i] + (above && around >= above.from ? around : -1);
        }
      }
      return parent;
    }

    selves({ out, missing }) {
      const self = new Float64Array(this.size);
      for (let i = 0; i < this.size; i++) {
        const dur = this.end[i] - this.begin[i];
        self[i] += out[i] + dur;
        if (this.parent[i] >= 0) self[this.parent[i]] -= dur;
      }
      this.isWithoutSelf = missing;
      return self;
    }

    // What was launched, in the order of the calls: `launched` from `launchedFrom[call]` on.
    launches() {
      const order = [];
      for (let i = 0; i < this.size; i++) if (this.launch[i] >= 0) order.push(i);
      this.launched = Uint32Array.from(order).sort((a, b) => this.launch[a] - this.launch[b] || a - b);
      this.launchCalls = this.launched.map((i) => this.launch[i]);
    }

    // What went back through a slice: `backward` from `backwardOf[forward]` on.
    backwards() {
      const order = [];
      for (let i = 0; i < this.size; i++) if (this.forward[i] >= 0) order.push(i);
      this.backward = Uint32Array.from(order).sort((a, b) => this.forward[a] - this.forward[b] || a - b);
      this.backwardOf = this.backward.map((i) => this.forward[i]);
    }

    backwardsOf(slice) {
      const { backwardOf, backward } = this;
      const from = firstWhere(0, backwardOf.length, (i) => backwardOf[i] >= slice);
      const to = firstWhere(from, backwardOf.length, (i) => backwardOf[i] > slice);
      return [...backward.subarray(from, to)];
    }

    // Slices of devices that calls launched within a slice of a host: so many of them at most.
    launchedIn(slice, most = Infinity) {
      const lane = this.laneOf(slice);
      const found = [];
      for (const line of lane.lines) {
        const from = firstWhere(line.from, line.to, (i) => this.begin[i] >= this.begin[slice]);
        const to = firstWhere(from, line.to, (i) => this.begin[i] > this.end[slice]);
        const { launchCalls } = this;
        let at = firstWhere(0, launchCalls.length, (i) => launchCalls[i] >= from);
        for (; at < launchCalls.length && launchCalls[at] < to && found.length < most; at++) {
          if (this.isInside(launchCalls[at], slice)) found.push(this.launched[at]);
        }
      }
      return found;
    }

    isInside(slice, outer) {
      for (let at = slice; at >= 0; at = this.parent[at]) if (at === outer) return true;
      return false;
    }

    lineOf(slice) {
      const after = firstWhere(0, this.lines.length, (i) => this.lines[i].from > slice);
      let number = after - 1;
      while (this.lines[number].to <= slice) number--;
      return this.lines[number];
    }

    laneOf(slice) {
      return this.lineOf(slice).lane;
    }

    // The place of the first slice of a line that is not over at a moment.
    firstAt(line, time) {
      const { reach, from } = line;
      return from + firstWhere(0, reach.length, (i) => reach[i] >= time);
    }

    // The slice of a line at a moment, or nearest to it and no farther than so many ns; or -1.
    at(line, time, near) {
      const after = firstWhere(line.from, line.to, (i) => this.begin[i] > time);
      let best = -1;
      let distance = near;
      for (let i = after - 1; i >= line.from && line.reach[i - line.from] >= time - near; i--) {
        if (this.end[i] >= time) return i;
        if (time - this.end[i] <= distance) [best, distance] = [i, time - this.end[i]];
        if (!line.overlaps) break;
      }
      if (after < line.to && this.begin[after] - time < distance) best = after;
      return best;
    }

    // The critical path, by trace: stretches that follow one another.
    async path() {
      if (!this.columns.has("path_begin")) return;
      const names = ["path_begin", "path_dur", "path_slice", "path_trace", "path_bound"];
      const [begin, dur, slice, trace, bound] = await Promise.all(names.map((name) => this.column(name)));
      const starts = summed(begin, Float64Array);
      const slices = summed(slice, Int32Array);
      const places = this.head.traces.map(() => []);
      for (let i = 0; i < starts.length; i++) places[trace.out[i]].push(i);
      this.critical = places.map((those) => ({
        begin: Float64Array.from(those, (i) => starts[i]),
        end: Float64Array.from(those, (i) => starts[i] + dur.out[i]),
        slice: Int32Array.from(those, (i) => slices[i]),
        trace: Uint32Array.from(those, (i) => trace.out[i]),
        bound: Uint32Array.from(those, (i) => bound.out[i]),
      }));
    }

    // Some slices by themselves, as lines that are drawn as others are; `ids` says which they are.
    part(rows) {
      const part = Object.create(Data.prototype);
      const ids = rows.flat();
      const copied = (values, Kind) => Kind.from(ids, (i) => values[i]);
      part.begin = copied(this.begin, Float64Array);
      part.end = copied(this.end, Float64Array);
      part.what = copied(this.what, Uint32Array);
      part.ids = Int32Array.from(ids);
      let from = 0;
      part.lines = rows.map((row, number) => {
        const line = { row: number, number, from, to: (from += row.length), overlaps: true };
        part.reaches(line);
        return line;
      });
      return part;
    }

    annotationsOf(trace) {
      this.annotations ??= this.head.traces.map((_, number) => timelineLayout.annotations(this, number));
      return this.annotations[trace];
    }

    // All that is known of a slice.
    facts(slice) {
      const { head } = this;
      const what = this.what[slice];
      const lane = this.laneOf(slice);
      return {
        slice,
        name: head.names[what] ?? "(no name)",
        kind: head.kinds[what],
        category: head.categories[what],
        begin: this.begin[slice],
        dur: this.isUnended?.[slice] ? null : this.end[slice] - this.begin[slice],
        self: this.isWithoutSelf?.[slice] ? null : this.self[slice],
        step: this.isWithoutStep?.[slice] ? null : this.step[slice],
        dims: this.isWithoutDims?.[slice] ? null : (head.dims[this.dims[slice]] ?? null),
        event: this.event[slice],
        parent: this.parent[slice],
        launch: this.launch[slice],
        op: this.op[slice],
        forward: this.forward[slice],
        lane,
        trace: head.traces[lane.trace],
      };
    }
  }

  // The first number from `low` to `high` for which something holds that holds for all after it.
  function firstWhere(low, high, holds) {
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (holds(middle)) high = middle;
      else low = middle + 1;
    }
    return low;
  }

  return { Data, firstWhere };
})();
