"use strict";

// Mouse, keys and touch: as in Perfetto W and S zoom, A and D move, a drag selects a span, a drag with
// Shift moves, the wheel with Ctrl zooms. Two fingers zoom, one moves.
const timelineInput = (() => {
  const CLICK = 4;
  const PER_SECOND = { zoom: 6, pan: 1.1 };
  const HELD = {
    w: ["zoom", -1], s: ["zoom", 1], a: ["pan", -1], d: ["pan", 1],
  };

  function listen(timeline) {
    const { canvas } = timeline;
    keys(timeline);
    pointers(timeline);
    canvas.addEventListener(
      "wheel",
      (event) => {
        const { view } = timeline;
        const isAcross = Math.abs(event.deltaX) > Math.abs(event.deltaY);
        if (event.ctrlKey || event.metaKey) {
          view.zoom(Math.exp(Math.max(Math.min(event.deltaY, 120), -120) * 0.004), timeline.at(event).x);
        } else if (event.shiftKey || isAcross) view.pan(event.deltaX || event.deltaY);
        else return;
        event.preventDefault();
        timeline.moved();
      },
      { passive: false },
    );
    canvas.addEventListener("dblclick", (event) => {
      const { x, y } = timeline.at(event);
      const slice = timeline.view.sliceAt(x, y);
      if (slice >= 0) timeline.zoomTo(slice);
    });
  }

  // ---- keys: those that are held move on with each frame

  function keys(timeline) {
    const { canvas } = timeline;
    const held = new Set();
    let last = 0;
    const frame = (now) => {
      if (!held.size) return;
      const seconds = Math.min(now - last, 50) / 1000;
      last = now;
      for (const key of held) {
        const [what, sign] = HELD[key];
        const by = sign * PER_SECOND[what] * seconds;
        if (what === "zoom") timeline.view.zoom(Math.exp(by), timeline.pointer ?? timeline.view.width / 2);
        else timeline.view.pan(by * timeline.view.width);
      }
      timeline.moved();
      requestAnimationFrame(frame);
    };
    canvas.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
      if (key in HELD) {
        if (!held.size) {
          last = performance.now() - 16;
          requestAnimationFrame(frame);
        }
        held.add(key);
      } else if (!timeline.key(key, event.shiftKey)) return;
      event.preventDefault();
    });
    canvas.addEventListener("keyup", (event) => held.delete(event.key.toLowerCase()));
    canvas.addEventListener("blur", () => held.clear());
  }

  // ---- pointers: a mouse selects or moves, fingers move and zoom

  function pointers(timeline) {
    const { canvas } = timeline;
    const down = new Map();
    let drag = null;
    canvas.addEventListener("pointerdown", (event) => {
      if (event.button > 1) return;
      const at = timeline.at(event);
      down.set(event.pointerId, at);
      if (down.size === 2) {
        drag = null;
        timeline.span(null);
      }
      if (down.size > 1) return;
      const isTouch = event.pointerType === "touch";
      const selects = timeline.selects ? !event.shiftKey : false;
      const moves = event.button === 1 || (isTouch ? !timeline.selectsByTouch : !selects);
      drag = { at, last: at, moves, isTouch, isFar: false };
      if (event.button === 1) event.preventDefault();
    });
    canvas.addEventListener("pointermove", (event) => {
      const at = timeline.at(event);
      timeline.pointer = at.x;
      if (down.size === 2 && down.has(event.pointerId)) pinch(timeline, down, event.pointerId, at);
      else if (drag && down.has(event.pointerId)) dragged(timeline, drag, at, event);
      else if (event.pointerType !== "touch") timeline.hover(at, event);
      if (down.has(event.pointerId)) down.set(event.pointerId, at);
    });
    const up = (event) => {
      if (drag && down.size === 1 && down.has(event.pointerId)) {
        if (!drag.isFar && event.type === "pointerup") timeline.click(timeline.at(event));
        else if (drag.isFar && !drag.moves) timeline.spanChosen();
      }
      down.delete(event.pointerId);
      drag = null;
    };
    canvas.addEventListener("pointerup", up);
    canvas.addEventListener("pointercancel", up);
    canvas.addEventListener("pointerleave", () => {
      timeline.pointer = null;
      timeline.hover(null);
    });
  }

  function dragged(timeline, drag, at, event) {
    const far = Math.hypot(at.x - drag.at.x, at.y - drag.at.y) > CLICK;
    if (far && !drag.isFar) {
      drag.isFar = true;
      timeline.canvas.setPointerCapture(event.pointerId);
      timeline.hover(null);
    }
    if (!drag.isFar) return;
    if (drag.moves) {
      timeline.view.pan(drag.last.x - at.x);
      if (!drag.isTouch) timeline.scroller.scrollTop += drag.last.y - at.y;
      timeline.moved();
    } else timeline.span(drag.at, at);
    drag.last = at;
  }

  // Both fingers stay on the moments that they are on.
  function pinch(timeline, down, moving, at) {
    const [other] = [...down].find(([id]) => id !== moving).slice(1);
    const before = down.get(moving);
    const { view } = timeline;
    const [one, two] = [view.time(before.x), view.time(other.x)];
    const apart = at.x - other.x;
    if (Math.abs(apart) < 8 || Math.sign(apart) !== Math.sign(before.x - other.x)) return;
    const per = (one - two) / apart;
    const from = two - other.x * per;
    view.show(from, from + view.width * per);
    timeline.moved();
  }

  return { listen };
})();
