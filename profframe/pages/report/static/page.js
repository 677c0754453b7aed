"use strict";

// What the page does when it has been read: tables, charts, flame graphs, themes, where you are.
(async () => {
  const lanes = places.open();
  await lanes?.opened; // it is large: what is small waits until it is drawn
  for (const box of document.querySelectorAll(".table[data-frame]")) new Table(box);
  for (const box of document.querySelectorAll("[data-sliders]")) new Sliders(box);
  const charts = [...document.querySelectorAll("[data-chart]")].map((box) => new Chart(box));
  choices();
  const flames = [...document.querySelectorAll("[data-flame]")].map(flame);
  links();
  if (charts.length) late();
  draw(charts);
  themes(() => redraw(charts, true));
  whereabouts();
  window.addEventListener("resize", settled(() => redraw(charts, false)));

  // Scripts that are run when they are needed: that of charts takes longest.
  function late() {
    for (const kept of document.querySelectorAll("script[data-late]")) {
      const script = document.createElement("script");
      script.textContent = kept.textContent;
      document.head.append(script);
    }
  }

  // What is seen first, then the rest while there is nothing else to do: a print has all of it.
  function draw(charts) {
    const waiting = new Set(charts);
    const drawn = (chart) => {
      if (!waiting.delete(chart)) return;
      chart.draw();
    };
    const seen = new IntersectionObserver(
      (entries) => {
        for (const entry of entries) {
          if (!entry.isIntersecting) continue;
          seen.unobserve(entry.target);
          drawn(charts.find((chart) => chart.box === entry.target));
        }
      },
      { rootMargin: "200px" },
    );
    for (const chart of charts) seen.observe(chart.box);
    const idle = window.requestIdleCallback ?? ((work) => setTimeout(work, 50));
    const next = () => {
      const [chart] = waiting;
      if (!chart) return;
      drawn(chart);
      idle(next);
    };
    idle(next);
    window.addEventListener("beforeprint", () => charts.forEach(drawn));
    matchMedia("print").addEventListener("change", () => redraw(charts, true));
  }

  function redraw(charts, all) {
    for (const chart of charts) if (chart.isSeen && (all || chart.isStale)) chart.draw();
    for (const graph of [...flames, lanes]) graph?.redraw?.();
  }

  function flame(box) {
    const stored = frames.page.flames[box.dataset.flame];
    return flameGraph(box, frames.of(stored.frame).arrays(), stored.options);
  }

  // Flame graphs beside each other zoom together.
  function links() {
    const boxes = [...document.querySelectorAll("[data-flame]")];
    for (const group of document.querySelectorAll(".beside")) {
      const inside = flames.filter((_, number) => group.contains(boxes[number]));
      for (const one of inside) for (const other of inside) if (one !== other) one.link(other);
    }
  }

  // One of several tables or charts at a time.
  function choices() {
    for (const group of document.querySelectorAll(".choice")) {
      const boxes = [...group.querySelectorAll(":scope > [data-choice]")];
      for (const input of group.querySelectorAll("input[type=radio]")) {
        input.addEventListener("change", () => {
          for (const box of boxes) box.hidden = box.dataset.choice !== input.value;
          redraw(charts, false);
        });
      }
    }
  }

  function themes(changed) {
    const button = document.getElementById("theme");
    const root = document.documentElement;
    const say = () => {
      button.textContent = isDark() ? "Light" : "Dark";
      button.setAttribute("aria-label", isDark() ? "Light theme" : "Dark theme");
    };
    button.addEventListener("click", () => {
      root.dataset.theme = isDark() ? "light" : "dark";
      say();
      changed();
    });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
      say();
      changed();
    });
    say();
  }

  // The section that is read, marked in the navigation.
  function whereabouts() {
    const links = new Map(
      [...document.querySelectorAll("nav a")].map((link) => [link.hash.slice(1), link]),
    );
    const sections = [...document.querySelectorAll("main > section")];
    const mark = () => {
      const line = innerHeight / 4;
      const atEnd = innerHeight + scrollY >= document.documentElement.scrollHeight - 2;
      const passed = sections.filter((section) => section.getBoundingClientRect().top <= line);
      const current = atEnd ? sections.at(-1) : (passed.at(-1) ?? sections[0]);
      for (const [id, link] of links) {
        if (id === current.id) {
          if (link.getAttribute("aria-current") === "true") continue;
          link.setAttribute("aria-current", "true");
          const bar = link.closest("nav");
          bar.scrollLeft = link.offsetLeft - bar.clientWidth / 2 + link.offsetWidth / 2;
        } else link.removeAttribute("aria-current");
      }
    };
    addEventListener("scroll", settled(mark, 50), { passive: true });
    mark();
  }

  function settled(work, ms = 150) {
    let timer = 0;
    return () => {
      clearTimeout(timer);
      timer = setTimeout(work, ms);
    };
  }

  document.documentElement.dataset.ready = "true";
})();
