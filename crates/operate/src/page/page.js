// The page of a running program: follows its events, draws them, and asks it to change its policy. No library, nothing from
// elsewhere; text of the program is only ever set as text.
"use strict";

const NUMBERS = ["used", "mean", "max", "set", "bps", "rate", "low", "aim", "least", "most"];
const KEEP = 600;
// Directions at most whose points are kept: of many sessions those that are told change all the time.
const KEPT = 200;
const SVG = "http://www.w3.org/2000/svg";
const $ = (id) => document.getElementById(id);

const state = {
  status: null,
  points: new Map(), // of each direction by its name: the numbers above, and `at` in milliseconds
  past: null, // points of before, by the number of the direction, until names are told
  shown: null, // name of the direction
  sort: { column: 0, down: false },
  edited: new Set(), // fields of the form that somebody typed in: the others show what is in force
  heard: 0,
  pid: null,
  drawn: "",
  forecast: null, // what the simulator said, of one direction
  asked: { words: "", customers: null }, // customers that the program found for a search
  supposed: false, // whether somebody typed what is to be computed
};

// ---- numbers as text ----

const is = (x) => x !== null && x !== undefined && Number.isFinite(x);
const fixed = (x, digits) => (is(x) ? x.toFixed(digits) : "-");
const percent = (x) => (is(x) ? (x * 100).toFixed(1) + " %" : "-");
const ms = (x) => (is(x) ? (x < 10 ? x.toFixed(2) : x.toFixed(1)) + " ms" : "-");
const rate = (bps) => !is(bps) ? "-" : bps >= 1e9 ? (bps / 1e9).toFixed(2) + " Gbit/s" : (bps / 1e6).toFixed(1) + " Mbit/s";
const count = (n) => (is(n) ? n.toLocaleString("en") : "-");
const span = (s) => s < 120 ? s.toFixed(0) + " s" : s < 7200 ? (s / 60).toFixed(0) + " min" : (s / 3600).toFixed(1) + " h";

function element(name, attributes, text) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

function set(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

// ---- what comes ----

function take(name, data) {
  state.heard = Date.now();
  if (name === "history") {
    state.past = JSON.parse(data);
    return;
  }
  const status = JSON.parse(data);
  const restarted = state.pid !== null && state.pid !== status.pid;
  state.pid = status.pid;
  state.status = status;
  remember(status.directions.map((d) => d.name));
  for (const q of status.directions) {
    const p = q.policy || {};
    keep(q.name, Date.now(), [q.utilization, q.delay_mean_ms, q.delay_max_ms, q.setpoint_ms, q.delivered_bps, q.rate_bps,
      p.utilization_low, p.utilization_target, p.target_min_ms, p.target_max_ms]);
  }
  if (restarted) {
    state.forecast = null;
    say("The program was started anew; this is the new one.", "good");
  }
  draw();
}

// Points of before, which are of the directions that are told now.
function remember(names) {
  if (names.length === 0 || !state.past) return;
  for (const [d, name] of names.entries()) {
    const known = state.points.get(name) || [];
    // After a gap the points of before stay, as far as they are older.
    const seen = known.length > 0 ? known[known.length - 1].at : 0;
    for (const row of state.past) {
      const numbers = row.slice(1 + d * NUMBERS.length, 1 + (d + 1) * NUMBERS.length);
      if (row[0] > seen && numbers.length > 0) keep(name, row[0], numbers);
    }
  }
  state.past = null;
}

function keep(name, at, numbers) {
  const points = state.points.get(name) || [], point = { at };
  numbers.forEach((value, i) => { point[NUMBERS[i]] = value; });
  points.push(point);
  if (points.length > KEEP) points.shift();
  // Last in the map is who was told last.
  state.points.delete(name);
  state.points.set(name, points);
  if (state.points.size > KEPT) state.points.delete(state.points.keys().next().value);
}

function connection(kind, text) {
  $("link").dataset.state = kind;
  set($("link"), text);
}

function headers(more) {
  const token = $("token").value.trim();
  return token ? { ...more, Authorization: "Bearer " + token } : { ...more };
}

async function follow() {
  let wait = 500;
  for (;;) {
    const abort = new AbortController();
    // A line that is silent for so long is dead: the program tells twice a second.
    const guard = setInterval(() => { if (Date.now() - state.heard > 10000) abort.abort(); }, 1000);
    state.heard = Date.now();
    try {
      const answer = await fetch("v1/events", { headers: headers(), signal: abort.signal, cache: "no-store" });
      if (answer.status === 401) {
        connection("lost", "needs the token");
        say("This program is looked at with the token: enter it below.", "bad");
        await changed($("token"));
        continue;
      }
      if (!answer.ok) throw new Error(await reason(answer));
      connection("live", "live");
      wait = 500;
      await read(answer.body.getReader());
    } catch (error) {
      if (!abort.signal.aborted && error.message && !(error instanceof TypeError)) say(error.message, "bad");
    } finally {
      clearInterval(guard);
    }
    connection("lost", "lost; asking again");
    await new Promise((go) => setTimeout(go, wait));
    wait = Math.min(wait * 2, 5000);
  }
}

async function read(reader) {
  const decoder = new TextDecoder();
  let text = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    text += decoder.decode(value, { stream: true });
    let end;
    while ((end = text.indexOf("\n\n")) >= 0) {
      const lines = text.slice(0, end).split("\n");
      text = text.slice(end + 2);
      const of = (key) => lines.filter((l) => l.startsWith(key)).map((l) => l.slice(key.length)).join("\n");
      take(of("event: "), of("data: "));
    }
  }
}

const changed = (input) => new Promise((go) => input.addEventListener("change", go, { once: true }));

async function reason(answer) {
  try { return (await answer.json()).error; } catch { return "refused (" + answer.status + ")"; }
}

// ---- what is drawn ----

function index() {
  const names = state.status.directions.map((d) => d.name);
  // A program that has told nothing yet may have the direction that is shown.
  if (names.length === 0) return 0;
  let at = names.indexOf(state.shown);
  if (at < 0) {
    // The one that is steered, else the one that is shaped.
    const rank = (d) => (d.policy ? 2 : 0) + (d.rate_bps ? 1 : 0);
    at = state.status.directions.reduce((best, d, i, all) => (rank(d) > rank(all[best]) ? i : best), 0);
    state.shown = names[at];
    untype();
  }
  return at;
}

// The direction that is shown, if one was told.
const shown = () => state.status && state.status.directions[index()];

// What was typed is for the direction that was shown.
function untype() {
  state.edited.clear();
  state.supposed = false;
}

function draw() {
  const s = state.status;
  if (!s || document.hidden) return;
  document.title = s.title + " - Weir";
  set($("title"), s.title);
  set($("about"), `weir ${s.verb} ${s.version}, process ${s.pid}, ${s.mode}, for ${span(s.uptime_s)}, ${s.file}${plane(s.user_plane)}`);
  problems(s);
  if (s.directions.length === 0) return nothing(s);
  const at = index(), d = s.directions[at], points = state.points.get(d.name) || [];
  tabs(s, at);
  tiles(s, d);
  charts(d, points);
  moves(d);
  table(s);
  form(d);
  supposition(s, d);
}

// No number stays that nobody tells any more.
function nothing(s) {
  tabs(s, -1);
  ["tiles", "used", "delay", "phase", "moves"].forEach((id) => $(id).replaceChildren());
  ["used-text", "delay-text", "phase-text"].forEach((id) => set($(id), "Nothing was told yet."));
  state.drawn = "";
  table(s);
}

// Of a user-plane function: how many sessions there are, and of how many the queues are listed.
function plane(p) {
  if (!p) return "";
  const told = p.sessions_told < p.sessions ? ` (${count(p.sessions_told)} listed)` : "";
  return `; ${count(p.sessions)} sessions${told}, ${count(p.tunnels)} tunnels`;
}

function problems(s) {
  const all = s.ports.filter((p) => !p.is_up).map((p) => p.name + " is down or has no carrier");
  if (s.silent_s > 3) all.push("the packet loop told nothing for " + span(s.silent_s) + ": the kernel forwards past the queues");
  if (s.is_draining) all.push("it ends");
  const raised = (s.alarms || []).filter((a) => a.is_raised && !all.includes(a.why));
  const of = (a) => a.direction || a.port ? " of " + (a.direction || a.port) : "";
  all.push(...raised.map((a) => `alarm ${a.alarm}${of(a)}: ${a.why}`));
  const text = all.join("\n");
  if ($("problems").dataset.text === text) return;
  $("problems").dataset.text = text;
  $("problems").replaceChildren(...all.map((why) => element("li", {}, why)));
}

function tabs(s, at) {
  const names = s.directions.map((d) => d.name).join("\n");
  const bar = $("directions");
  if (bar.dataset.names !== names) {
    bar.dataset.names = names;
    bar.replaceChildren(...s.directions.map((d, i) => {
      const tab = element("button", { type: "button", role: "tab", id: "tab-" + i, "aria-controls": "main" }, d.name);
      tab.addEventListener("click", () => show(i));
      return tab;
    }));
  }
  [...bar.children].forEach((tab, i) => {
    tab.setAttribute("aria-selected", String(i === at));
    tab.tabIndex = i === at ? 0 : -1;
  });
}

function show(i) {
  const d = state.status && state.status.directions[i];
  if (!d) return;
  state.shown = d.name;
  untype();
  draw();
}

// State of the queue whose flows do not respond to signals: no set point holds their delay.
const UNRESPONSIVE = 4;

function tiles(s, d) {
  const p = d.policy, k = d.packets, unresponsive = d.table_state === UNRESPONSIVE;
  const range = p ? `${ms(p.target_min_ms)} to ${ms(p.target_max_ms)}` : d.aqm;
  const all = [
    ["utilization", percent(d.utilization), p ? "policy at least " + percent(p.utilization_low) : "no policy", false],
    ["delivered", rate(d.delivered_bps), "of " + (d.rate_bps ? rate(d.rate_bps) : "an unshaped port"), false],
    ["delay, mean", ms(d.delay_mean_ms), "largest " + ms(d.delay_max_ms), false],
    ["set point", ms(d.setpoint_ms), unresponsive ? "the flows do not respond" : range, unresponsive],
    ["waiting", count(d.backlog_packets) + " packets", count(d.backlog_bytes) + " bytes", false],
    ["drops", count(k.dropped_on_arrival + k.dropped_at_head), count(k.marked) + " marks", false],
    ["overflows", count(k.overflowed + k.shed), "for lack of room", k.overflowed + k.shed > 0],
    ["past the queues", count(s.bypassed_frames), "frames that the kernel forwarded", s.bypassed_frames > 0],
  ];
  const box = $("tiles");
  if (box.children.length !== all.length) {
    box.replaceChildren(...all.map(() => {
      const tile = element("div", { class: "tile" });
      tile.append(element("span"), element("b"), element("span"));
      return tile;
    }));
  }
  all.forEach(([name, value, more, bad], i) => {
    const tile = box.children[i];
    tile.className = bad ? "tile bad" : "tile";
    [name, value, more].forEach((text, part) => set(tile.children[part], text));
  });
}

function draws(svg) {
  const box = svg.getBoundingClientRect();
  const width = Math.max(200, box.width), height = Math.max(100, box.height);
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  const parts = [];
  const add = (name, attributes, text) => {
    const made = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (text !== undefined) made.textContent = text;
    parts.push(made);
  };
  return { width, height, add, end: () => svg.replaceChildren(...parts) };
}

// A scale that ends at a round number above what it has to show.
function top(most) {
  const step = 10 ** Math.floor(Math.log10(Math.max(most, 1e-3)));
  return [1, 2, 5, 10].map((n) => n * step).find((n) => n >= most * 1.0001) || 10 * step;
}

function timeline(id, points, lines, most, unit, guesses) {
  const svg = draws($(id));
  const left = 46, right = 8, upper = 18, lower = 18;
  const now = points[points.length - 1].at, length = 120000;
  const x = (at) => left + (svg.width - left - right) * (1 - (now - at) / length);
  const y = (v) => upper + (svg.height - upper - lower) * (1 - Math.min(v, most) / most);
  for (let i = 0; i <= 4; i++) {
    const v = (most * i) / 4;
    svg.add("line", { class: "grid", x1: left, x2: svg.width - right, y1: y(v), y2: y(v) });
    svg.add("text", { x: left - 5, y: y(v) + 4, "text-anchor": "end" }, unit(v));
  }
  [0, 30, 60, 90].forEach((s) => {
    svg.add("text", { x: x(now - s * 1000), y: svg.height - 3, "text-anchor": s ? "middle" : "end" }, s ? "-" + s + " s" : "now");
  });
  const recent = points.filter((p) => now - p.at <= length);
  let label = left;
  for (const [name, kind, words] of lines) {
    let run = [];
    const flush = () => {
      if (run.length > 1) svg.add("polyline", { class: kind, points: run.join(" ") });
      run = [];
    };
    let last = null;
    for (const p of recent) {
      // A line does not cross a time of which nothing is known.
      if (!is(p[name]) || (last !== null && p.at - last > 3000)) flush();
      if (is(p[name])) run.push(x(p.at).toFixed(1) + "," + y(p[name]).toFixed(1));
      last = p.at;
    }
    flush();
    svg.add("text", { class: "name t-" + kind, x: label, y: 11 }, words);
    label += words.length * 6.6 + 14;
  }
  // What was computed ends where what is measured ends.
  const f = forecast();
  if (f && f.points.length > 1) {
    const end = f.points[f.points.length - 1].t_s;
    for (const name of guesses) {
      const known = f.points.filter((p) => is(p[name]));
      if (known.length > 1) {
        const run = known.map((p) => x(now - (end - p.t_s) * 1000).toFixed(1) + "," + y(p[name]).toFixed(1));
        svg.add("polyline", { class: "guess", points: run.join(" ") });
      }
    }
    // A phone has no place for it in the first line.
    svg.add("text", { class: "name t-guess", x: svg.width - right, y: 28, "text-anchor": "end" }, "what if");
  }
  svg.end();
}

// What was computed of the direction that is shown.
function forecast() {
  return state.forecast && state.forecast.direction === state.shown ? state.forecast : null;
}

function charts(d, points) {
  if (points.length === 0) return;
  const p = d.policy;
  const recent = points.slice(-240);
  const most = (name) => recent.reduce((m, q) => (is(q[name]) && q[name] > m ? q[name] : m), 0);
  const hundred = Math.max(1, top(most("used")));
  timeline("used", points, [["used", "used", "used"], ...(p ? [["low", "bound", "policy, at least"], ["aim", "aim", "aimed at"]] : [])],
    hundred > 1 ? 1.2 : 1, (v) => (v * 100).toFixed(0) + " %", ["utilization"]);
  const f = forecast();
  const bound = p ? p.target_max_ms : 0;
  const high = top(Math.max(most("max"), most("set"), bound, f ? f.delay_p95_ms : 0, 0.1));
  timeline("delay", points, [["max", "max", "largest"], ["mean", "mean", "mean"], ["set", "set", "set point"],
    ...(p ? [["most", "bound", "policy, at most"]] : [])], high,
    (v) => fixed(v, high < 1 ? 2 : high < 10 ? 1 : 0) + " ms", ["delay_mean_ms", "setpoint_ms"]);
  phase(p, recent);
  const words = p
    ? `${percent(d.utilization)} used, the policy asks for ${percent(p.utilization_low)}.`
    : `${percent(d.utilization)} used; there is no policy.`;
  caption("used-text", words);
  caption("delay-text", `Mean delay ${ms(d.delay_mean_ms)}, set point ${ms(d.setpoint_ms)}` +
    (p ? `, at most ${ms(p.target_max_ms)} by the policy.` : "."));
  const inside = p && is(d.utilization) && is(d.delay_mean_ms);
  caption("phase-text", !inside ? "Each point is half a second."
    : d.utilization >= p.utilization_low && d.delay_mean_ms <= p.target_max_ms ? "Now inside of the policy's corner: busy enough, and no more delay than allowed."
    : d.delay_mean_ms > p.target_max_ms ? "Now more delay than the policy allows."
    : "Now less busy than the policy asks for.");
}

// Screen readers are not interrupted twice a second.
function caption(id, text) {
  const node = $(id), now = Date.now();
  if (now - Number(node.dataset.at || 0) < 2000) return;
  node.dataset.at = String(now);
  set(node, text);
}

function phase(p, points) {
  const svg = draws($("phase"));
  const left = 46, right = 10, upper = 10, lower = 32;
  const known = points.filter((q) => is(q.used) && is(q.mean));
  const f = forecast();
  const wide = top(Math.max(known.reduce((m, q) => Math.max(m, q.mean), 0), p ? p.target_max_ms * 1.25 : 0, f ? f.delay_mean_ms : 0, 0.1));
  const x = (v) => left + ((svg.width - left - right) * Math.min(v, wide)) / wide;
  const y = (v) => upper + (svg.height - upper - lower) * (1 - Math.min(v, 1.02) / 1.02);
  if (p) {
    svg.add("rect", { class: "corner", x: left, y: y(1.02), width: x(p.target_max_ms) - left, height: y(p.utilization_low) - y(1.02) });
  }
  for (let i = 0; i <= 4; i++) {
    svg.add("line", { class: "grid", x1: left, x2: svg.width - right, y1: y(i / 4), y2: y(i / 4) });
    svg.add("text", { x: left - 5, y: y(i / 4) + 4, "text-anchor": "end" }, i * 25 + " %");
    const v = (wide * i) / 4;
    svg.add("text", { x: x(v), y: svg.height - 18, "text-anchor": i === 4 ? "end" : "middle" }, fixed(v, wide < 1 ? 2 : wide < 10 ? 1 : 0));
  }
  svg.add("text", { x: svg.width - right, y: svg.height - 4, "text-anchor": "end" }, "mean delay in ms");
  if (p) {
    const line = (x1, x2, y1, y2) => svg.add("polyline", { class: "bound", points: `${x1},${y1} ${x2},${y2}` });
    line(left, svg.width - right, y(p.utilization_low), y(p.utilization_low));
    line(x(p.target_max_ms), x(p.target_max_ms), y(0), y(1.02));
    svg.add("text", { class: "t-bound name", x: x(p.target_max_ms) + 4, y: y(0.04) }, "most");
  }
  known.forEach((q, i) => {
    const last = i === known.length - 1;
    svg.add("circle", {
      class: last ? "now" : "past", cx: x(q.mean).toFixed(1), cy: y(q.used).toFixed(1), r: last ? 6 : 2.5,
      "fill-opacity": last ? 1 : (0.08 + (0.6 * i) / known.length).toFixed(2),
    });
  });
  if (f) {
    f.points.forEach((q) => svg.add("rect", { class: "guess", x: (x(q.delay_mean_ms) - 2).toFixed(1), y: (y(q.utilization) - 2).toFixed(1), width: 4, height: 4 }));
    const [cx, cy] = [x(f.delay_mean_ms), y(f.utilization)];
    svg.add("path", { class: "guess", d: `M${cx - 7},${cy}H${cx + 7}M${cx},${cy - 7}V${cy + 7}` });
    svg.add("text", { class: "name t-guess", x: cx + 9, y: cy + 14 }, "what if");
  }
  svg.end();
}

function moves(d) {
  const list = $("moves"), all = d.recent_moves || [];
  const last = all.length ? all[all.length - 1].t_s : -1;
  const drawn = d.name + "/" + all.length + "/" + last + "/" + JSON.stringify(d.moves);
  if (state.drawn === drawn) return;
  state.drawn = drawn;
  const totals = Object.entries(d.moves).map(([rule, n]) => `${rule} ${count(n)}`).join(", ");
  const items = [...all].reverse().map((m) => {
    const item = element("li", {}, `${m.t_s.toFixed(1)} s  ${m.rule}: ${fixed(m.from, 2)} \u2192 ${fixed(m.to, 2)} ${m.unit}`);
    const why = Object.entries(m.measured).map(([name, v]) => `${name} ${Math.abs(v) >= 1e6 ? (v / 1e6).toFixed(2) + "M" : +v.toPrecision(4)}`);
    item.append(element("small", {}, why.join(", ")));
    return item;
  });
  if (items.length === 0) items.push(element("li", {}, d.policy ? "It did not move so far." : "Without a policy it does not move."));
  else items.unshift(element("li", {}, "So far: " + totals));
  list.replaceChildren(...items);
}

const COLUMNS = [
  ["name", (r) => r.name], ["what", (r) => r.what], ["rate", (r) => r.rate, rate], ["delivered", (r) => r.bps, rate],
  ["used", (r) => r.used, percent], ["delay", (r) => r.delay, ms], ["95 %", (r) => r.p95, ms], ["set point", (r) => r.set, ms],
  ["waiting", (r) => r.waiting, count], ["drops", (r) => r.drops, count], ["overflows", (r) => r.overflows, count],
  ["marks", (r) => r.marks, count], ["lost", (r) => r.lost, count],
];
// Behind "used" where there are customers.
const OF_CUSTOMERS = [["RTT behind", (r) => r.rtt, ms], ["outcome", (r) => r.outcome, percent]];

function rows(s) {
  const queues = s.directions.map((d) => ({
    name: d.name, what: d.aqm, rate: d.rate_bps, bps: d.delivered_bps, used: d.utilization, delay: d.delay_mean_ms, p95: d.delay_p95_ms,
    set: d.setpoint_ms, waiting: d.backlog_packets, drops: d.packets.dropped_on_arrival + d.packets.dropped_at_head,
    overflows: d.packets.overflowed + d.packets.shed, marks: d.packets.marked,
  }));
  const ports = s.ports.map((p) => ({ name: p.name, what: p.is_up ? "port, up" : "port, down", lost: p.lost_frames }));
  const customer = (direction, u, queue) => ({
    name: u.name, what: "customer, " + direction + (queue ? "" : ", idle"), rate: u.rate_bps, bps: u.delivered_bps,
    used: u.rate_bps ? u.delivered_bps / u.rate_bps : null, delay: u.delay_mean_ms, drops: u.dropped_packets, marks: u.marked_packets,
    rtt: u.rtt_ms, outcome: u.outcome, set: u.setpoint_ms, p95: u.delay_p95_ms,
  });
  // The status has those with the highest rates; of others the program is asked.
  const found = state.asked.words && state.asked.words === name() ? state.asked.customers : null;
  const customers = found ? found.map((c) => customer(c.direction, c.user, c.has_queue))
    : s.directions.flatMap((d) => (d.users ? d.users.users : []).map((u) => customer(d.name, u, true)));
  return [...queues, ...ports, ...customers];
}

// The part of a search that is not what the table itself says of a row.
function name() {
  const own = /^(customer|idle|port|up|down)$/i;
  return $("search").value.split(/\s+/).filter((w) => w && !own.test(w)).join(" ");
}

// Asks for customers by name, or by address, as long as somebody searches.
async function lookUp() {
  const words = name(), s = state.status;
  if (!s || !words || document.hidden || !s.directions.some((d) => d.users)) return;
  const key = /^[0-9a-f.:]*[.:][0-9a-f.:]*$/i.test(words) ? "address" : "name";
  try {
    const answer = await fetch(`v1/users?limit=200&${key}=${encodeURIComponent(words)}`, { headers: headers(), cache: "no-store" });
    if (!answer.ok || words !== name()) return;
    state.asked = { words, customers: (await answer.json()).customers };
    draw();
  } catch { /* the line is lost, which is told above */ }
}

function table(s) {
  const head = document.querySelector("#queues thead tr"), body = document.querySelector("#queues tbody");
  const columns = s.directions.some((d) => d.users) ? [...COLUMNS.slice(0, 5), ...OF_CUSTOMERS, ...COLUMNS.slice(5)] : COLUMNS;
  if (head.children.length !== columns.length) {
    if (state.sort.column >= columns.length) state.sort = { column: 0, down: false };
    body.replaceChildren();
    head.replaceChildren(...columns.map(([name], i) => {
      const cell = element("th", { scope: "col" }), button = element("button", { type: "button" }, name);
      button.addEventListener("click", () => {
        state.sort = { column: i, down: state.sort.column === i && !state.sort.down };
        draw();
      });
      cell.append(button);
      return cell;
    }));
  }
  [...head.children].forEach((cell, i) => {
    const { column, down } = state.sort;
    cell.setAttribute("aria-sort", i !== column ? "none" : down ? "descending" : "ascending");
  });
  const words = $("search").value.toLowerCase().split(/\s+/).filter(Boolean);
  const all = rows(s);
  const given = new Set(state.asked.words && state.asked.words === name() ? name().toLowerCase().split(/\s+/) : []);
  const found = all.filter((r) => words.filter((w) => !(given.has(w) && r.what.startsWith("customer"))).every((w) => (r.name + " " + r.what).toLowerCase().includes(w)));
  const value = columns[state.sort.column][1], sign = state.sort.down ? -1 : 1;
  found.sort((a, b) => {
    const [x, y] = [value(a), value(b)];
    if (!is(x) && typeof x !== "string") return 1;
    if (!is(y) && typeof y !== "string") return -1;
    return sign * (typeof x === "string" ? x.localeCompare(y) : x - y);
  });
  while (body.children.length > found.length) body.lastChild.remove();
  while (body.children.length < found.length) {
    const row = element("tr");
    row.append(...columns.map((_, i) => element(i ? "td" : "th", i ? {} : { scope: "row" })));
    body.append(row);
  }
  found.forEach((r, i) => columns.forEach(([, of, form], c) => {
    const v = of(r);
    set(body.children[i].children[c], form ? (is(v) ? form(v) : "") : v);
  }));
  set($("found"), words.length ? `${found.length} of ${all.length}` : "");
}

// ---- the policy ----

const FIELDS = [
  ["utilization_low", (p) => p.utilization_low * 100, (v) => v + "%", "utilization_low"],
  ["utilization_target", (p) => p.utilization_target * 100, (v) => v + "%", "utilization_target"],
  ["target_min", (p) => p.target_min_ms, (v) => v + "ms", "target_min"],
  ["target_max", (p) => p.target_max_ms, (v) => v + "ms", "target_max"],
  ["rate", (p, d) => (d.rate_bps ? d.rate_bps / 1e6 : null), (v) => v + "Mbit/s", null],
];
const shownValue = (v) => (is(v) ? String(+v.toFixed(6)) : "");

function form(d) {
  $("none").hidden = Boolean(d.policy);
  $("policy").hidden = !d.policy;
  if (!d.policy) return;
  for (const [id, value] of FIELDS) if (!state.edited.has(id)) $(id).value = shownValue(value(d.policy, d));
  // Where several queues share a policy, a rate is not of all of them.
  $("rate").disabled = !d.rate_key;
}

// Right after its start a program has told nothing of its queues.
const NOT_TOLD = "The program has not told yet how its queues stand. Try again in a moment.";

function wanted(d) {
  const values = {};
  for (const [id, value, text, key] of FIELDS) {
    const typed = $(id).value.trim().replace(",", ".");
    // What was not typed may have changed elsewhere since it was shown.
    if (!state.edited.has(id) || $(id).disabled || typed === shownValue(value(d.policy, d))) continue;
    // Units may be typed, too.
    const name = key ? d.policy.key + "." + key : d.rate_key;
    values[name] = /^[0-9.]+$/.test(typed) ? text(typed) : typed;
  }
  return values;
}

function say(text, kind) {
  $("answer").dataset.kind = kind || "";
  set($("answer"), text);
}

async function ask(dryRun) {
  const d = shown();
  if (!d) return say(NOT_TOLD, "bad");
  if (!d.policy) return say("This direction has no policy.", "bad");
  const values = wanted(d);
  if (Object.keys(values).length === 0) return say("Nothing is to be changed: this is in force.", "");
  const buttons = [$("apply"), $("check")];
  buttons.forEach((b) => { b.disabled = true; });
  say("asking", "");
  try {
    const answer = await fetch("v1/config", {
      method: "PATCH", headers: headers({ "Content-Type": "application/json" }), body: JSON.stringify({ set: values, dry_run: dryRun }),
    });
    if (!answer.ok) {
      // Of what fails within the program the reason says what came of it, as far as it is known.
      say((answer.status < 500 ? "Refused, nothing was changed. " : "Not done, or not known to be. ") + (await reason(answer)), "bad");
      if (answer.status === 401) $("token").focus();
      return;
    }
    const applied = await answer.json();
    const list = applied.changed.map((c) => `${c.key} ${c.from || "absent"} \u2192 ${c.to || "absent"}`).join(", ");
    const what = dryRun ? "This would change: " : applied.at_s === null ? "In force already: " : `In force since ${applied.at_s.toFixed(3)} s: `;
    say(what + list + (applied.notes ? ". " + applied.notes.join(" ") : ""), "good");
    if (!dryRun) state.edited.clear();
  } catch {
    say("The program does not answer, and whether it was done is not known. Look at what is in force.", "bad");
  } finally {
    buttons.forEach((b) => { b.disabled = false; });
  }
}

// ---- what if ----

function supposition(s, d) {
  $("what-if").hidden = !s.what_if;
  if (!s.what_if || state.supposed) return;
  const p = d.policy;
  $("if_rate").value = shownValue(d.rate_bps ? +(d.rate_bps / 1e6).toPrecision(6) : null);
  $("if_low").value = p ? shownValue(p.utilization_low * 100) : "";
  $("if_most").value = p ? shownValue(p.target_max_ms) : "";
}

function tell(text, kind) {
  $("forecast").dataset.kind = kind || "";
  set($("forecast"), text);
}

async function compute() {
  const d = shown();
  if (!d) return tell(NOT_TOLD, "bad");
  const typed = (id) => $(id).value.trim().replace(",", ".");
  const values = {}, p = d.policy;
  const put = (id, key, unit, now) => {
    const text = typed(id);
    if (text && text !== shownValue(now)) values[key] = /^[0-9.]+$/.test(text) ? text + unit : text;
  };
  put("if_rate", "rate", "Mbit/s", d.rate_bps ? +(d.rate_bps / 1e6).toPrecision(6) : null);
  put("if_aqm", "aqm.name", "", null);
  put("if_low", "policy.utilization_low", "%", p ? p.utilization_low * 100 : null);
  put("if_most", "policy.target_max", "ms", p ? p.target_max_ms : null);
  const body = { direction: d.name, set: values, flows: Number(typed("if_flows")), rtt_ms: Number(typed("if_rtt")), congestion: $("if_congestion").value };
  $("compute").disabled = true;
  tell("computing", "");
  try {
    const answer = await fetch("v1/what-if", {
      method: "POST", headers: headers({ "Content-Type": "application/json" }), body: JSON.stringify(body),
    });
    if (!answer.ok) {
      tell("Not computed. " + (await reason(answer)), "bad");
      if (answer.status === 401) $("token").focus();
      return;
    }
    const f = await answer.json();
    state.forecast = f;
    const measured = is(d.utilization) ? ` Measured now: ${percent(d.utilization)}, mean delay ${ms(d.delay_mean_ms)}.` : "";
    tell(`What if, ${f.aqm} at ${rate(f.rate_bps)} with ${count(body.flows)} flows of ${body.congestion} and ${body.rtt_ms} ms: ` +
      `${percent(f.utilization)} used, mean delay ${ms(f.delay_mean_ms)}, 95 % of packets below ${ms(f.delay_p95_ms)}, ` +
      `${count(f.drops)} drops, ${count(f.marks)} marks in ${f.duration_s.toFixed(0)} s, computed in ${f.took_s.toFixed(1)} s.` +
      measured + (f.notes.length ? " " + f.notes.join(" ") : ""), "good");
    draw();
  } catch {
    tell("The program does not answer. Nothing was changed.", "bad");
  } finally {
    $("compute").disabled = false;
  }
}

// ---- keys, theme, token ----

function store(of, key, value) {
  // Browsers may forbid it.
  try { if (value === undefined) return of().getItem(key); of().setItem(key, value); } catch { /* then it is asked for again */ }
  return null;
}

function theme(name) {
  document.documentElement.dataset.theme = name;
  $("theme").setAttribute("aria-pressed", String(name === "dark"));
}

// A token in the address, as `weir ctl page` prints it.
function takeToken() {
  const token = new URLSearchParams(location.hash.slice(1)).get("token");
  if (!token) return;
  store(() => sessionStorage, "weir-token", token);
  // It stays in no history.
  history.replaceState(null, "", location.pathname);
  $("token").value = token;
  // Who waits for it goes on.
  $("token").dispatchEvent(new Event("change"));
}

function begin() {
  $("token").value = store(() => sessionStorage, "weir-token") || "";
  takeToken();
  // The address was given to a page that is open.
  addEventListener("hashchange", takeToken);
  $("token").addEventListener("input", () => store(() => sessionStorage, "weir-token", $("token").value.trim()));
  const dark = matchMedia("(prefers-color-scheme: dark)");
  theme(store(() => localStorage, "weir-theme") || (dark.matches ? "dark" : "light"));
  const turn = () => {
    const next = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
    theme(next);
    store(() => localStorage, "weir-theme", next);
  };
  $("theme").addEventListener("click", turn);
  let later = 0;
  $("search").addEventListener("input", () => { clearTimeout(later); later = setTimeout(lookUp, 250); draw(); });
  setInterval(lookUp, 2000);
  $("policy").addEventListener("submit", (event) => { event.preventDefault(); ask(false); });
  $("policy").addEventListener("input", (event) => state.edited.add(event.target.id));
  $("check").addEventListener("click", () => ask(true));
  $("traffic").addEventListener("submit", (event) => { event.preventDefault(); compute(); });
  $("traffic").addEventListener("input", () => { state.supposed = true; });
  $("forget").addEventListener("click", () => {
    state.forecast = null;
    state.supposed = false;
    $("if_aqm").value = "";
    tell("", "");
    draw();
  });
  $("undo").addEventListener("click", () => { state.edited.clear(); say("", ""); draw(); });
  $("directions").addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step || !state.status) return;
    const n = state.status.directions.length;
    show((index() + step + n) % n);
    $("directions").children[index()].focus();
  });
  document.addEventListener("keydown", (event) => {
    const typing = event.target instanceof HTMLInputElement || event.target instanceof HTMLSelectElement;
    if (event.key === "Escape" && typing) return event.target.blur();
    if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "t") turn();
    else if (event.key === "1" || event.key === "2") show(Number(event.key) - 1);
    else if (event.key === "/") { event.preventDefault(); $("search").focus(); }
    else if (event.key === "w" && !$("what-if").hidden) { event.preventDefault(); $("if_flows").focus(); }
    else if (event.key === "p" && !$("policy").hidden) { event.preventDefault(); $("utilization_low").focus(); }
  });
  document.addEventListener("visibilitychange", draw);
  addEventListener("resize", draw);
  follow();
}

begin();
