"use strict";

// Predictions of one frame: a slider for each of its factors chooses the row that is shown.
class Sliders {
  static RESULT = new Set(["now_ns", "predicted_ns", "saved_ns", "saved_share"]);

  constructor(box) {
    this.frame = frames.of(box.dataset.sliders);
    this.column = Object.fromEntries(this.frame.columns.map((column) => [column.name, column]));
    this.factors = this.frame.columns.filter((column) => !Sliders.RESULT.has(column.name));
    this.longest = Math.max(...this.column.predicted_ns.values, ...this.column.now_ns.values, 1);
    this.inputs = this.factors.map((column, number) => this.#slider(column, number, box.dataset.sliders));
    this.result = element("p", { class: "prediction", role: "status" });
    this.bars = ["now", "predicted"].map((name) => this.#bar(name));
    box.replaceChildren(
      ...this.inputs.map((input) => input.line),
      this.result,
      ...this.bars.map((bar) => bar.line),
    );
    this.#show();
  }

  #slider(column, number, key) {
    const values = [...new Set(column.values)].sort((a, b) => a - b);
    const id = `${key}-${number}`;
    const label = element("label", { for: id });
    label.textContent = column.label;
    const input = element("input", { type: "range", id, min: "0", max: values.length - 1, step: "1" });
    input.value = Math.max(values.indexOf(1), 0);
    const output = element("output", { for: id });
    input.addEventListener("input", () => this.#show());
    const line = element("div", { class: "slider" });
    line.append(label, input, output);
    return { column, values, input, output, line };
  }

  #bar(name) {
    const line = element("div", { class: "bar", "data-bar": name });
    const label = element("span");
    label.textContent = name;
    const fill = element("i");
    const text = element("b");
    const room = element("div");
    room.append(fill);
    line.append(label, room, text);
    return { column: this.column[`${name}_ns`], fill, text, line };
  }

  #row() {
    const wanted = this.inputs.map(({ input, values }) => values[input.value]);
    return this.factors[0].values.findIndex((_, row) =>
      this.factors.every((column, number) => column.values[row] === wanted[number]),
    );
  }

  #show() {
    for (const { input, output, values } of this.inputs) {
      output.textContent = `x ${values[input.value]}`;
      input.setAttribute("aria-valuetext", `times ${values[input.value]}`);
    }
    const row = this.#row();
    const saved = this.column.saved_ns.value(row);
    const share = this.column.saved_share.value(row);
    const size = format.shown("ns", Math.abs(saved));
    const part = share === null ? "" : ` (${format.shown("share", Math.abs(share))})`;
    this.result.textContent =
      saved === 0 ? "No change" : saved > 0 ? `Saves ${size}${part}` : `Takes ${size} more${part}`;
    for (const { column, fill, text } of this.bars) {
      fill.style.width = `${(100 * column.value(row)) / this.longest}%`;
      text.textContent = column.shown(row);
      text.title = column.exactly(row);
    }
  }
}
