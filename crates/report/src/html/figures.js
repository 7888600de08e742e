// Figures: hover, zoom and keyboard over pictures that are complete without.
(() => {
  const figures = JSON.parse(document.getElementById("data").textContent).figures;
  const SHAPES = [
    "M-3.8 0a3.8 3.8 0 1 0 7.6 0a3.8 3.8 0 1 0 -7.6 0Z", "M-3.5 -3.5H3.5V3.5H-3.5Z", "M0 -5L5 0L0 5L-5 0Z",
    "M0 -4.8L4.6 3.6H-4.6Z", "M0 4.8L4.6 -3.6H-4.6Z",
  ];
  const DOWN = SHAPES[4];
  const number = (v) => v === null || v === undefined ? "–" : String(Number(v.toPrecision(4)));
  const round = (v) => Math.round(v * 10) / 10;

  function ticks(lo, hi, count) {
    const raw = (hi - lo) / count, power = 10 ** Math.floor(Math.log10(raw));
    const step = power * ([1, 2, 5].find((m) => m * power >= raw * 0.999999) || 10);
    const decimals = Math.min(12, Math.max(0, -Math.floor(Math.log10(step) + 1e-9)));
    const found = [];
    for (let i = Math.ceil(lo / step - 1e-6); i <= hi / step + 1e-6 && found.length < 100; i++) {
      found.push([i * step, (i * step).toFixed(decimals)]);
    }
    return found;
  }

  function enhance(figure, element) {
    const svg = element.querySelector("svg"), space = svg.namespaceURI;
    const [left, top, width, height] = figure.place;
    const groups = [...svg.querySelectorAll("g.data")], axis = svg.querySelector("g.xaxis");
    const points = figure.series.some((s) => s.look === "points");
    let [a, b] = figure.x, cursor = null, start = null;

    function add(parent, tag, attributes, text) {
      const node = document.createElementNS(space, tag);
      for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
      if (text !== undefined) node.textContent = text;
      return parent.appendChild(node);
    }
    const px = (x) => left + (x - a) / (b - a) * width;
    const py = (s, y) => {
      const [lo, hi] = s.right ? figure.right : figure.left;
      return top + height - Math.min(1, Math.max(0, (y - lo) / (hi - lo))) * height;
    };

    // An inner picture cuts off what a zoomed series has outside of the axes; markers on an edge stay whole.
    const edge = points ? 6 : 1, box = [left - edge, top - 1, width + 2 * edge, height + 7];
    const inner = add(svg, "svg", {
      x: box[0], y: box[1], width: box[2], height: box[3], viewBox: box.join(" "), overflow: "hidden",
    });
    groups.forEach((g) => inner.appendChild(g));
    const select = add(inner, "rect", { class: "select", y: top, height, width: 0 });
    const cross = add(inner, "line", { class: "cross", y1: top, y2: top + height, visibility: "hidden" });
    const tip = document.createElement("div");
    tip.className = "tip";
    tip.hidden = true;
    tip.setAttribute("aria-live", "polite");
    element.appendChild(tip);

    function drawSeries(s, i, g) {
      const colour = "c" + i % 7, kept = [];
      g.replaceChildren();
      for (let k = 0; k < s.x.length; k++) {
        if (s.x[k] !== null && s.y[k] !== null) kept.push([px(s.x[k] + s.aside), py(s, s.y[k]), k]);
        else kept.push(null);
      }
      if (s.look !== "marks") {
        let d = "", last = null;
        for (const p of kept) {
          if (p) {
            const [x, y] = [round(p[0]), round(p[1])];
            d += last === null ? `M${x} ${y}h0` : s.look === "step" ? `H${x}V${y}` : `L${x} ${y}`;
          }
          last = p;
        }
        add(g, "path", { d, class: (s.look === "points" ? "series thin link " : "series ") + colour });
      }
      if (s.look !== "points" && s.look !== "marks") return;
      for (const p of kept) {
        if (!p || p[0] < left - 1 || p[0] > left + width + 1) continue;
        const [x, y, k] = p, marks = s.look === "marks";
        if (s.lo && s.lo[k] !== null && s.hi[k] !== null) {
          const [lo, hi] = [py(s, s.lo[k]), py(s, s.hi[k])];
          add(g, "path", { d: `M${x} ${lo}V${hi}M${x - 3} ${lo}h6M${x - 3} ${hi}h6`, class: "whisker " + colour });
        }
        const at = `translate(${round(x)} ${round(marks ? top + 7 : y)})`;
        add(g, "path", { d: marks ? DOWN : SHAPES[i % 5], transform: at, class: "mark " + colour });
      }
    }

    function draw() {
      axis.replaceChildren();
      const named = figure.categories.map((name, i) => [i, name]).filter(([i]) => i >= a && i <= b);
      for (const [x, text] of named.length || figure.categories.length ? named : ticks(a, b, 12)) {
        add(axis, "line", { x1: px(x), x2: px(x), y1: top, y2: top + height, class: "grid" });
        add(axis, "text", { x: px(x), y: top + height + 17, class: "middle" }, text);
      }
      figure.series.forEach((s, i) => drawSeries(s, i, groups[i]));
    }

    // All places with a point, for cursors that go from point to point.
    const places = [...new Set(figure.series.filter((s) => s.look === "points").flatMap((s) => s.x))]
      .filter((x) => x !== null).sort((p, q) => p - q);
    const nearest = (x) => places.reduce((best, p) => Math.abs(p - x) < Math.abs(best - x) ? p : best, places[0]);

    function valueAt(s, x) {
      let lo = 0, hi = s.x.length;
      while (lo < hi) {
        const middle = (lo + hi) >> 1;
        if (s.x[middle] < x) lo = middle + 1; else hi = middle;
      }
      if (s.look === "points") return s.x[lo] === x ? lo : null;
      if (s.look === "step" && s.x[lo] !== x) lo -= 1;
      return lo >= 0 && lo < s.x.length ? lo : null;
    }

    function describe(s, x) {
      if (s.look === "marks") {
        const near = 3 * (b - a) / width;
        const count = s.x.filter((t) => Math.abs(t - x) <= near).length;
        return count ? String(count) : null;
      }
      const k = valueAt(s, x);
      if (k === null || s.y[k] === null) return null;
      const range = s.lo && s.lo[k] !== null && s.lo[k] !== s.hi[k] ? ` (${number(s.lo[k])} – ${number(s.hi[k])})` : "";
      return number(s.y[k]) + range;
    }

    function show(x) {
      cursor = x === null ? null : points ? nearest(x) : Math.min(b, Math.max(a, x));
      const visible = cursor !== null && cursor !== undefined && cursor >= a && cursor <= b;
      cross.setAttribute("visibility", visible ? "visible" : "hidden");
      tip.hidden = !visible;
      if (!visible) return;
      const at = px(cursor);
      cross.setAttribute("x1", at);
      cross.setAttribute("x2", at);
      tip.replaceChildren();
      const head = document.createElement("div");
      head.textContent = `${figure.x_name}: ${figure.categories[cursor] ?? number(cursor)}`;
      tip.appendChild(head);
      figure.series.forEach((s, i) => {
        const text = describe(s, cursor);
        if (text === null) return;
        const row = document.createElement("div"), swatch = document.createElement("i"), value = document.createElement("b");
        swatch.className = "f" + i % 7;
        value.textContent = text;
        row.append(swatch, s.name + " ", value);
        tip.appendChild(row);
      });
      const scale = svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;
      const right = at > left + width * 0.6;
      tip.style.left = right ? "" : at * scale + 12 + "px";
      tip.style.right = right ? element.clientWidth - at * scale + 12 + "px" : "";
      tip.style.top = (top + 10) * scale + "px";
    }

    function zoom(from, to) {
      const [lo, hi] = figure.x, length = Math.min(to - from, hi - lo);
      if (!(length > (hi - lo) * 1e-5)) return;
      a = Math.min(Math.max(from, lo), hi - length);
      b = a + length;
      draw();
      show(cursor);
    }
    const reset = () => zoom(...figure.x);
    const toX = (event) => {
      const box = svg.getBoundingClientRect();
      const inside = (event.clientX - box.left) / box.width * svg.viewBox.baseVal.width;
      return a + Math.min(1, Math.max(0, (inside - left) / width)) * (b - a);
    };

    svg.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      start = { x: toX(event), at: event.clientX };
      svg.setPointerCapture(event.pointerId);
    });
    svg.addEventListener("pointermove", (event) => {
      const x = toX(event);
      if (start) {
        select.setAttribute("x", px(Math.min(x, start.x)));
        select.setAttribute("width", Math.abs(px(x) - px(start.x)));
      }
      show(x);
    });
    const end = () => { start = null; select.setAttribute("width", 0); };
    svg.addEventListener("pointerup", (event) => {
      const from = start, x = toX(event);
      end();
      if (from && Math.abs(event.clientX - from.at) > 4) zoom(Math.min(from.x, x), Math.max(from.x, x));
    });
    svg.addEventListener("pointercancel", end);
    svg.addEventListener("pointerleave", () => { if (!start) show(null); });
    svg.addEventListener("dblclick", reset);

    function step(by) {
      if (cursor === null) return show((a + b) / 2);
      if (!points) return show(cursor + by * (b - a) / 100);
      const i = places.indexOf(cursor) + by;
      if (places[i] !== undefined) show(places[i]);
    }
    svg.tabIndex = 0;
    svg.addEventListener("keydown", (event) => {
      const shift = (by) => zoom(a + by * (b - a) / 5, b + by * (b - a) / 5), middle = cursor ?? (a + b) / 2;
      const actions = {
        ArrowLeft: () => event.shiftKey ? shift(-1) : step(-1),
        ArrowRight: () => event.shiftKey ? shift(1) : step(1),
        "+": () => zoom(middle - (b - a) / 4, middle + (b - a) / 4),
        "-": () => zoom(middle - (b - a), middle + (b - a)),
        Escape: () => { reset(); show(null); },
      };
      if (event.ctrlKey || event.metaKey || !actions[event.key]) return;
      event.preventDefault();
      actions[event.key]();
    });
    svg.addEventListener("blur", () => show(null));
  }

  for (const element of document.querySelectorAll("section.figure")) {
    enhance(figures[Number(element.dataset.figure)], element);
  }
})();
