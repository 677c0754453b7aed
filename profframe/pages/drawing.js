"use strict";

// What scripts that draw on a canvas share: texts, numbers, elements, colours.
const drawing = (() => {
  const LONGEST = 300;

  // What profframe/show/units.py takes for unsafe, as escapes, so that every text is one line.
  const HIDDEN =
    /[\0-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\u{e0000}-\u{e007f}\ud800-\udfff]/gu;
  const escaped = (character) => {
    const digits = character.codePointAt(0).toString(16);
    return digits.length > 4 ? `\\U${digits.padStart(8, "0")}` : `\\u${digits.padStart(4, "0")}`;
  };
  const visible = (text) => text.replace(HIDDEN, escaped);
  const shortened = (text) =>
    text.length > LONGEST ? `${visible(text.slice(0, LONGEST))}\u2026` : visible(text);

  function duration(ns) {
    const size = Math.abs(ns);
    const fixed = (value) =>
      value.toLocaleString("en-US", { minimumFractionDigits: 3, maximumFractionDigits: 3 });
    if (size >= 999999500) return `${fixed(ns / 1e9)} s`;
    if (size >= 999999.5) return `${(ns / 1e6).toFixed(3)} ms`;
    return `${(ns / 1e3).toFixed(3)} us`;
  }
  const count = (value) => value.toLocaleString("en-US");
  const percent = (part, whole) => (whole ? `${((100 * part) / whole).toFixed(1)} %` : "0 %");

  // Of a Python function its name comes first: a narrow box has no room for the path.
  const FUNCTION = /^(.{1,1000})\((\d{1,9})\): (.+)$/;
  function label(name, kind) {
    const found = kind === "python" ? FUNCTION.exec(shortened(name)) : null;
    return found ? `${found[3]}  ${found[1]}(${found[2]})` : shortened(name);
  }

  function make(tag, name, text) {
    const made = document.createElement(tag);
    if (name) made.className = name;
    if (text !== undefined) made.textContent = text;
    return made;
  }

  function channels(colour) {
    const found = colour.match(/[\d.]+/g)?.slice(0, 3).map(Number);
    return found?.length === 3 ? found : [128, 128, 128];
  }

  // A little lighter or darker, by the name, so that neighbours can be told apart.
  function varied(shade, name) {
    let hash = 0;
    for (let i = 0; i < Math.min(name.length, 80); i++) hash = (hash * 31 + name.charCodeAt(i)) | 0;
    const by = ((hash >>> 0) % 100) / 100 - 0.5;
    const towards = by < 0 ? 0 : 255;
    return shade.map((channel) => Math.round(channel + (towards - channel) * Math.abs(by) * 0.36));
  }

  function contrast(shade) {
    const [red, green, blue] = shade.map((channel) => {
      const part = channel / 255;
      return part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.22 ? "#111" : "#fff";
  }

  // As much of a text as has room, with dots where some is missing.
  function fitted(context, text, room) {
    if (text.length * 12 < room || context.measureText(text).width <= room) return text;
    let low = 0;
    let high = text.length;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (context.measureText(`${text.slice(0, middle)}\u2026`).width <= room) low = middle;
      else high = middle - 1;
    }
    return low ? `${text.slice(0, low)}\u2026` : "";
  }

  return { visible, shortened, duration, count, percent, label, make, channels, varied, contrast, fitted };
})();
