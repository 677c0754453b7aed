"use strict";

// Pixels left to the labels of composed views, at first.
const BESIDE = 60;

// Charts: Vega-Lite specifications whose rows are the frames of the page.
class Chart {
  constructor(box) {
    this.box = box;
    this.stored = frames.page.charts[box.dataset.chart];
    this.view = null;
    this.width = 0;
  }

  async draw() {
    const width = this.box.clientWidth;
    this.width = width;
    if (!width) {
      // Of a choice, and not the one that is shown: it is drawn when it is.
      this.box.dataset.drawn = "hidden";
      this.view?.finalize();
      this.view = null;
      this.box.replaceChildren();
      return;
    }
    delete this.box.dataset.drawn;
    await this.#embed(width, BESIDE);
    // How much room the labels of composed views take is known once they are drawn.
    const over = Math.ceil(this.box.firstElementChild?.scrollWidth ?? 0) - width;
    if (over > 0 && this.isComposed) await this.#embed(width, BESIDE + over);
    this.box.dataset.drawn = "true";
  }

  get isComposed() {
    return "facet" in this.stored.spec || "vconcat" in this.stored.spec;
  }

  async #embed(width, beside) {
    this.view?.finalize();
    this.view = await vegaEmbed(this.box, this.#spec(width, beside), {
      mode: "vega-lite",
      renderer: "svg",
      actions: false,
      defaultStyle: false,
      logLevel: 1, // errors: what is empty gives a warning
      config: config(),
      tooltip,
      loader,
    });
  }

  // Drawn, or hidden when it was to be.
  get isSeen() {
    return this.view !== null || this.box.dataset.drawn === "hidden";
  }

  get isStale() {
    return Math.abs(this.box.clientWidth - this.width) > 1;
  }

  #spec(width, beside) {
    const spec = structuredClone(this.stored.spec);
    spec.datasets = Object.fromEntries(
      Object.entries(this.stored.frames).map(([name, frame]) => [name, frames.of(frame).objects()]),
    );
    if (this.isComposed) {
      // One view below the other: each as wide as there is room beside its labels.
      for (const view of spec.vconcat ?? [spec.spec]) view.width = Math.max(160, width - beside);
    } else {
      spec.width = width;
      spec.autosize = { type: "fit-x", contains: "padding" };
      stepped(spec);
    }
    if (width < 600) narrow(spec, width);
    return recoloured(spec);
  }
}

// A view that is as high as its rows: Vega-Lite fits only what has a height in pixels.
function stepped(spec) {
  const step = spec.height?.step;
  const view = spec.layer?.[0] ?? spec;
  const field = (view.encoding ?? spec.encoding)?.y?.field;
  if (!step || !field) return;
  const rows = spec.datasets[view.data?.name ?? spec.data?.name] ?? [];
  spec.height = step * new Set(rows.map((row) => row[field])).size;
}

// Long labels leave room for what they are labels of.
function narrow(spec, width) {
  const most = Math.round(width / 3);
  const walk = (one) => {
    if (one === null || typeof one !== "object") return;
    if (typeof one.labelLimit === "number") one.labelLimit = Math.min(one.labelLimit, most);
    if (one.legend && typeof one.legend.columns === "number") {
      Object.assign(one.legend, { columns: 2, labelLimit: Math.round(width / 2) - 30 });
    }
    for (const [key, inner] of Object.entries(one)) {
      if (key !== "datasets" && key !== "legend") walk(inner);
    }
  };
  walk(spec);
}

// Colours of the light palette, as those of the dark one where the page is dark.
function recoloured(value) {
  const dark = isDark() ? frames.page.dark : {};
  const walk = (one) => {
    if (typeof one === "string") return dark[one.toLowerCase()] ?? one;
    if (Array.isArray(one)) return one.map(walk);
    if (one === null || typeof one !== "object") return one;
    return Object.fromEntries(
      Object.entries(one).map(([key, inner]) => [key, key === "datasets" ? inner : walk(inner)]),
    );
  };
  return walk(value);
}

function isDark() {
  if (matchMedia("print").matches) return false;
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

function config() {
  return { ...frames.page.config[isDark() ? "dark" : "light"], background: "transparent" };
}

// Charts have all of their data: nothing is ever loaded.
const loader = {
  load: () => Promise.reject(new Error("a report loads nothing")),
  sanitize: () => Promise.reject(new Error("a report loads nothing")),
  http: () => Promise.reject(new Error("a report loads nothing")),
  file: () => Promise.reject(new Error("a report loads nothing")),
};

// A tooltip of text, never of markup.
const tooltip = (() => {
  const box = element("div", { class: "tooltip", role: "tooltip" });
  box.hidden = true;
  return (_, event, __, value) => {
    if (!box.isConnected) document.body.append(box);
    if (value === null || value === undefined || value === "") {
      box.hidden = true;
      return;
    }
    const lines = typeof value === "object" ? Object.entries(value) : [["", value]];
    box.replaceChildren(
      ...lines.map(([key, one]) => {
        const line = element("div");
        const label = element("span");
        label.textContent = key;
        const text = element("b");
        text.textContent = String(one);
        line.append(label, text);
        return line;
      }),
    );
    box.hidden = false;
    const { innerWidth, innerHeight } = window;
    const { width, height } = box.getBoundingClientRect();
    box.style.left = `${Math.max(4, Math.min(event.clientX + 14, innerWidth - width - 4))}px`;
    box.style.top = `${Math.max(4, Math.min(event.clientY + 14, innerHeight - height - 4))}px`;
  };
})();
