"use strict";

// Numbers for people: the same units and digits as profframe/show/units.py.
const format = (() => {
  const separated = new Intl.NumberFormat("en-US", { maximumFractionDigits: 20 });
  const fixed = (value, digits) =>
    value.toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits });

  function duration(ns) {
    const size = Math.abs(ns);
    if (size >= 999999500) return `${fixed(ns / 1e9, 3)} s`;
    if (size >= 999999.5) return `${(ns / 1e6).toFixed(3)} ms`;
    return `${(ns / 1e3).toFixed(3)} us`;
  }

  function stepped(value, base, close, units) {
    for (const unit of units) {
      value /= base;
      if (Math.abs(value) < close) return `${value.toFixed(2)} ${unit}`;
    }
    return null;
  }

  function bytes(number) {
    if (Math.abs(number) < 1023.5) return `${number.toFixed(0)} B`;
    const shown = stepped(number, 1024, 1023.995, ["KiB", "MiB", "GiB", "TiB"]);
    return shown ?? `${fixed(number / 1024 ** 5, 2)} PiB`;
  }

  // In steps of 1000, as data sheets have them.
  function thousands(number, unit) {
    if (Math.abs(number) < 999.5) return `${number.toFixed(0)} ${unit}`;
    const shown = stepped(number, 1000, 999.995, ["k", "M", "G", "T"].map((step) => step + unit));
    return shown ?? `${fixed(number / 1e15, 2)} P${unit}`;
  }

  // An energy or a power.
  function small(number, unit) {
    const size = Math.abs(number);
    if (size >= 999.9995) return `${fixed(number / 1e3, 3)} k${unit}`;
    if (size >= 0.9999995 || !size) return `${number.toFixed(3)} ${unit}`;
    if (size >= 0.0009999995) return `${(number * 1e3).toFixed(3)} m${unit}`;
    return `${(number * 1e6).toFixed(3)} u${unit}`;
  }

  const decimal = (value) => fixed(Number(value.toPrecision(6)), 0) === "0" || Math.abs(value) < 1e6
    ? String(Number(value.toPrecision(6)))
    : separated.format(Number(value.toPrecision(6)));

  // Nanoseconds since 1970; what is too small for a date is a duration.
  function date(ns) {
    if (ns < 1200000000n * 10n ** 9n) return duration(Number(ns));
    const whole = new Date(Number(ns / 10n ** 9n) * 1000).toISOString().slice(0, 19);
    return `${whole.replace("T", " ")}.${String(ns % 10n ** 9n).padStart(9, "0")} UTC`;
  }

  const rate = (value) => thousands(value, "B/s");
  const plain = (value) => String(value);

  // How a value of each sort is shown; units are named as in profframe/show/columns.py.
  const shows = {
    ns: duration,
    moment: duration,
    bytes,
    "bytes/s": rate,
    "GB/s": (value) => rate(value * 1e9),
    FLOP: (value) => thousands(value, "FLOP"),
    "FLOP/s": (value) => thousands(value, "FLOP/s"),
    J: (value) => small(value, "J"),
    W: (value) => small(value, "W"),
    share: (value) => `${(100 * value).toFixed(1)} %`,
    count: (value) => separated.format(value),
    number: plain,
    decimal,
    flag: (value) => (value ? "yes" : "no"),
    text: plain,
  };
  const units = new Set(["ns", "bytes", "bytes/s", "GB/s", "FLOP", "FLOP/s", "J", "W"]);

  return {
    shown: (sort, value) => (value === null ? "" : (shows[sort] ?? plain)(value)),
    unit: (sort) => (units.has(sort) ? sort : ""),
    count: (value) => separated.format(value),
    date,
  };
})();
