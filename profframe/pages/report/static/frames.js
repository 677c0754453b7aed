"use strict";

// The answers: columns of numbers, and of ids of texts that are in the page once.
const frames = (() => {
  const page = JSON.parse(document.getElementById("data").textContent);
  const texts = page.texts;

  class Column {
    constructor(stored) {
      Object.assign(this, stored);
      this.isText = stored.ids !== undefined;
      this.isNumber = !this.isText || stored.exact === true;
    }

    // What is compared and searched: a text, a number, or a BigInt.
    value(row) {
      if (!this.isText) return this.values[row];
      const id = this.ids[row];
      if (id === null) return null;
      return this.exact ? BigInt(texts[id]) : texts[id];
    }

    // Characters of the longest text.
    longest() {
      return this.ids.reduce((most, id) => Math.max(most, id === null ? 0 : texts[id].length), 0);
    }

    shown(row) {
      const value = this.value(row);
      if (value === null) return "";
      if (typeof value !== "bigint") return format.shown(this.sort, value);
      if (this.sort === "ns") return format.date(value);
      return this.sort === "number" ? String(value) : format.count(value);
    }

    // The value as the answer has it, as text.
    stated(row) {
      const value = this.value(row);
      if (value === null) return "";
      if (this.sort === "moment") {
        const base = this.bases[Array.isArray(this.base) ? this.base[row] : this.base];
        return String(BigInt(base) + BigInt(value));
      }
      return String(value);
    }

    // The exact value with its unit, for a tooltip.
    exactly(row) {
      const value = this.value(row);
      if (value === null || this.sort === "text" || this.sort === "flag") return "";
      if (this.sort === "moment") {
        return `${format.count(value)} ns after the start of the trace (${this.stated(row)} ns)`;
      }
      return `${format.count(value)} ${format.unit(this.sort)}`.trim();
    }
  }

  class Frame {
    constructor(stored) {
      this.rows = stored.rows;
      this.columns = stored.columns.map((column) => new Column(column));
    }

    // Rows as objects, as Vega takes them.
    objects() {
      const rows = Array.from({ length: this.rows }, () => ({}));
      for (const column of this.columns) {
        for (let row = 0; row < this.rows; row++) {
          const value = column.value(row);
          rows[row][column.name] = typeof value === "bigint" ? Number(value) : value;
        }
      }
      return rows;
    }

    // Arrays by the names of their columns.
    arrays() {
      const rows = Array.from({ length: this.rows }, (_, row) => row);
      return Object.fromEntries(
        this.columns.map((column) => [column.name, rows.map((row) => column.value(row))]),
      );
    }
  }

  const made = new Map();
  return {
    page,
    of: (name) => {
      if (!made.has(name)) made.set(name, new Frame(page.frames[name]));
      return made.get(name);
    },
  };
})();
