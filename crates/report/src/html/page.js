"use strict";
(() => {
  const LEFT = 58, RIGHT = 128, AXIS = 22;
  const HEIGHTS = { throughput: 150, delay: 170, discards: 90, virtual: 90, flows: 70 };
  const charts = JSON.parse(document.getElementById("data").textContent).charts;
  const linked = document.getElementById("linked"), zero = document.getElementById("zero");
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();

  function make(tag, parent, className, text) {
    const element = document.createElement(tag);
    if (className) element.className = className;
    if (text !== undefined) element.textContent = text;
    return parent.appendChild(element);
  }

  // Numbers: four significant digits, and ticks at 1, 2 or 5 times a power of ten.
  const number = (v) => v === null || v === undefined ? "–" : String(Number(v.toPrecision(4)));
  function ticks(lo, hi, count) {
    const raw = (hi - lo) / count, power = 10 ** Math.floor(Math.log10(raw));
    const step = power * ([1, 2, 5].find((m) => m * power >= raw * 0.999999) || 10);
    const decimals = Math.min(12, Math.max(0, -Math.floor(Math.log10(step) + 1e-9)));
    const found = [], last = Math.floor(hi / step + 1e-6);
    for (let i = Math.ceil(lo / step - 1e-6); i <= last && found.length < 100; i++) {
      found.push({ v: i * step, text: (i * step).toFixed(decimals).replace(/^-(0\.?0*)$/, "$1") });
    }
    return { step, found };
  }

  // Index of the first time that is not before t.
  function search(times, t) {
    let lo = 0, hi = times.length;
    while (lo < hi) {
      const middle = (lo + hi) >> 1;
      if (times[middle] < t) lo = middle + 1; else hi = middle;
    }
    return lo;
  }

  // A sample stands for the period that ends with it; a step holds from its sample on.
  function valueAt(series, t) {
    const times = series.t, i = search(times, t);
    if (!times.length || t < times[0] - (times[1] - times[0] || 0) || t > times[times.length - 1]) return null;
    return series.v[series.step && times[i] > t ? Math.max(i - 1, 0) : i];
  }

  function range(chart, panel) {
    let lo = Infinity, hi = -Infinity;
    for (const s of panel.series) {
      if (!s.shown) continue;
      const end = Math.min(search(s.t, chart.b) + 1, s.t.length);
      for (let i = Math.max(search(s.t, chart.a) - 1, 0); i < end; i++) {
        if (s.v[i] === null) continue;
        lo = Math.min(lo, s.v[i]);
        hi = Math.max(hi, s.v[i]);
      }
    }
    if (lo > hi) { lo = 0; hi = 1; }
    const fromZero = zero.checked && lo >= 0;
    // Limits far from all data would flatten the data; their names get an arrow instead.
    for (const l of panel.limits) {
      if (fromZero ? l.v <= 2 * hi || panel.kind === "throughput" : Math.abs(l.v - hi) <= 2 * (hi - lo)) {
        hi = Math.max(hi, l.v);
        lo = Math.min(lo, l.v);
      }
    }
    if (fromZero) lo = 0;
    if (!(hi - lo > Math.abs(hi) * 1e-9)) hi = lo + (Math.abs(lo) || 1);
    if (fromZero && panel.kind === "throughput") return [0, hi * 1.04];
    const step = ticks(lo, hi, panel.height / 23).step;
    return [Math.floor(lo / step + 1e-6) * step, Math.ceil(hi / step - 1e-6) * step];
  }

  function prepare(canvas) {
    const box = canvas.getBoundingClientRect(), scale = window.devicePixelRatio || 1;
    canvas.width = Math.round(box.width * scale);
    canvas.height = Math.round(box.height * scale);
    const g = canvas.getContext("2d");
    g.setTransform(scale, 0, 0, scale, 0, 0);
    g.font = "11px system-ui, 'Segoe UI', 'Helvetica Neue', Arial, sans-serif";
    return { g, width: box.width };
  }

  function line(g, x1, y1, x2, y2) {
    g.beginPath();
    g.moveTo(x1, y1);
    g.lineTo(x2, y2);
    g.stroke();
  }

  function drawSeries(g, s, chart, x, y) {
    g.strokeStyle = colour(s.tone);
    g.lineWidth = s.tone === "aim" && s.step ? 1.7 : 1.3;
    g.beginPath();
    const end = Math.min(search(s.t, chart.b) + 2, s.t.length);
    let before = null;
    for (let i = Math.max(search(s.t, chart.a) - 2, 0); i < end; i++) {
      if (s.v[i] === null) { before = null; continue; }
      const px = x(s.t[i]), py = y(s.v[i]);
      if (before === null) { g.moveTo(px, py); g.lineTo(px + 0.01, py); }
      else { if (s.step) g.lineTo(px, before); g.lineTo(px, py); }
      before = py;
    }
    g.stroke();
  }

  function drawEvents(g, chart, x) {
    g.fillStyle = colour("aim");
    for (const e of chart.events) {
      if (e.t < chart.a || e.t > chart.b) continue;
      const px = x(e.t), down = e.to < e.from ? 1 : -1;
      g.beginPath();
      g.moveTo(px, 7 + 4.5 * down);
      g.lineTo(px - 4, 7 - 3.5 * down);
      g.lineTo(px + 4, 7 - 3.5 * down);
      g.fill();
    }
  }

  function drawLimits(g, panel, y, hi, right) {
    g.textAlign = "left";
    let last = -Infinity;
    for (const l of [...panel.limits].sort((p, q) => q.v - p.v)) {
      const at = Math.min(Math.max(y(l.v), 0), panel.height), inside = Math.abs(at - y(l.v)) < 0.5;
      const shown = Math.max(at, last + 12);
      last = shown;
      g.strokeStyle = colour("limit");
      g.lineWidth = 1;
      if (inside) { g.setLineDash([5, 3]); line(g, LEFT, at, right, at); g.setLineDash([]); }
      line(g, right, at, right + 7, shown);
      g.fillStyle = colour("soft");
      g.fillText(l.name + (inside ? "" : l.v > hi ? " ↑" : " ↓"), right + 10, shown + 3.5);
    }
  }

  function drawPanel(chart, panel) {
    const { g, width } = prepare(panel.canvas), right = width - RIGHT, bottom = panel.height;
    const [lo, hi] = range(chart, panel);
    const x = (t) => LEFT + (t - chart.a) / (chart.b - chart.a) * (right - LEFT);
    const y = (v) => bottom - (v - lo) / (hi - lo) * bottom;
    g.clearRect(0, 0, width, bottom + AXIS);
    g.translate(0, 4);
    if (chart.warmup > chart.a) {
      g.fillStyle = colour("warmup");
      g.fillRect(LEFT, 0, Math.min(x(chart.warmup), right) - LEFT, bottom);
    }
    g.lineWidth = 1;
    g.strokeStyle = colour("grid");
    g.fillStyle = colour("soft");
    g.textAlign = "right";
    for (const tick of ticks(lo, hi, bottom / 23).found) {
      line(g, LEFT, y(tick.v), right, y(tick.v));
      g.fillText(tick.text, LEFT - 6, y(tick.v) + 3.8);
    }
    g.textAlign = "center";
    for (const tick of ticks(chart.a, chart.b, Math.max(2, (right - LEFT) / 80)).found) {
      line(g, x(tick.v), 0, x(tick.v), bottom);
      if (panel.last) g.fillText(tick.text + (tick.v === 0 ? " s" : ""), x(tick.v), bottom + 15);
    }
    g.strokeStyle = colour("frame");
    g.strokeRect(LEFT, 0, right - LEFT, bottom);
    g.save();
    g.beginPath();
    g.rect(LEFT, -1, right - LEFT, bottom + 2);
    g.clip();
    g.lineJoin = "round";
    for (const s of panel.series) if (s.shown) drawSeries(g, s, chart, x, y);
    if (panel.kind === "delay") drawEvents(g, chart, x);
    g.restore();
    drawLimits(g, panel, y, hi, right);
    panel.x = x;
    panel.right = right;
  }

  function draw(chart) {
    for (const panel of chart.panels) drawPanel(chart, panel);
    drawCross(chart, null);
  }

  // Crosshair, selection and the values in the legends. Only this is drawn anew while the mouse moves.
  function drawCross(chart, t, selectFrom) {
    const visible = t !== null && t >= chart.a && t <= chart.b;
    for (const panel of chart.panels) {
      const { g } = prepare(panel.overlay);
      if (visible) {
        g.translate(0, 4);
        if (selectFrom !== undefined) {
          g.fillStyle = colour("select");
          g.fillRect(panel.x(selectFrom), 0, panel.x(t) - panel.x(selectFrom), panel.height);
        }
        g.strokeStyle = colour("cross");
        g.globalAlpha = 0.6;
        g.lineWidth = 1;
        line(g, panel.x(t), 0, panel.x(t), panel.height);
      }
      for (const s of panel.series) s.out.textContent = visible ? number(valueAt(s, t)) : "";
    }
    chart.status.textContent = visible ? describe(chart, t) : "";
  }

  function describe(chart, t) {
    const near = 5 * (chart.b - chart.a) / Math.max(1, chart.panels[0].right - LEFT);
    const events = chart.events.filter((e) => Math.abs(e.t - t) <= near);
    const told = events.slice(0, 2).map((e) => `${e.rule} ${number(e.from)} → ${number(e.to)} ${e.unit}`);
    if (events.length > 2) told.push(`and ${events.length - 2} more`);
    return [`${t.toFixed(chart.b - chart.a < 5 ? 4 : 2)} s`, ...told].join("  ·  ");
  }

  const others = (chart) => linked.checked ? charts : [chart];
  function hover(chart, t, selectFrom) {
    for (const c of others(chart)) drawCross(c, t, selectFrom);
  }

  function zoom(chart, a, b) {
    for (const c of others(chart)) {
      const from = Math.max(a, c.from), to = Math.min(b, c.to);
      // A microsecond is the resolution of the data.
      if (to - from < 1e-5) continue;
      c.a = from;
      c.b = to;
      draw(c);
    }
  }

  function reset(chart) {
    for (const c of others(chart)) { c.a = c.from; c.b = c.to; draw(c); }
  }

  function listen(chart, panel) {
    let start;
    const plot = panel.overlay.parentNode;
    const time = (event) => {
      const box = plot.getBoundingClientRect();
      const share = (event.clientX - box.left - LEFT) / (box.width - LEFT - RIGHT);
      return chart.a + Math.min(1, Math.max(0, share)) * (chart.b - chart.a);
    };
    plot.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      start = { t: time(event), x: event.clientX };
      plot.setPointerCapture(event.pointerId);
    });
    plot.addEventListener("pointermove", (event) => hover(chart, time(event), start && start.t));
    plot.addEventListener("pointerup", (event) => {
      const from = start;
      start = undefined;
      if (from && Math.abs(event.clientX - from.x) > 4) {
        const to = time(event);
        zoom(chart, Math.min(from.t, to), Math.max(from.t, to));
      }
    });
    plot.addEventListener("pointercancel", () => { start = undefined; });
    plot.addEventListener("pointerleave", () => { if (!start) hover(chart, null); });
    plot.addEventListener("dblclick", () => reset(chart));
  }

  function keys(chart, event) {
    const length = chart.b - chart.a, middle = (chart.a + chart.b) / 2;
    const move = (distance) => {
      const by = Math.min(Math.max(distance, chart.from - chart.a), chart.to - chart.b);
      zoom(chart, chart.a + by, chart.b + by);
    };
    const actions = {
      ArrowLeft: () => move(-length / 5),
      ArrowRight: () => move(length / 5),
      "+": () => zoom(chart, middle - length / 4, middle + length / 4),
      "-": () => zoom(chart, middle - length, middle + length),
      Escape: () => reset(chart),
    };
    if (event.target !== chart.element || event.ctrlKey || event.metaKey || !actions[event.key]) return;
    event.preventDefault();
    actions[event.key]();
  }

  function build(chart, element) {
    Object.assign(chart, { element, a: chart.from, b: chart.to });
    element.tabIndex = 0;
    element.setAttribute("role", "group");
    element.setAttribute("aria-label", "Chart over time");
    element.addEventListener("keydown", (event) => keys(chart, event));
    chart.status = make("div", element, "status");
    chart.panels.forEach((panel, i) => {
      Object.assign(panel, { last: i === chart.panels.length - 1, height: HEIGHTS[panel.kind] || 100 });
      const head = make("div", element, "head");
      const name = make("strong", head, "", panel.name);
      if (panel.unit) make("span", name, "", "  " + panel.unit);
      for (const s of panel.series) {
        Object.assign(s, { t: s.t || panel.t, shown: true });
        const key = make("button", head);
        key.type = "button";
        key.setAttribute("aria-pressed", "true");
        make("i", key).style.borderColor = `var(--${s.tone})`;
        key.append(s.name + " ");
        s.out = make("b", key);
        key.addEventListener("click", () => {
          s.shown = !s.shown;
          key.setAttribute("aria-pressed", String(s.shown));
          draw(chart);
        });
      }
      const plot = make("div", element, "plot");
      plot.style.height = panel.height + 10 + (panel.last ? AXIS : 0) + "px";
      panel.canvas = make("canvas", plot);
      panel.overlay = make("canvas", plot);
      listen(chart, panel);
    });
    // Values that appear in a legend may change the height, and that must not draw the chart anew.
    new ResizeObserver(() => {
      if (element.clientWidth === chart.width) return;
      chart.width = element.clientWidth;
      draw(chart);
    }).observe(element);
  }

  for (const element of document.querySelectorAll(".chart")) {
    build(charts[Number(element.dataset.chart)], element);
  }
  const drawAll = () => charts.forEach(draw);
  if (zero) zero.addEventListener("change", drawAll);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
  for (const link of document.querySelectorAll("a[data-time]")) {
    link.addEventListener("click", () => {
      const chart = charts[Number(link.dataset.chart)], t = Number(link.dataset.time);
      const half = Math.max((chart.to - chart.from) / 50, 1e-3);
      if (!Number.isFinite(t)) return;
      zoom(chart, t - half, t + half);
      hover(chart, t);
    });
  }
})();
