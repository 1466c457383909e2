"use strict";
(() => {
  const began = performance.now();
  const $ = id => document.getElementById(id);
  const data = JSON.parse($("data").textContent);
  // On a phone the name of a host stands above its bars, and otherwise beside them.
  const phone = matchMedia("(max-width: 640px)");
  const HEAD = phone.matches ? 18 : 0, ROW = HEAD + 48, LINE = 27;

  // Flags of an exchange, as page.go sets them.
  const ROBOTS = 1, PROBE = 2, REDIRECT = 4, AGAIN = 8, LOW = 16;
  const classes = ["ok", "moved", "refused", "failed", "robots"];
  const typeNames = {
    blocked_by_robots: "disallowed by robots.txt", blocked_by_rule: "excluded by own rule", slot_timeout: "not started in time",
    budget_exceeded: "budget spent", budget_warning: "budget nearly spent", response_rejected: "response rejected",
    retried: "tried again", noindex: "noindex", lease_expired: "body never closed", stays_open: "stays open", robots_unreachable: "robots.txt unreachable",
    state_lost: "state lost", host_cleared: "block lifted by hand",
    state_shared: "state shared",
    drained: "drained",
    limiters_apart: "two limiters",
  };
  const refusals = new Set(["blocked_by_robots", "blocked_by_rule", "slot_timeout", "budget_exceeded", "response_rejected"]);
  const count = (n, what) => `${number(n)} ${what}${n === 1 ? "" : "s"}`;

  // ---- the data, made ready for drawing ---------------------------------

  const span = Math.max(data.span, 10);
  let requests = 0, bytes = 0, waited = 0, pages = 0, refused = 0, rejected = 0, unsure = 0, blocks = 0;
  let byHand = false; // a person has blocked a host
  const reasons = new Map(); // refusals before sending, by type
  for (const [i, h] of data.hosts.entries()) {
    const n = h.start ? h.start.length : 0;
    for (const c of ["start", "latency", "duration", "delay", "waitSlot", "waitDelay", "waitBlock", "bytes"]) h[c] = Float64Array.from(h[c] || []);
    h.index = i;
    h.end = new Float64Array(n);
    h.lane = new Uint8Array(n);
    h.cls = new Uint8Array(n);
    h.longest = 0;
    h.hit = null; // which exchanges the search found
    const free = [];
    for (let j = 0; j < n; j++) {
      const lasts = h.duration[j] < 0 ? span - h.start[j] : h.duration[j]; // no end: to the end of the log
      h.end[j] = h.start[j] + lasts;
      h.longest = Math.max(h.longest, lasts, h.delay[j]);
      let lane = free.findIndex(t => t <= h.start[j]);
      if (lane < 0) lane = free.length < 6 ? free.length : 5;
      free[lane] = h.end[j];
      h.lane[j] = lane;
      const s = h.status[j];
      h.cls[j] = h.flags[j] & ROBOTS ? 4 : s === 0 || s >= 500 ? 3 : s >= 400 ? 2 : s >= 300 ? 1 : 0;
    }
    h.lanes = Math.max(1, free.length);
    h.broken = [];
    h.events.sort((a, b) => a.at - b.at);
    h.refused = h.low = 0;
    for (let j = 0; j < n; j++) if (h.flags[j] & LOW) h.low++;
    for (const e of h.events) {
      if (!refusals.has(e.type)) continue;
      if (e.sent) { rejected++; continue; }
      h.refused++;
      reasons.set(e.type, (reasons.get(e.type) || 0) + 1);
    }
    unsure += h.low;
    requests += n; bytes += h.report.bytes; waited += h.report.wait; pages += h.report.pages;
    refused += h.refused; blocks += h.blocks.length;
    byHand ||= h.blocks.some(b => b.hand);
  }
  for (const v of data.violations) if (v.host >= 0) data.hosts[v.host].broken.push(v);

  // ---- words --------------------------------------------------------------

  const number = n => n.toLocaleString("en-US");
  function seconds(s) {
    if (s === 0) return "0";
    if (s < 0.001) return (s * 1e6).toFixed(0) + " µs";
    if (s < 0.9995) return (s * 1000).toFixed(s < 0.01 ? 1 : 0) + " ms";
    if (s < 59.95) return String(+s.toFixed(s < 10 ? 2 : 1)) + " s";
    // The smaller unit is rounded before the larger one is split off: there is no "59 min 60 s".
    const whole = Math.round(s);
    if (whole < 3600) return Math.floor(whole / 60) + " min " + whole % 60 + " s";
    const minutes = Math.round(s / 60);
    return Math.floor(minutes / 60) + " h " + minutes % 60 + " min";
  }
  const took = ticks => seconds(ticks / 1e4);
  function size(n) {
    for (const unit of ["B", "kB", "MB", "GB"]) {
      if (n < 1000 || unit === "GB") return (unit === "B" ? n : n.toFixed(n < 10 ? 1 : 0)) + " " + unit;
      n /= 1000;
    }
  }
  // clock shows a time of day; decimals of the second as far as wanted.
  function clock(ticks, decimals = 3) {
    const iso = new Date(data.from + ticks / 10).toISOString();
    return iso.slice(11, decimals ? 20 + decimals : 19);
  }
  const date = ticks => new Date(data.from + ticks / 10).toISOString().slice(0, 10);

  function el(tag, cls, text) {
    const e = document.createElement(tag);
    if (cls) e.className = cls;
    if (text !== undefined) e.textContent = text;
    return e;
  }

  // refusalsOf says how often a host refused, "" if it never did.
  function refusalsOf(h) {
    const r = h.report.refused;
    const said = [[r.tooMany, "429"], [r.forbidden, "403"], [r.failed, "5xx"], [r.none, "no response"]].filter(p => p[0]);
    return said.length ? `${(100 * h.report.refusalShare).toFixed(0)} % refused by the host (${said.map(p => `${number(p[0])} × ${p[1]}`).join(", ")})` : "";
  }

  // ---- summary ------------------------------------------------------------

  const total = data.violations.length + data.more;
  const open = data.promises.some(c => c.open);
  $("verdict").textContent = total === 0 ? (open ? "Nothing is broken, but not everything is proved" : "Every promise was kept, proved by the log")
    : total === 1 ? "One violation" : number(total) + " violations";
  $("subtitle").textContent = `${data.log}: ${count(data.records, "record")} of ${count(data.hosts.length, "host")}, `
    + `${date(0)} ${clock(0, 0)} to ${date(span) === date(0) ? "" : date(span) + " "}${clock(span, 0)} UTC`;
  for (const said of data.promised || []) $("promised").append(el("p", "soft", said));
  // What the auditor's names of promises mean.
  const meanings = {
    "delays kept": "each request to a host came after the delay",
    "slots kept": "a host never had more requests at a time than slots",
    "sites kept": "all names of a site never had too many at a time",
    "blocks kept": "no request started while its host was blocked",
    "allowed by robots.txt": "each page was allowed by robots.txt",
    "verdicts right": "robots.txt was read as its standard says",
    "reservations kept": "no page was used that its site reserves",
    "budget kept": "no more was fetched than the budget allows",
    "every start ended": "each request has its end in the log",
    "times agree with the servers'": "the servers' clocks confirm the times",
    "log whole": "no line is missing or changed",
  };
  for (const c of data.promises) {
    const state = c.broken ? "bad" : c.open ? "open" : c.proved ? "good" : "none";
    const li = el("li", state);
    const name = el("span", "name", c.name);
    name.style.color = "var(--ink)";
    const said = [];
    if (c.broken) said.push(c.broken === 1 ? "broken once" : `broken ${number(c.broken)} times`);
    if (c.open) said.push(`open ${number(c.open)}`);
    if (c.proved) said.push(`proved ${number(c.proved)}`);
    const proof = el("span", "proof", (said.join(", ") || "nothing to keep") + (c.proof ? ` (${c.proof})` : ""));
    for (const why of c.why || []) proof.append(el("br"), why);
    if (meanings[c.name]) name.append(el("small", "", meanings[c.name]));
    li.append(el("span", "mark", { bad: "✗", open: "?", good: "✓", none: "–" }[state]), name, proof);
    $("checks").append(li);
  }
  for (const h of data.hosts.filter(h => h.report.refusalShare > 0.1 && h.report.answers >= 10).sort((a, b) => b.report.refusalShare - a.report.refusalShare).slice(0, 8)) {
    const li = el("li", "open");
    const name = el("span", "name", h.name);
    name.style.color = "var(--ink)";
    li.append(el("span", "mark", "!"), name, el("span", "proof", `${refusalsOf(h)}, of ${count(h.report.answers, "request")}`));
    $("checks").append(li);
  }
  const byReason = [...reasons].sort((a, b) => b[1] - a[1]).map(([type, n]) => [typeNames[type] || type, number(n), "part"]);
  for (const [name, value, cls = ""] of [
    ["requests sent", number(requests)], ["pages", number(pages)], ["read", size(bytes)],
    ...unsure ? [["sent at low confidence, without robots.txt", number(unsure), "low"]] : [],
    ["not sent", number(refused)], ...byReason,
    ...rejected ? [["responses rejected", number(rejected)]] : [], ["blocks", number(blocks)],
    ...waited ? [["waited, all requests together", seconds(waited)]] : [], ["crawl took", took(span)],
  ]) $("totals").append(el("dt", cls, name), el("dd", cls, value));
  const slow = data.hosts.filter(h => h.report.latency > 0).sort((a, b) => b.report.latency - a.report.latency).slice(0, 8);
  for (const h of slow) {
    const button = el("button");
    button.type = "button";
    const bar = el("span");
    const fill = el("span", "bar");
    fill.style.cssText = `display:block;width:${Math.max(2, 100 * h.report.latency / slow[0].report.latency)}%`;
    bar.append(fill);
    button.append(el("span", "name", h.name), bar, el("span", "num", seconds(h.report.latency)));
    button.onclick = () => { pick(h); reveal(h); };
    const li = el("li");
    li.append(button);
    $("slowest").append(li);
  }
  if (!slow.length) $("slowest").append(el("li", "", "No host has answered."));
  $("violations").hidden = total === 0;
  for (const v of data.violations.slice(0, 500)) {
    const button = el("button");
    button.type = "button";
    button.append(el("span", "kind", v.kind), el("span", "where", (v.lines.length > 1 ? "lines " : "line ") + v.lines.join(", ")),
      el("span", "", v.host >= 0 ? data.hosts[v.host].name : ""), el("span", "", v.detail));
    button.onclick = () => {
      if (v.host < 0) return;
      if (v.at >= 0) show(time.place(v.at) - 1e5, time.place(v.at) + 1e5);
      pick(data.hosts[v.host], v.lines[v.lines.length - 1]);
      reveal(data.hosts[v.host]);
    };
    const li = el("li");
    li.append(button);
    $("violation-list").append(li);
  }

  // ---- the axis ---------------------------------------------------------------

  // axisOf returns an axis for things that happen from a time to another, in order. It leaves out
  // times in which nothing happens for long: each takes a fortieth of the width instead. place
  // returns where a time is on the axis, and time returns the time of a place.
  function axisOf(busy, span) {
    const idle = Math.max(6e5, span / 10);
    const parts = [{ from: 0, to: 0, at: 0 }];
    for (const [from, to] of [...busy, [span, span]]) {
      const last = parts[parts.length - 1];
      if (from - last.to > idle) parts.push({ from, to, at: 0 });
      else last.to = Math.max(last.to, to);
    }
    const all = parts.reduce((sum, p) => sum + p.to - p.from, 0);
    const gap = Math.max(all, 10) / 40;
    for (let i = 1; i < parts.length; i++) parts[i].at = parts[i - 1].at + parts[i - 1].to - parts[i - 1].from + gap;
    const last = parts[parts.length - 1];
    const partAt = (key, x) => {
      let i = parts.length - 1;
      while (i > 0 && parts[i][key] > x) i--;
      return [parts[i], parts[i + 1]];
    };
    return {
      span: Math.max(last.at + last.to - last.from, 10),
      pauses: parts.slice(1).map((p, i) => ({ from: parts[i].to, to: p.from })),
      place(t) {
        const [p, next] = partAt("from", t);
        if (t <= p.to || !next) return p.at + t - p.from;
        return p.at + p.to - p.from + (t - p.to) / (next.from - p.to) * gap;
      },
      time(x) {
        const [p, next] = partAt("at", x);
        const beyond = x - p.at - (p.to - p.from);
        if (beyond <= 0 || !next) return p.from + x - p.at;
        return p.to + beyond / gap * (next.from - p.to);
      },
    };
  }

  const busy = [];
  for (const h of data.hosts) {
    for (let j = 0; j < h.start.length; j++) busy.push([h.start[j], h.duration[j] < 0 ? h.start[j] : h.end[j]]);
    for (const e of h.events) busy.push([e.at, e.at]);
    for (const b of h.blocks) busy.push([b.from, b.from]);
  }
  busy.sort((a, b) => a[0] - b[0]);
  const time = axisOf(busy, span);

  // ---- state of the timeline -----------------------------------------------

  const whole = () => show(-time.span * 0.01, time.span * 1.025); // with room for the last bar
  const view = { from: -time.span * 0.01, to: time.span * 1.025 }; // places on the axis
  let shown = data.hosts; // found and sorted
  let picked = null, query = "", cursor = -1;
  let colors = {};
  const lanes = $("lanes"), scroll = $("scroll"), rows = $("rows"), axis = $("axis"), overview = $("overview");

  let pending = false, remembering = 0;
  function redraw() {
    if (pending) return;
    pending = true;
    requestAnimationFrame(() => { pending = false; draw(); });
  }

  function show(from, to) {
    let width = Math.min(Math.max(to - from, 20), time.span * 1.04);
    let middle = (from + to) / 2;
    from = middle - width / 2;
    from = Math.min(Math.max(from, -time.span * 0.02), time.span * 1.02 - width);
    view.from = from; view.to = from + width;
    clearTimeout(remembering);
    remembering = setTimeout(remember, 300);
    redraw();
  }
  const zoom = (factor, at = (view.from + view.to) / 2) =>
    show(at - (at - view.from) * factor, at + (view.to - at) * factor);

  function readColors() {
    const style = getComputedStyle(document.documentElement);
    for (const name of ["bg", "card", "ink", "soft", "line", "row", "pick", "block", "block-fill", "hand", "hand-fill", "stop", "broken", "delay", "amber",
      ...classes, ...classes.map(c => c + "-body")]) colors[name] = style.getPropertyValue("--" + name).trim();
  }

  // canvas2d sizes a canvas for its place on the screen.
  function canvas2d(canvas, height) {
    const ratio = window.devicePixelRatio || 1, width = canvas.clientWidth;
    const w = Math.round(width * ratio), h = Math.round(height * ratio);
    if (canvas.width !== w || canvas.height !== h) { canvas.width = w; canvas.height = h; canvas.style.height = height + "px"; }
    const c = canvas.getContext("2d");
    c.setTransform(ratio, 0, 0, ratio, 0, 0);
    c.clearRect(0, 0, width, height);
    return [c, width];
  }

  // firstAfter returns the index of the first entry of column that is >= value.
  function firstAfter(column, value) {
    let low = 0, high = column.length;
    while (low < high) {
      const mid = (low + high) >> 1;
      if (column[mid] < value) low = mid + 1; else high = mid;
    }
    return low;
  }

  // ---- drawing ---------------------------------------------------------------

  function draw() {
    drawOverview();
    drawAxis();
    drawLanes();
    $("window").textContent = took(time.time(view.to) - time.time(view.from)) + " shown";
  }

  const steps = [10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5, 1.5e5, 3e5, 6e5, 1.2e6, 3e6, 6e6, 9e6, 1.8e7, 3.6e7,
    7.2e7, 1.08e8, 2.16e8, 4.32e8, 8.64e8];
  function ticksOf(width) {
    const step = steps.find(s => s / (view.to - view.from) * width >= 92) || steps[steps.length - 1];
    const origin = -(data.from * 10 % step);
    const out = [], until = time.time(view.to);
    for (let t = origin + Math.ceil((time.time(view.from) - origin) / step) * step; t <= until; t += step) {
      const pause = time.pauses.find(p => p.from < t && t < p.to);
      if (pause) t = origin + Math.floor((pause.to - origin) / step) * step; // its times have no place
      else out.push(t);
    }
    return [out, step];
  }
  const xOf = (t, width) => (time.place(t) - view.from) / (view.to - view.from) * width;

  function drawAxis() {
    const [c, width] = canvas2d(axis, 26);
    const [ticks, step] = ticksOf(width);
    c.font = "11.5px system-ui, sans-serif";
    c.fillStyle = colors.soft;
    c.strokeStyle = colors.line;
    c.textAlign = "center";
    for (const t of ticks) {
      const x = xOf(t, width);
      c.fillText(step >= 8.64e8 ? date(t) : clock(t, step < 1e4 ? (step < 10 ? 4 : 3) : 0), Math.min(Math.max(x, 32), width - 32), 15);
      c.beginPath(); c.moveTo(x, 20); c.lineTo(x, 26); c.stroke();
    }
    for (const p of time.pauses) c.fillText("…", (xOf(p.from, width) + xOf(p.to, width)) / 2, 25);
  }

  let counts = null, countsWidth = 0;
  function drawOverview() {
    const height = 56;
    const [c, width] = canvas2d(overview, height);
    if (!counts || countsWidth !== width || counts.query !== query) {
      counts = classes.map(() => new Uint32Array(width + 1));
      counts.stops = new Uint32Array(width + 1);
      counts.query = query;
      countsWidth = width;
      for (const h of shown) {
        for (let j = 0; j < h.start.length; j++)
          if (!h.hit || h.hit[j]) counts[h.cls[j]][Math.floor(time.place(h.start[j]) / time.span * (width - 1))]++;
        for (const e of h.events) if (refusals.has(e.type) && !e.off) counts.stops[Math.floor(time.place(e.at) / time.span * (width - 1))]++;
      }
    }
    let most = 1;
    for (let x = 0; x < width; x++) most = Math.max(most, counts.reduce((n, col) => n + col[x], 0));
    for (let x = 0; x < width; x++) {
      let y = height - 6;
      classes.forEach((cls, k) => {
        const tall = counts[k][x] / most * (height - 12);
        if (tall > 0) { c.fillStyle = colors[cls]; c.fillRect(x, y - Math.max(tall, 1), 1, Math.max(tall, 1)); y -= tall; }
      });
      if (counts.stops[x]) { c.fillStyle = colors.stop; c.fillRect(x, height - 4, 1, 4); }
    }
    c.fillStyle = colors.broken;
    for (const v of data.violations) if (v.at >= 0) c.fillRect(time.place(v.at) / time.span * (width - 1) - 1, 0, 2, height);
    // What the timeline below shows.
    const x1 = Math.max(0, view.from / time.span * width), x2 = Math.min(width, view.to / time.span * width);
    if (view.to - view.from < time.span * 0.995) {
      c.globalAlpha = 0.62; c.fillStyle = colors.card;
      c.fillRect(0, 0, x1, height); c.fillRect(x2, 0, width - x2, height);
      c.globalAlpha = 1; c.strokeStyle = colors.ink; c.lineWidth = 1;
      c.strokeRect(x1 + .5, .5, Math.max(2, x2 - x1 - 1), height - 1);
    }
    if (brush) {
      c.globalAlpha = 0.25; c.fillStyle = colors.ok;
      c.fillRect(Math.min(brush.from, brush.to), 0, Math.abs(brush.to - brush.from), height);
      c.globalAlpha = 1;
    }
  }

  // blockWords says what a block is: "blocked 5 min 0 s after 429", "blocked by hand 24 h 0 min: the owner has called".
  function blockWords(b) {
    const lasts = took(b.until - b.from);
    return b.hand ? `blocked by hand ${lasts}: ${whyByHand(b)}` : `blocked ${lasts}` + (b.status ? ` after ${b.status}` : "");
  }
  const whyByHand = b => b.reason.slice(b.reason.indexOf("by hand: ") + 9).replace(/, \d+ \S+ ago$/, "");

  const hatches = {};
  function hatched(c, color = "block") {
    const hatch = hatches[color];
    if (hatch && hatch.color === colors[color]) return hatch.pattern;
    const tile = document.createElement("canvas");
    tile.width = tile.height = 8;
    const t = tile.getContext("2d");
    t.fillStyle = colors[color + "-fill"]; t.fillRect(0, 0, 8, 8);
    t.strokeStyle = colors[color]; t.globalAlpha = 0.55; t.lineWidth = 1.2;
    t.beginPath(); t.moveTo(-2, 10); t.lineTo(10, -2); t.moveTo(-2, 2); t.lineTo(2, -2); t.moveTo(6, 10); t.lineTo(10, 6); t.stroke();
    hatches[color] = { color: colors[color], pattern: c.createPattern(tile, "repeat") };
    return hatches[color].pattern;
  }

  const labels = new Map(); // row number to its button
  function drawLanes() {
    rows.style.height = Math.max(shown.length, 1) * ROW + "px";
    const height = Math.max(Math.min(scroll.clientHeight, shown.length * ROW), ROW);
    const [c, width] = canvas2d(lanes, height);
    const first = Math.floor(scroll.scrollTop / ROW), last = Math.min(shown.length, Math.ceil((scroll.scrollTop + height) / ROW));
    c.strokeStyle = colors.line; c.lineWidth = 1;
    for (const t of ticksOf(width)[0]) {
      const x = Math.round(xOf(t, width)) + .5;
      c.beginPath(); c.moveTo(x, 0); c.lineTo(x, height); c.stroke();
    }
    for (const p of time.pauses) {
      const x1 = xOf(p.from, width), x2 = xOf(p.to, width);
      c.fillStyle = colors.bg; c.fillRect(x1, 0, x2 - x1, height);
    }
    for (let i = first; i < last; i++) drawHost(c, width, shown[i], i * ROW - scroll.scrollTop);
    for (const d of data.drained) {
      const x = Math.round(xOf(d.at, width)), words = "drained by hand";
      c.fillStyle = colors.hand; c.fillRect(x - 1, 0, 2, height);
      c.font = "600 11px system-ui, sans-serif";
      const wide = c.measureText(words).width;
      const at = x + wide + 10 > width ? x - wide - 6 : x + 6;
      c.fillStyle = colors.card; c.fillRect(at - 4, ROW - 17, wide + 8, 15); // over what the rows have there
      c.fillStyle = colors.hand; c.fillText(words, at, ROW - 5);
    }
    if (cursor >= 0) {
      c.fillStyle = colors.ink; c.globalAlpha = .35; c.fillRect(cursor, 0, 1, height); c.globalAlpha = 1;
    }
    for (const [i, button] of labels) if (i < first || i >= last || button.host !== shown[i]) { button.remove(); labels.delete(i); }
    for (let i = first; i < last; i++) if (!labels.has(i)) labels.set(i, label(i));
    // Tab comes to one of the rows, and the arrow keys from there to the others.
    const inOrder = [...labels].sort((a, b) => a[0] - b[0]).map(([, button]) => button);
    const stop = inOrder.find(button => button === document.activeElement) || inOrder.find(button => button.host === picked) || inOrder[0];
    for (const button of inOrder) {
      button.classList.toggle("picked", button.host === picked);
      button.tabIndex = button === stop ? 0 : -1;
    }
    let empty = rows.querySelector(".empty");
    if (!shown.length && !empty) rows.append(el("p", "empty", data.hosts.length ? "Nothing is found." : "The log is empty."));
    if (shown.length && empty) empty.remove();
  }

  function label(i) {
    const h = shown[i], button = el("button", "row");
    button.type = "button";
    button.host = h;
    button.style.top = i * ROW + "px";
    button.title = h.name;
    if (h.broken.length) button.classList.add("broken");
    const facts = [count(h.start.length, "request")];
    if (h.refused) facts.push(number(h.refused) + " not sent");
    if (h.blocks.length) facts.push(count(h.blocks.length, "block"));
    if (h.low) { facts.push(number(h.low) + " at low confidence"); button.classList.add("low"); }
    button.append(el("span", "name", h.name || "(no host)"), el("span", "meta", facts.join(" · ")));
    button.onclick = () => pick(h);
    rows.append(button);
    return button;
  }

  const TOP = 15, TALL = 22, BASE = 41; // of the bars, and of the line of delays
  function drawHost(c, width, h, y) {
    c.save();
    c.beginPath(); c.rect(0, y, width, ROW); c.clip();
    if (h === picked) { c.globalAlpha = .5; c.fillStyle = colors.pick; c.fillRect(0, y, width, ROW); c.globalAlpha = 1; }
    y += HEAD;
    const BARS = ROW - HEAD;
    for (const b of h.blocks) {
      const x1 = xOf(b.from, width), x2 = xOf(b.until, width);
      if (x2 < 0 || x1 > width) continue;
      const color = b.hand ? "hand" : "block";
      c.fillStyle = hatched(c, color); c.fillRect(x1, y + 2, Math.max(x2 - x1, 2), BARS - 4);
      c.fillStyle = colors[color]; c.fillRect(x1, y + 2, b.hand ? 4 : 2, BARS - 4);
      const words = blockWords(b);
      const at = Math.max(x1, 0) + 6;
      c.font = "600 11px system-ui, sans-serif";
      if (Math.min(x2, width) - at > c.measureText(words).width + 4) { c.fillStyle = colors.ink; c.fillText(words, at, y + 12); }
    }
    const tall = TALL / h.lanes, until = time.time(view.to);
    const drawn = new Float64Array(h.lanes).fill(-9), drawnClass = new Int8Array(h.lanes).fill(-1);
    let delayTo = -9;
    for (let j = firstAfter(h.start, time.time(view.from) - h.longest); j < h.start.length && h.start[j] <= until; j++) {
      const x = xOf(h.start[j], width);
      // The delay in force: from the start until the next may come.
      const next = h.delay[j] ? xOf(h.start[j] + h.delay[j], width) : x;
      if (h.delay[j] && next > 0 && next - delayTo > .5) {
        c.fillStyle = colors.delay;
        c.fillRect(Math.max(x, delayTo), y + BASE + 1, Math.max(next - Math.max(x, delayTo) - (next - x > 6 ? 1 : 0), .5), 2);
        if (next - x > 6) c.fillRect(x, y + BASE - 2, 1.5, 6);
        delayTo = next;
      }
      const end = xOf(h.end[j], width);
      if (end < 0) continue;
      const lane = h.lane[j], cls = h.cls[j], off = h.hit && !h.hit[j];
      if (end - drawn[lane] < .7 && drawnClass[lane] === cls && !off) continue; // on a pixel that is drawn already
      drawn[lane] = Math.max(end, x + 1); drawnClass[lane] = cls;
      const top = y + TOP + lane * tall, wide = Math.max(end - x, 1.5), headers = Math.min(xOf(h.start[j] + h.latency[j], width) - x, wide);
      c.globalAlpha = off ? .13 : 1;
      c.fillStyle = colors[classes[cls] + "-body"]; c.fillRect(x, top, wide, tall - 1);
      c.fillStyle = colors[classes[cls]]; c.fillRect(x, top, Math.max(headers, 1.5), tall - 1);
      if (h.duration[j] < 0) { c.fillStyle = colors.broken; c.fillRect(x, top, wide, 1); }
      if (h.flags[j] & LOW) { c.fillStyle = colors.amber; c.fillRect(x, top - 2, Math.max(wide, 3), 2); }
      c.globalAlpha = 1;
    }
    let lastMark = -9;
    for (const e of h.events) {
      const x = xOf(e.at, width);
      if (x < -6 || x > width + 6 || x - lastMark < 1) continue;
      lastMark = x;
      c.globalAlpha = e.off ? .15 : 1;
      if (refusals.has(e.type)) {
        c.fillStyle = colors.stop;
        c.beginPath(); c.moveTo(x, y + 3); c.lineTo(x + 5, y + 8); c.lineTo(x, y + 13); c.lineTo(x - 5, y + 8); c.fill();
      } else {
        c.fillStyle = colors.soft; c.fillRect(x - 1, y + 5, 2.5, 7);
      }
      c.globalAlpha = 1;
    }
    for (const v of h.broken) {
      if (v.at < 0) continue;
      const x = xOf(v.at, width);
      c.fillStyle = colors.broken; c.fillRect(x - 1, y, 2, BARS);
      c.beginPath(); c.moveTo(x - 6, y + 1); c.lineTo(x + 6, y + 1); c.lineTo(x, y + 10); c.fill();
    }
    c.fillStyle = colors.line; c.fillRect(0, y + BARS - 1, width, 1);
    c.restore();
  }

  // ---- what is under the pointer -----------------------------------------------

  function under(x, y) {
    const i = Math.floor((y + scroll.scrollTop) / ROW), h = shown[i];
    if (!h) return null;
    const width = lanes.clientWidth, inRow = y + scroll.scrollTop - i * ROW - HEAD;
    const t = time.time(view.from + x / width * (view.to - view.from)), slack = 5 / width * (view.to - view.from);
    let best = null, near = Infinity;
    const consider = (at, found) => { if (Math.abs(at - t) < Math.min(near, slack)) { near = Math.abs(at - t); best = found; } };
    for (const v of h.broken) consider(v.at, { h, v });
    if (best) return best;
    if (inRow < TOP) for (const e of h.events) consider(e.at, { h, e });
    if (best) return best;
    if (inRow >= TOP - 3) {
      const lane = Math.min(h.lanes - 1, Math.max(0, Math.floor((inRow - TOP) / (TALL / h.lanes))));
      for (let j = firstAfter(h.start, t - h.longest - slack); j < h.start.length && h.start[j] <= t + slack; j++) {
        const away = t < h.start[j] ? h.start[j] - t : Math.max(0, t - h.end[j]);
        const cost = away + (h.lane[j] === lane ? 0 : slack / 2);
        if (away <= slack && cost <= near) { near = cost; best = { h, j }; }
      }
    }
    if (best) return best;
    for (const b of h.blocks) if (t >= b.from && t <= b.until) best = { h, b };
    return best;
  }

  function tell(found, x, y) {
    const tip = $("tip");
    tip.hidden = !found;
    if (!found) return;
    tip.replaceChildren();
    const { h } = found, facts = [];
    let title;
    if (found.v) {
      title = "Violation: " + found.v.kind;
      facts.push(["", found.v.detail], ["log lines", found.v.lines.join(", ")]);
    } else if (found.e) {
      const e = found.e;
      title = typeNames[e.type] || e.type;
      facts.push(["URL", e.url], ["why", e.why], ["at", clock(e.at)], ["log line", number(e.line)]);
    } else if (found.b) {
      const b = found.b;
      title = (b.hand ? "Blocked by hand for " : "Blocked for ") + took(b.until - b.from);
      facts.push(["from", clock(b.from)], ["until", clock(b.until)], ["after", b.status ? "status " + b.status : ""], ["", b.reason],
        ["refusals in a row", b.refusals || ""], ["log line", number(b.line)]);
    } else {
      const j = found.j;
      title = h.url[j];
      facts.push(["status", what(h, j)], ["start", clock(h.start[j])], ["headers after", took(h.latency[j])],
        ["took", h.duration[j] < 0 ? "no end in the log" : took(h.duration[j])], ["body", size(h.bytes[j])], ["waited", waits(h, j)],
        ["next start after", h.delay[j] ? took(h.delay[j]) : ""], ["error", h.errors[j] || ""], ["log line", number(h.line[j])]);
    }
    tip.append(el("b", "", title));
    const list = el("div");
    for (const [name, value] of facts) if (value !== "" && value !== undefined) list.append(el("i", "", name), el("span", "", value));
    tip.append(list);
    const box = tip.getBoundingClientRect();
    tip.style.left = Math.max(4, Math.min(x + 14, innerWidth - box.width - 8)) + "px";
    tip.style.top = (y + 18 + box.height > innerHeight ? y - box.height - 12 : y + 18) + "px";
  }

  function what(h, j) {
    const words = [h.status[j] || (h.duration[j] < 0 ? "no end" : "no response")];
    if (h.flags[j] & ROBOTS) words.push("robots.txt");
    if (h.flags[j] & PROBE) words.push("probe");
    if (h.flags[j] & REDIRECT) words.push("redirected");
    if (h.flags[j] & AGAIN) words.push("retry");
    if (h.flags[j] & LOW) words.push("low confidence");
    return words.join(", ");
  }
  function waits(h, j) {
    const parts = [];
    if (h.waitSlot[j]) parts.push("slot " + took(h.waitSlot[j]));
    if (h.waitDelay[j]) parts.push("delay " + took(h.waitDelay[j]));
    if (h.waitBlock[j]) parts.push("block " + took(h.waitBlock[j]));
    return parts.join(", ");
  }

  // ---- the records of one host -----------------------------------------------

  let items = [], pickedLine = 0;
  function pick(h, line = 0) {
    picked = h;
    pickedLine = line;
    $("detail-title").textContent = h.name || "(no host)";
    const gap = h.report.minGap ? `, shortest gap ${seconds(h.report.minGap)}` : "";
    $("detail-hint").textContent = `${count(h.report.starts, "request")}, ${refusalsOf(h) || "none of them refused by the host"}, ${number(h.refused)} not sent, ${count(h.blocks.length, "block")}, `
      + `${size(h.report.bytes)} read, ${h.report.wait ? seconds(h.report.wait) + " waited in all, " : ""}mean latency ${seconds(h.report.latency)}${gap}`;
    $("detail-table").hidden = false;
    items = [];
    for (let j = 0; j < h.start.length; j++) items.push({ at: h.start[j], j, line: h.line[j] });
    for (const e of h.events) items.push({ at: e.at, e, line: e.line });
    for (const b of h.blocks) items.push({ at: b.from, b, line: b.line });
    items.sort((a, b) => a.at - b.at || a.line - b.line);
    $("detail-rows").style.height = items.length * LINE + "px";
    const i = items.findIndex(item => item.line === line);
    $("detail-scroll").scrollTop = i > 0 ? (i - 3) * LINE : 0;
    listItems();
    redraw();
    remember();
  }

  function listItems() {
    if (!picked) return;
    const box = $("detail-scroll"), h = picked, out = [];
    const first = Math.max(0, Math.floor(box.scrollTop / LINE) - 4), last = Math.min(items.length, first + Math.ceil(box.clientHeight / LINE) + 9);
    for (let i = first; i < last; i++) {
      const item = items[i], tr = el("div", "tr"), cells = [clock(item.at)];
      let color;
      if (item.e) {
        color = refusals.has(item.e.type) ? "stop" : "soft";
        cells.push(typeNames[item.e.type] || item.e.type, item.e.url, item.e.why, "", "", "");
      } else if (item.b) {
        color = item.b.hand ? "hand" : "block";
        cells.push(item.b.hand ? "blocked by hand" : "host blocked", "", `until ${clock(item.b.until)}${item.b.reason ? ", " + item.b.reason : ""}`, "", took(item.b.until - item.b.from), "");
      } else {
        const j = item.j;
        color = classes[h.cls[j]];
        cells.push(what(h, j), h.url[j], h.errors[j] || "", waits(h, j), h.duration[j] < 0 ? "" : took(h.duration[j]), h.delay[j] ? took(h.delay[j]) : "");
        if (h.hit && h.hit[j]) tr.classList.add("hit");
      }
      cells.push(number(item.line));
      cells.forEach((text, k) => {
        const span = el("span", k > 3 ? "num" : "", text);
        span.title = text;
        if (k === 1) { const dot = el("i", "dot"); dot.style.background = `var(--${color})`; span.prepend(dot); }
        tr.append(span);
      });
      if (item.line === pickedLine) { tr.classList.add("picked"); tr.setAttribute("aria-current", "true"); }
      tr.style.top = i * LINE + "px";
      tr.onclick = () => choose(item);
      out.push(tr);
    }
    $("detail-rows").replaceChildren(...out);
  }

  // choose shows a record of the list in the middle of the timeline.
  function choose(item) {
    pickedLine = item.line;
    const half = (view.to - view.from) / 2;
    show(time.place(item.at) - half, time.place(item.at) + half);
    listItems();
    remember();
  }
  function recordKey(e) {
    const box = $("detail-scroll");
    const page = Math.max(1, Math.floor(box.clientHeight / LINE) - 1);
    const by = { ArrowUp: -1, ArrowDown: 1, PageUp: -page, PageDown: page, Home: -items.length, End: items.length }[e.key];
    if (!by || !items.length) return;
    e.preventDefault();
    const at = items.findIndex(item => item.line === pickedLine);
    const to = at < 0 ? 0 : Math.min(Math.max(at + by, 0), items.length - 1);
    box.scrollTop = Math.min(Math.max(box.scrollTop, (to + 1) * LINE - box.clientHeight), to * LINE);
    choose(items[to]);
  }

  // reveal scrolls the timeline to a host.
  function reveal(h) {
    if (!shown.includes(h)) { $("search").value = ""; search(""); }
    scroll.scrollTop = Math.max(0, shown.indexOf(h) * ROW - ROW);
    $("timeline").scrollIntoView({ block: "nearest" });
  }

  // ---- search and order ---------------------------------------------------------

  const orders = {
    starts: (a, b) => b.start.length - a.start.length,
    slow: (a, b) => b.report.latency - a.report.latency,
    refused: (a, b) => b.refused - a.refused,
    refusing: (a, b) => b.report.refusalShare - a.report.refusalShare,
    blocked: (a, b) => b.blocks.length - a.blocks.length,
    broken: (a, b) => b.broken.length - a.broken.length,
    name: () => 0,
  };
  function search(text) {
    query = text.trim().toLowerCase();
    let found = 0;
    shown = data.hosts.filter(h => {
      h.hit = null;
      for (const e of h.events) e.off = false;
      if (!query || h.name.includes(query)) { found += h.start.length; return true; }
      const hit = new Uint8Array(h.start.length);
      let any = false;
      for (let j = 0; j < hit.length; j++) {
        if (h.url[j].toLowerCase().includes(query) || String(h.status[j]) === query) { hit[j] = 1; any = true; found++; }
      }
      for (const e of h.events) {
        e.off = !(e.url + " " + e.why + " " + (typeNames[e.type] || "") + " " + e.type).toLowerCase().includes(query);
        if (!e.off) { any = true; found++; }
      }
      h.hit = hit;
      return any;
    });
    const order = orders[$("sort").value];
    shown.sort((a, b) => order(a, b) || $("sort").value !== "name" && b.start.length - a.start.length || (a.name < b.name ? -1 : 1));
    $("found").textContent = query ? `${number(found)} found on ${number(shown.length)} of ${number(data.hosts.length)} hosts` : "";
    counts = null;
    scroll.scrollTop = 0;
    listItems();
    redraw();
    remember();
  }

  // remember keeps what is looked at in the address, so that it can be passed on.
  let ready = false;
  function remember() {
    if (!ready) return;
    const hash = new URLSearchParams();
    if (query) hash.set("q", query);
    if (picked) hash.set("host", picked.name);
    if (picked && pickedLine) hash.set("line", pickedLine);
    if (view.to - view.from < time.span) { hash.set("from", (time.time(view.from) / 1e4).toFixed(3)); hash.set("to", (time.time(view.to) / 1e4).toFixed(3)); }
    try { history.replaceState(null, "", "#" + hash); } catch { /* some browsers forbid it for files */ }
  }

  let typing = 0;
  $("search").oninput = e => { clearTimeout(typing); typing = setTimeout(() => search(e.target.value), 90); };
  $("sort").onchange = () => search($("search").value);

  // ---- pointer, keys, buttons ------------------------------------------------------

  $("in").onclick = () => zoom(0.5);
  $("out").onclick = () => zoom(2);
  $("fit").onclick = whole;
  // rowKey moves the focus from a row to the one that the key asks for.
  function rowKey(e) {
    const at = shown.indexOf(e.target.host);
    const page = Math.max(1, Math.floor(scroll.clientHeight / ROW) - 1);
    const by = { ArrowUp: -1, ArrowDown: 1, PageUp: -page, PageDown: page, Home: -shown.length, End: shown.length }[e.key];
    if (at < 0 || !by) return;
    e.preventDefault();
    const to = Math.min(Math.max(at + by, 0), shown.length - 1);
    scroll.scrollTop = Math.min(Math.max(scroll.scrollTop, (to + 1) * ROW - scroll.clientHeight), to * ROW);
    drawLanes();
    labels.get(to).focus();
    drawLanes(); // the row of the focus is the one for Tab
  }
  rows.addEventListener("keydown", rowKey);
  scroll.addEventListener("keydown", e => {
    const step = (view.to - view.from) / 5;
    const act = { "+": () => zoom(0.5), "=": () => zoom(0.5), "-": () => zoom(2), 0: whole,
      ArrowLeft: () => show(view.from - step, view.to - step), ArrowRight: () => show(view.from + step, view.to + step) }[e.key];
    if (act && !e.ctrlKey && !e.metaKey) { act(); e.preventDefault(); }
  });
  scroll.onscroll = redraw;
  $("detail-scroll").onscroll = listItems;
  $("detail-scroll").onkeydown = recordKey;
  lanes.addEventListener("wheel", e => {
    const sideways = Math.abs(e.deltaX) > Math.abs(e.deltaY);
    if (!e.ctrlKey && !e.shiftKey && !sideways) return; // the list scrolls
    e.preventDefault();
    const width = lanes.clientWidth, range = view.to - view.from;
    if (e.ctrlKey) zoom(Math.exp(e.deltaY * 0.004), view.from + e.offsetX / width * range);
    else { const by = (sideways ? e.deltaX : e.deltaY) / width * range; show(view.from + by, view.to + by); }
  }, { passive: false });

  let drag = null, brush = null;
  lanes.onpointerdown = e => { drag = { x: e.clientX, from: view.from, to: view.to, moved: false }; lanes.setPointerCapture(e.pointerId); };
  lanes.onpointermove = e => {
    if (drag && (drag.moved || Math.abs(e.clientX - drag.x) > 3)) {
      drag.moved = true;
      lanes.classList.add("dragging");
      const by = (drag.x - e.clientX) / lanes.clientWidth * (drag.to - drag.from);
      show(drag.from + by, drag.to + by);
      tell(null);
      return;
    }
    cursor = e.offsetX;
    tell(under(e.offsetX, e.offsetY), e.clientX, e.clientY);
    redraw();
  };
  lanes.onpointerup = e => {
    if (drag && !drag.moved) {
      const found = under(e.offsetX, e.offsetY);
      if (found) pick(found.h, found.e ? found.e.line : found.b ? found.b.line : found.v ? found.v.lines.at(-1) : found.h.line[found.j]);
    }
    drag = null;
    lanes.classList.remove("dragging");
  };
  lanes.onpointerleave = () => { cursor = -1; tell(null); redraw(); };
  lanes.ondblclick = e => zoom(0.33, view.from + e.offsetX / lanes.clientWidth * (view.to - view.from));
  overview.onpointerdown = e => { brush = { from: e.offsetX, to: e.offsetX }; overview.setPointerCapture(e.pointerId); };
  overview.onpointermove = e => { if (brush) { brush.to = e.offsetX; redraw(); } };
  overview.onpointerup = () => {
    const [a, b] = [Math.min(brush.from, brush.to), Math.max(brush.from, brush.to)].map(x => x / overview.clientWidth * time.span);
    const range = view.to - view.from;
    brush = null;
    if (b - a > time.span * 0.003) show(a, b); else show(a - range / 2, a + range / 2);
  };
  overview.ondblclick = whole;

  // ---- light and dark --------------------------------------------------------------

  function theme(name) {
    document.documentElement.dataset.theme = name;
    readColors();
    drawLegend();
    redraw();
  }
  $("theme").onclick = () => theme(document.documentElement.dataset.theme === "dark" ? "light" : "dark");

  function drawLegend() {
    const legend = $("legend");
    legend.replaceChildren();
    const entry = (name, paint) => {
      const span = el("span"), canvas = el("canvas");
      span.append(canvas, name);
      legend.append(span);
      paint(canvas2d(canvas, 14)[0]);
    };
    const bar = cls => c => {
      c.fillStyle = colors[cls + "-body"]; c.fillRect(0, 2, 28, 10);
      c.fillStyle = colors[cls]; c.fillRect(0, 2, 13, 10);
    };
    entry("2xx (strong: until the headers, faint: the body)", bar("ok"));
    entry("3xx", bar("moved"));
    entry("4xx", bar("refused"));
    entry("5xx, no response", bar("failed"));
    entry("robots.txt", bar("robots"));
    entry("host blocked", c => { c.fillStyle = hatched(c); c.fillRect(0, 0, 28, 14); c.fillStyle = colors.block; c.fillRect(0, 0, 2, 14); });
    if (byHand) entry("blocked by hand", c => { c.fillStyle = hatched(c, "hand"); c.fillRect(0, 0, 28, 14); c.fillStyle = colors.hand; c.fillRect(0, 0, 4, 14); });
    entry("delay in force", c => { c.fillStyle = colors.delay; c.fillRect(1, 3, 1.5, 8); c.fillRect(1, 7, 27, 2); });
    entry("not sent", c => { c.fillStyle = colors.stop; c.beginPath(); c.moveTo(13, 1); c.lineTo(19, 7); c.lineTo(13, 13); c.lineTo(7, 7); c.fill(); });
    if (unsure) entry("low confidence", c => { bar("ok")(c); c.fillStyle = colors.amber; c.fillRect(0, 0, 28, 2); });
    if (time.pauses.length) entry("a long time without a request, left out", c => { c.fillStyle = colors.bg; c.fillRect(0, 0, 28, 14); c.fillStyle = colors.soft; c.fillText("…", 9, 10); });
    entry("violation", c => { c.fillStyle = colors.broken; c.fillRect(13, 0, 2, 14); c.beginPath(); c.moveTo(8, 0); c.lineTo(20, 0); c.lineTo(14, 8); c.fill(); });
  }

  const hash = new URLSearchParams(location.hash.slice(1));
  theme(hash.get("theme") || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light"));
  if (total) $("sort").value = "broken";
  $("search").value = hash.get("q") || "";
  search($("search").value);
  const wanted = data.hosts.find(h => h.name === hash.get("host"));
  if (wanted) pick(wanted, +hash.get("line"));
  if (hash.has("from")) show(time.place(+hash.get("from") * 1e4), time.place(+hash.get("to") * 1e4));
  $("link").onclick = () => {
    remember();
    (navigator.clipboard ? navigator.clipboard.writeText(location.href) : Promise.reject()).then(
      () => { $("found").textContent = "The link is copied."; }, () => { prompt("The link to what you see", location.href); });
  };
  phone.onchange = () => location.reload(); // a phone that is turned
  addEventListener("hashchange", () => location.reload()); // a link to another place in this page
  ready = true;
  new ResizeObserver(redraw).observe(scroll);
  draw();
  // For the tests: the page has drawn itself.
  document.documentElement.dataset.ready = String(shown.length);
  document.documentElement.dataset.pauses = String(time.pauses.length);
  document.documentElement.dataset.ms = String(Math.round(performance.now() - began));
})();
