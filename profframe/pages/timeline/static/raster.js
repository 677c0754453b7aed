"use strict";

// Lines of slices as pixels: each pixel has the colour of what fills most of it, as strong as it is
// filled. What is narrower than a pixel is taken together, parts of a line at once.
const timelineRaster = (() => {
  const FAINTEST = 0.3;
  const APART = 5;

  class Raster {
    constructor() {
      this.width = 0;
      this.height = 0;
    }

    // A picture of so many pixels, all of it ground.
    clear(context, width, height, ground) {
      if (width !== this.width || height !== this.height) {
        this.image = context.createImageData(width, height);
        this.pixels = new Uint32Array(this.image.data.buffer);
        this.filled = new Float32Array(width);
        this.weight = new Float64Array(width);
        this.owner = new Int32Array(width);
        this.line = new Uint32Array(width);
        this.width = width;
        this.height = height;
      }
      this.ground = ground;
      this.pixels.fill(pixel(ground));
    }

    // One line. `view` has `from` (ns) and `scale` (pixels per ns); `paints` the colour of each name
    // as [red, green, blue]; `first` those that go before others.
    row(data, line, view, top, height, paints, first) {
      const { filled, weight, owner, width } = this;
      const { begin, end, what } = data;
      const { from, scale } = view;
      const until = from + width / scale;
      filled.fill(0);
      weight.fill(-1);
      const [small, large] = line.blocks;
      let i = data.firstAt(line, from);
      while (i < line.to && begin[i] < until) {
        const block = this.block(data, line, i, scale, large) ?? this.block(data, line, i, scale, small);
        if (block) {
          const x = Math.max(Math.floor((begin[i] - from) * scale), 0);
          const part = (i - line.from) / block.size;
          const slice = block.best[part];
          const most = (first?.[what[slice]] ? 1e18 : 0) + (end[slice] - begin[slice]);
          filled[x] += block.busy[part] * scale;
          if (most > weight[x]) {
            weight[x] = most;
            owner[x] = slice;
          }
          i += block.size;
          continue;
        }
        this.slice(i, (begin[i] - from) * scale, (end[i] - from) * scale, first?.[what[i]] ? 1e18 : 0, end[i] - begin[i]);
        i++;
      }
      this.paint(what, paints);
      this.copy(top, height);
    }

    // The part of a line that begins with a slice, if it is narrower than a pixel: the pixel that it
    // begins in has all of it.
    block(data, line, i, scale, blocks) {
      const place = i - line.from;
      if (place % blocks.size !== 0 || place / blocks.size >= blocks.busy.length) return null;
      return (line.reach[place + blocks.size - 1] - data.begin[i]) * scale < 1 ? blocks : null;
    }

    slice(i, left, right, ahead, dur) {
      const { filled, weight, owner, width } = this;
      const apart = right - left > APART ? 1 : 0;
      const low = Math.max(Math.floor(left), 0);
      const high = Math.min(Math.floor(right), width - 1);
      if (low === high) {
        filled[low] += Math.min(right, low + 1) - Math.max(left, low);
        if (dur + ahead > weight[low]) {
          weight[low] = dur + ahead;
          owner[low] = i;
        }
        return;
      }
      // Of the pixels at its ends it has a part; where they are wide, a gap keeps slices apart.
      for (let x = low; x <= high; x++) {
        const part = Math.min(right - apart, x + 1) - Math.max(left, x);
        if (part <= 0) continue;
        const mass = ahead + (part >= 1 ? 1e17 : part * dur);
        filled[x] += part;
        if (mass > weight[x]) {
          weight[x] = mass;
          owner[x] = i;
        }
      }
    }

    paint(what, paints) {
      const { filled, weight, owner, line, width, ground } = this;
      const empty = pixel(ground);
      for (let x = 0; x < width; x++) {
        if (weight[x] < 0) {
          line[x] = empty;
          continue;
        }
        const strength = Math.min(Math.max(filled[x], FAINTEST), 1);
        const colour = 3 * what[owner[x]];
        line[x] = mixed(paints, colour, ground, strength);
      }
    }

    copy(top, height) {
      const from = Math.max(top, 0);
      const to = Math.min(top + height, this.height);
      for (let y = from; y < to; y++) this.pixels.set(this.line, y * this.width);
    }

    // A rectangle of one colour.
    box(left, top, width, height, colour) {
      const from = Math.max(Math.round(left), 0);
      const to = Math.min(Math.round(left + width), this.width);
      if (to <= from) return;
      const value = pixel(colour);
      const last = Math.min(top + height, this.height);
      for (let y = Math.max(top, 0); y < last; y++) {
        this.pixels.fill(value, y * this.width + from, y * this.width + to);
      }
    }

    show(context) {
      context.putImageData(this.image, 0, 0);
    }
  }

  // Bytes of a pixel as canvases have them, on machines whose lowest byte comes first.
  const pixel = ([red, green, blue]) => ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0;

  function mixed(paints, at, ground, strength) {
    const red = ground[0] + (paints[at] - ground[0]) * strength;
    const green = ground[1] + (paints[at + 1] - ground[1]) * strength;
    const blue = ground[2] + (paints[at + 2] - ground[2]) * strength;
    return ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0;
  }

  return { Raster };
})();
