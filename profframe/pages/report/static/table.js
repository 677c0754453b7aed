"use strict";

// A table of one frame: sorted by its headers, searched, and as long as is asked for.
class Table {
  static FIRST = 12;
  static MORE = 100;
  static NARROW = matchMedia("(max-width: 600px)");

  constructor(box) {
    this.box = box;
    this.frame = frames.of(box.dataset.frame);
    this.all = false;
    this.sought = "";
    this.limit = Table.FIRST;
    this.order = Array.from({ length: this.frame.rows }, (_, row) => row);
    this.sorted = null;
    this.numbered = new Map();
    this.isPlaced = places.has(box) && this.order.some((row) => places.of(this.frame, row));
    this.#build();
    this.#sortFirst();
    this.#draw();
    Table.NARROW.addEventListener("change", () => {
      this.#drawHead();
      this.#draw();
    });
  }

  #build() {
    const box = this.box;
    const tools = element("div", { class: "tools" });
    if (this.frame.rows > Table.FIRST) {
      const search = element("input", {
        type: "search",
        placeholder: "Search",
        "aria-label": `Search ${box.dataset.label}`,
        spellcheck: "false",
      });
      search.addEventListener("input", () => this.#seek(search.value));
      tools.append(search);
    }
    this.status = element("span", { class: "status", role: "status" });
    tools.append(this.status);
    if (this.frame.columns.some((column) => !column.main)) {
      tools.append(this.#toggle(`All ${this.frame.columns.length} columns`, (on) => {
        this.all = on;
        this.#drawHead();
      }));
    }
    this.long = new Set(
      this.frame.columns.filter((one) => one.isText && !one.exact && one.longest() > 40),
    );
    const whole = box.dataset.whole === "true";
    box.classList.toggle("whole", whole);
    if (this.long.size) {
      const show = (on) => box.classList.toggle("whole", on);
      tools.append(this.#toggle("Whole texts", show, whole));
    }

    this.head = element("thead");
    this.body = element("tbody");
    const table = element("table", { "aria-label": box.dataset.label });
    table.append(this.head, this.body);
    const scroll = element("div", {
      class: "scroll",
      tabindex: "0",
      role: "region",
      "aria-label": `${box.dataset.label}, scrolls sideways`,
    });
    scroll.append(table);
    this.more = element("button", { type: "button", class: "more" });
    this.more.addEventListener("click", () => {
      this.limit += Table.MORE;
      this.#draw();
    });
    box.replaceChildren(tools, scroll, this.more);
  }

  #toggle(label, change, isOn = false) {
    const button = element("button", { type: "button", "aria-pressed": String(isOn) });
    button.textContent = label;
    button.addEventListener("click", () => {
      const on = button.getAttribute("aria-pressed") === "false";
      button.setAttribute("aria-pressed", String(on));
      change(on);
      this.#draw();
    });
    return button;
  }

  // The order in which the rows came, told by the header that explains it.
  #sortFirst() {
    const [name, direction] = (this.box.dataset.sorted ?? "").split(" ");
    const column = this.frame.columns.find((one) => one.name === name);
    if (column) this.sorted = { column, descending: direction === "descending" };
    this.sortedFirst = column;
    this.#drawHead();
  }

  // On a narrow page, what the rows came sorted by is beside their first text: the rest scrolls.
  #columns() {
    const shown = this.frame.columns.filter((column) => this.all || column.main);
    const place = shown.indexOf(this.sortedFirst);
    if (!Table.NARROW.matches || place < 0) return shown;
    const before = shown.slice(0, place);
    const beside = Math.max(before.findIndex((column) => column.isText), 0) + 1;
    if (beside < place) shown.splice(beside, 0, ...shown.splice(place, 1));
    return shown;
  }

  #drawHead() {
    const row = element("tr");
    for (const column of this.#columns()) {
      const cell = element("th", { scope: "col", class: column.isNumber ? "number" : "text" });
      const isSorted = this.sorted?.column === column;
      const direction = this.sorted?.descending ? "descending" : "ascending";
      cell.setAttribute("aria-sort", isSorted ? direction : "none");
      const button = element("button", { type: "button", title: column.doc ?? "" });
      button.textContent = column.label;
      button.dataset.column = column.name;
      button.addEventListener("click", () => this.#sort(column));
      cell.append(button);
      row.append(cell);
    }
    if (this.isPlaced) row.prepend(element("td", { class: "place", "data-column": "" }));
    this.head.replaceChildren(row);
  }

  #sort(column) {
    const again = this.sorted?.column === column;
    const descending = again ? !this.sorted.descending : column.isNumber;
    this.sorted = { column, descending };
    const rows = Array.from({ length: this.frame.rows }, (_, row) => row);
    const values = rows.map((row) => column.value(row));
    const sign = descending ? -1 : 1;
    const compare = column.isNumber
      ? (a, b) => (a < b ? -1 : a > b ? 1 : 0)
      : new Intl.Collator("en", { numeric: true }).compare;
    this.order = rows.sort((a, b) => {
      if (values[a] === null || values[b] === null) {
        return (values[a] === null) - (values[b] === null) || a - b;
      }
      return sign * compare(values[a], values[b]) || a - b;
    });
    const focused = document.activeElement?.dataset?.column;
    this.#drawHead();
    if (focused) this.head.querySelector(`[data-column="${CSS.escape(focused)}"]`)?.focus();
    this.#draw();
  }

  #seek(text) {
    this.sought = text.trim().toLowerCase();
    this.limit = Table.FIRST;
    this.#draw();
  }

  #found() {
    if (!this.sought) return this.order;
    const columns = this.frame.columns.filter((column) => column.isText);
    return this.order.filter((row) =>
      columns.some((column) => String(column.value(row) ?? "").toLowerCase().includes(this.sought)),
    );
  }

  #draw() {
    const found = this.#found();
    const shown = found.slice(0, this.limit);
    const columns = this.#columns();
    this.body.replaceChildren(...shown.map((row) => this.#row(row, columns)));
    const total = format.count(found.length);
    const kept = this.sought
      ? `${total} of ${format.count(this.frame.rows)} rows match`
      : `${total} ${found.length === 1 ? "row" : "rows"}`;
    const isWhole = shown.length === found.length;
    this.status.textContent = isWhole ? kept : `${format.count(shown.length)} of ${total} ${this.sought ? "matching rows" : "rows"} shown`;
    const rest = found.length - shown.length;
    this.more.hidden = rest === 0;
    this.more.textContent = `Show ${format.count(Math.min(rest, Table.MORE))} more`;
  }

  #whole(row, short) {
    return this.frame.columns.find((column) => column.name === "name")?.shown(row) ?? short;
  }

  #row(row, columns) {
    const line = element("tr");
    if (this.isPlaced) {
      const cell = element("td", { class: "place", "data-column": "" });
      cell.append(places.button(this.frame, row) ?? "");
      line.append(cell);
    }
    for (const column of columns) {
      const cell = element("td", { class: column.isNumber ? "number" : "text" });
      cell.dataset.column = column.name;
      const shown = column.shown(row);
      if (column.isNumber) {
        cell.textContent = shown;
        cell.dataset.value = column.stated(row);
        cell.title = column.exactly(row);
      } else {
        cell.classList.toggle("long", this.long.has(column));
        const text = element("span");
        text.textContent = shown;
        cell.append(text);
        const whole = column.name === "short_name" ? this.#whole(row, shown) : shown;
        if (whole.length > 30) cell.title = whole;
      }
      line.append(cell);
    }
    return line;
  }
}

function element(name, attributes = {}) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}
