// The timeline on the page: pointer, keyboard, links, tooltips, tables. Text is only ever set as text.

const part = (id) => document.getElementById(id);
const begun = performance.now();

function element(name, text, parent) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  if (parent) parent.append(made);
  return made;
}

async function loaded() {
  const about = JSON.parse(part("timeline-about").textContent);
  const columns = await unpacked(about, part("timeline-columns").textContent.trim());
  part("timeline-columns").remove();
  const ops = opsOf(about, columns), series = seriesOf(about, columns, ops);
  const data = { about, ops, series, lanes: lanesOf(about, columns, ops, series.ok) };
  data.tokenText = (token) => about.tokenNames[token] || String(token);
  data.deepest = deepest(series);
  ranges(data);
  return data;
}

function deepest({ asks, over }) {
  let most = 0;
  for (let i = 0, k = 0; i < asks.length; i++) {
    while (k < over.length && over[k] <= asks[i]) k++;
    most = Math.max(most, i + 1 - k);
  }
  return most;
}

function ranges(data) {
  const { ops, series, about } = data;
  let low = Infinity, high = 1;
  for (let i = 0; i < ops.n; i++) {
    if (ops.took[i] > 1) { low = Math.min(low, ops.took[i] - 1); high = Math.max(high, ops.took[i] - 1); }
  }
  data.tookRange = [Math.min(low, high), high];
  let least = 0, most = 1;
  for (const left of series.margin.ns) { least = Math.min(least, left); most = Math.max(most, left); }
  data.marginRange = [least, most];
  const granted = [];
  for (let i = 0; i < ops.n; i++) {
    if (ops.token[i] >= 0 && ops.kind[i] >> 5 === series.ok && ASKS.has(series.byId[ops.kind[i] & 31])) granted.push(i);
  }
  if (!granted.length) return;
  inOrder(granted, granted.map((i) => returned(ops, i)));
  const found = { t: new Float64Array(granted.length), value: new Float64Array(granted.length), fell: [], low: Infinity, high: -Infinity };
  const highest = new Map(), exclusive = about.tokensOrdered;
  granted.forEach((i, k) => {
    found.t[k] = returned(ops, i);
    const value = (found.value[k] = ops.token[i]);
    // As the checker has it: a token is out of order only if its grant was asked for after a grant
    // with a larger one had been answered. An answer that comes late says nothing.
    const top = highest.get(ops.key[i]);
    if (exclusive && top && value <= top.value && ops.t[i] > top.t && found.fell.length < 1000) found.fell.push(k);
    if (!top || value > top.value) highest.set(ops.key[i], { value, t: found.t[k] });
    found.low = Math.min(found.low, value);
    found.high = Math.max(found.high, value);
  });
  data.tokens = found;
}

// Sorts by keys in place. Grants come nearly in the order of their asking: then this is one pass.
function inOrder(values, keys) {
  for (let i = 1; i < values.length; i++) {
    const value = values[i], key = keys[i];
    let k = i;
    for (; k > 0 && keys[k - 1] > key; k--) { keys[k] = keys[k - 1]; values[k] = values[k - 1]; }
    keys[k] = key;
    values[k] = value;
  }
}

class Timeline {
  constructor(data) {
    const { about } = data, margin = (about.end - about.start) * 0.01 + 10;
    this.data = data;
    this.view = new View(Math.min(about.start, about.first) - margin, about.end + margin);
    this.lanes = new Lanes(data, part("timeline-lanes"));
    this.panels = new Panels(data, part("timeline-panels"));
    this.frames = [];
    this.at = -1;
    this.colours = paletteOf();
    this.filter = new Filter(data, () => this.filtered());
    this.details = new Details(this);
    this.strip = new Strip(this);
    this.begin();
    this.filtered();
    this.listen();
    this.fold(false);
    this.fromHash();
  }

  // Opens on the first violation; the address is written only for another view.
  begin() {
    const [first] = this.data.about.findings;
    if (first && first.tone !== "notes") { this.at = 0; this.view.set(first.from, first.to); }
    this.home = [this.view.from, this.view.to];
  }

  fold(all) {
    const { lanes } = this, { folded } = lanes, box = part("timeline-folded"), button = part("timeline-all-lanes");
    lanes.fold(all);
    this.unfolded = all;
    const past = ({ hold }) => hold.lease.some((end, k) => end < hold.sure[k]);
    part("timeline-past").hidden = !this.data.lanes.some((lane) => past(lane.whole));
    part("timeline-gap").hidden = !this.data.about.failovers.length;
    box.hidden = !folded.length || all;
    box.textContent = `hidden, without an event: ${folded.slice(0, 8).join(", ")}${folded.length > 8 ? ` and ${folded.length - 8} more` : ""}`;
    button.hidden = !folded.length;
    button.textContent = all ? "Hide lanes without events" : "Show all lanes";
  }

  get height() { return Math.min(this.lanes.height + 6, Math.max(window.innerHeight * 0.62, 260)); }

  draw() {
    const started = performance.now(), box = part("timeline-box");
    this.view.width = box.clientWidth;
    this.lanes.top = Math.max(Math.min(this.lanes.top, this.lanes.height + 6 - this.height), 0);
    this.lanes.draw(this.view, this.colours, this.height, this.details.op);
    this.panels.draw(this.view, this.colours);
    this.strip.draw(this.view, this.colours);
    this.frames.push(performance.now() - started);
    if (this.frames.length > 500) this.frames.shift();
  }

  changed(say = true) {
    if (!this.waiting) {
      this.waiting = true;
      requestAnimationFrame(() => { this.waiting = false; this.draw(); });
    }
    clearTimeout(this.later);
    this.later = setTimeout(() => this.settled(say), 160);
  }

  // What takes longer than a frame waits until the view rests.
  settled(say) {
    const { view, home } = this, same = (a, b) => Math.abs(a - b) < 1;
    const unmoved = !this.asked && same(view.from, home[0]) && same(view.to, home[1]);
    this.pressed();
    const seconds = (us) => (us / 1e6).toFixed(6);
    const op = this.details.op < 0 ? "" : `&row=${this.data.ops.row[this.details.op]}`;
    history.replaceState(null, "", unmoved && !op ? (location.hash.startsWith("#t=") ? "#timeline" : location.hash || "#")
      : `#t=${seconds(view.from)}-${seconds(view.to)}${op}`);
    part("timeline-span").textContent = `${momentText(view.from, 3)} to ${momentText(view.to, 3)} (${spanText(view.to - view.from)})`;
    this.numbers();
    if (say) part("timeline-said").textContent = this.spoken();
  }

  pressed() {
    const { view, data } = this, one = data.about.findings[this.at], near = (a, b) => Math.abs(a - b) < 1;
    const shown = { all: near(view.from, view.whole[0]) && near(view.to, view.whole[1]),
      finding: Boolean(one) && near(view.from, one.from) && near(view.to, one.to) };
    for (const button of document.querySelectorAll("[aria-pressed]")) button.setAttribute("aria-pressed", shown[button.dataset.act]);
  }

  spoken() {
    const { view, data } = this, inside = (t) => t >= view.from && t <= view.to;
    let n = 0;
    for (const lane of data.lanes) n += lower(lane.t, view.to) - lower(lane.t, view.from);
    const found = data.about.findings.filter((one) => inside(one.t)).map((one) => one.n);
    const faults = data.about.faults.filter((one) => one.to >= view.from && one.from <= view.to).map((one) => one.id);
    return `${momentText(view.from, 3)} to ${momentText(view.to, 3)}: ${n} ops` +
      `${faults.length ? `, faults ${faults.slice(0, 12).join(", ")}` : ""}${found.length ? `, findings ${found.join(", ")}` : ""}.`;
  }

  numbers() {
    const body = part("timeline-numbers"), { every, rows } = spansInView(this.data, this.view, this.filter.match);
    body.replaceChildren();
    for (const [name, values] of rows) {
      const row = element("tr", undefined, body);
      element("th", name, row).scope = "row";
      element("td", values.length.toLocaleString("en"), row).className = "n";
      for (const q of [0.5, 0.9, 0.99, 1]) element("td", spanText(quantile(values, q)), row).className = "n";
      const box = element("td", undefined, row);
      if (values[0] === values[values.length - 1]) { box.textContent = values.length === 1 ? "one value" : "all equal"; continue; }
      histogram(element("canvas", undefined, box), values, this.colours);
      box.firstChild.style.width = "150px";
    }
    const kept = this.data.about.kept < this.data.about.of;
    part("timeline-sample").textContent = every > 1 || kept ? every > 1 ? `From 1 op in ${every} in view.` : "From the kept ops in view." : "";
  }

  go(from, to) { this.view.set(from, to); this.changed(); }

  finding(step) {
    const all = this.data.about.findings;
    if (!all.length) return;
    this.at = (this.at + step + all.length) % all.length;
    this.show(all[this.at]);
  }

  show(one) {
    this.asked = true;
    const lane = this.data.lanes.findIndex((lane) => one.lanes.includes(lane.node));
    if (lane >= 0) this.lanes.top = Math.max(this.lanes.tops[lane] - LANE, 0);
    this.go(one.from, one.to);
  }

  fromHash() {
    const found = /^#t=(-?\d+(?:\.\d+)?)-(-?\d+(?:\.\d+)?)(?:&row=(\d+))?$/.exec(location.hash);
    if (found && Number(found[2]) > Number(found[1])) {
      const { row } = this.data.ops, op = found[3] === undefined ? -1 : lower(row, Number(found[3]));
      if (op >= 0 && row[op] === Number(found[3])) this.details.select(op);
      this.go(Number(found[1]) * 1e6, Number(found[2]) * 1e6);
      return true;
    }
    return false;
  }

  listen() {
    const lanes = part("timeline-lanes"), panels = part("timeline-panels");
    for (const canvas of [lanes, panels]) this.pointer(canvas);
    lanes.addEventListener("keydown", (event) => this.key(event));
    for (const button of document.querySelectorAll("[data-act]")) {
      button.addEventListener("click", () => this.act(button.dataset.act));
    }
    for (const link of document.querySelectorAll("a.show")) {
      link.addEventListener("click", (event) => {
        event.preventDefault();
        this.at = this.data.about.findings.findIndex((one) => one.n === Number(link.dataset.finding));
        this.show(this.data.about.findings[this.at]);
        part("timeline").scrollIntoView();
        lanes.focus({ preventScroll: true });
      });
    }
    window.addEventListener("hashchange", () => {
      if (this.fromHash()) part("timeline").scrollIntoView();
    });
    window.addEventListener("resize", () => this.changed(false));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
      this.colours = paletteOf();
      this.changed(false);
    });
    // On paper: in the colours of paper, and before the page is printed, not in the next frame.
    matchMedia("print").addEventListener("change", () => {
      this.colours = paletteOf();
      this.draw();
    });
  }

  pointer(canvas) {
    let last = null, moved = 0;
    canvas.addEventListener("pointerdown", (event) => {
      last = [event.offsetX, event.offsetY];
      moved = 0;
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", (event) => {
      if (!last) { this.hover(canvas, event); return; }
      moved += Math.abs(last[0] - event.offsetX) + Math.abs(last[1] - event.offsetY);
      this.view.pan((last[0] - event.offsetX) / this.view.plot);
      if (canvas.id === "timeline-lanes") this.lanes.top += last[1] - event.offsetY;
      last = [event.offsetX, event.offsetY];
      this.changed();
    });
    canvas.addEventListener("pointerup", (event) => {
      if (last && moved < 5 && canvas.id === "timeline-lanes") this.click(event.offsetX, event.offsetY);
      last = null;
    });
    canvas.addEventListener("pointercancel", () => { last = null; });
    canvas.addEventListener("pointerleave", () => { part("timeline-tip").hidden = true; });
    canvas.addEventListener("dblclick", (event) => this.zoomAt(0.4, event.offsetX));
    canvas.addEventListener("wheel", (event) => {
      if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) this.view.pan(event.deltaX / this.view.plot);
      else if (event.ctrlKey || document.activeElement === part("timeline-lanes")) {
        this.view.zoom(Math.exp(Math.sign(event.deltaY) * Math.min(Math.abs(event.deltaY), 80) / 200), this.view.t(event.offsetX));
      } else return;
      event.preventDefault();
      this.changed();
    }, { passive: false });
  }

  zoomAt(factor, x) { this.view.zoom(factor, this.view.t(x)); this.changed(); }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const acts = { ArrowLeft: "left", ArrowRight: "right", ArrowUp: "up", ArrowDown: "down", "+": "in", "=": "in",
      "-": "out", "0": "all", Home: "first", End: "last", n: "next", p: "previous", j: "next", k: "previous", ".": "op", ",": "op-before",
      Escape: "none", Enter: "list" };
    if (!(event.key in acts)) return;
    event.preventDefault();
    this.act(acts[event.key]);
  }

  act(name) {
    const { view } = this;
    if (name === "in") view.zoom(0.5);
    else if (name === "out") view.zoom(2);
    else if (name === "left") view.pan(-0.2);
    else if (name === "right") view.pan(0.2);
    else if (name === "first") view.set(view.whole[0], view.whole[0] + view.to - view.from);
    else if (name === "last") view.set(view.whole[1] - view.to + view.from, view.whole[1]);
    else if (name === "all") view.set(...view.whole);
    else if (name === "up") this.lanes.top -= LANE;
    else if (name === "down") this.lanes.top += LANE;
    else if (name === "lanes") this.fold(!this.unfolded);
    else if (name === "finding") { this.finding(this.at < 0 ? 1 : 0); return; }
    else if (name === "next") { this.finding(1); return; }
    else if (name === "previous") { this.finding(this.at < 0 ? 0 : -1); return; }
    else if (name === "op" || name === "op-before") { this.details.step(name === "op" ? 1 : -1); return; }
    else if (name === "none") { this.details.select(-1, true); return; }
    else if (name === "list") { this.list(); return; }
    else if (name === "csv") { download(this.data, this.filter); return; }
    this.changed();
  }

  // What depends on the filter, and not on the view.
  filtered() {
    const { data, filter } = this, n = filter.count.toLocaleString("en");
    part("timeline-csv").textContent = `Download ${n} rows (CSV, about ${sizeText(csvSize(data, filter))})`;
    part("timeline-csv").disabled = !filter.count;
    this.changed();
  }

  // The op under the pointer stays selected; a click beside it selects none.
  click(x, y) {
    if (x < GUTTER) return;
    const { data, lanes, view } = this, k = lanes.laneAt(y);
    if (k < 0) {
      const flag = flags(data.about.findings, view).find((one) => Math.abs(one.x - x) < 13);
      if (!flag || y < lanes.head - 28) return;
      this.at = data.about.findings.indexOf(byLoudness(flag.all).pop());
      this.show(data.about.findings[this.at]);
      return;
    }
    const { op, hold } = this.hit(x, y), onHold = hold >= 0 && y - lanes.laneY(k) < 19;
    this.details.select(onHold ? data.lanes[k].hold.op[hold] : op >= 0 ? op : hold >= 0 ? data.lanes[k].hold.op[hold] : -1);
  }

  // The op and the hold under the pointer, -1 for none.
  hit(x, y) {
    const { data, view, lanes } = this, lane = data.lanes[lanes.laneAt(y)], t = view.t(x);
    const near = (5 / view.plot) * (view.to - view.from);
    if (!lane) return { op: -1, hold: -1 };
    const i = lower(lane.t, t + near) - 1, h = lower(lane.hold.from, t) - 1;
    const op = i >= 0 && (t - lane.t[i] <= near || returned(data.ops, lane.op[i]) >= t) ? lane.op[i] : -1;
    return { op, hold: h >= 0 && lane.hold.to[h] >= t ? h : -1 };
  }

  list() {
    const { data, view } = this, { ops, about, series } = data, body = part("timeline-ops");
    const high = lower(ops.t, view.to), found = [];
    for (let i = lower(ops.t, view.from); i < high; i++) if (this.filter.shows(i)) found.push(i);
    body.replaceChildren();
    for (const i of found.slice(0, 200)) {
      const row = element("tr", undefined, body), ret = returned(ops, i), first = element("th", undefined, row);
      first.scope = "row";
      const button = element("button", momentText(ops.t[i]), first);
      button.type = "button";
      button.addEventListener("click", () => this.details.go(i, true));
      for (const text of [data.lanes[ops.lane[i]].name, series.byId[ops.kind[i] & 31], about.statuses[ops.kind[i] >> 5],
        about.strings[ops.key[i]] ?? "…", ops.token[i] < 0 ? "–" : data.tokenText(ops.token[i]),
        ret < NEVER ? spanText(ret - ops.t[i]) : "no response", about.strings[ops.err[i]] || "–"]) {
        element("bdi", text, element("td", undefined, row));
      }
    }
    part("timeline-more").open = true;
    part("timeline-list").hidden = false;
    const what = `${found.length.toLocaleString("en")} ops in view${this.filter.match ? " that match" : ""}`;
    part("timeline-listed").textContent = found.length > 200 ? `The first 200 of ${what}; zoom in for the others.` : `${what}.`;
    part("timeline-list").scrollIntoView({ block: "nearest" });
    part("timeline-list").focus({ preventScroll: true });
  }

  hover(canvas, event) {
    const tip = part("timeline-tip"), x = event.offsetX, y = event.offsetY;
    const lines = x < GUTTER || canvas.id !== "timeline-lanes" ? [] : this.under(x, y);
    tip.hidden = !lines.length;
    if (!lines.length) return;
    tip.replaceChildren(...lines.map((line) => { const made = document.createElement("bdi"); made.textContent = line; return made; }));
    const left = Math.min(x + 14, this.view.width - tip.offsetWidth - 4);
    tip.style.transform = `translate(${Math.max(left, 0)}px, ${y + 16}px)`;
  }

  under(x, y) {
    const { data, view, lanes } = this, t = view.t(x), k = lanes.laneAt(y), near = (5 / view.plot) * (view.to - view.from);
    if (k < 0) return this.above(t, y, near);
    const lane = data.lanes[k];
    if (!lane) return [];
    const lines = [], { op, hold } = this.hit(x, y);
    for (const fault of data.about.faults) {
      if (fault.nodes.includes(lane.node) && fault.from <= t && t <= fault.to) lines.push(`${fault.id} ${fault.do}: ${fault.said}`);
    }
    if (hold >= 0) lines.push(this.holdText(lane.hold, hold, t));
    if (op >= 0) lines.push(...this.opText(op));
    return lines.length ? [`${lane.name} at ${momentText(t)}`, ...lines] : [];
  }

  above(t, y, near) {
    const { about } = this.data;
    const found = about.findings.filter((one) => Math.abs(one.t - t) < near * 2).map((one) => `Finding ${one.n}: ${one.name}, ${one.lock}`);
    const row = this.lanes.faultRows[Math.floor((y - HEAD) / FAULT)];
    const faults = about.faults.filter((one) => one.do === row && one.from - near <= t && t <= one.to + near)
      .map((one) => `${one.id} ${one.do} of ${one.nodes.join(", ")}, ${spanText(one.to - one.from)}: ${one.said}`);
    return [...faults, ...found];
  }

  holdText(hold, h, t) {
    const { ops, about } = this.data, op = hold.op[h];
    const past = t > hold.lease[h] ? ", past its lease, as a later ok shows" : "";
    const state = t <= hold.sure[h] ? `certain${past}` : hold.tail[h] & 1 ? "lapsed: the lease has expired" : "believed";
    const token = ops.token[op] >= 0 ? `, token ${this.data.tokenText(ops.token[op])}` : "";
    const end = hold.tail[h] & 2 ? "never ended" : spanText(hold.to[h] - hold.from[h]);
    return `holds ${about.strings[ops.key[op]] ?? "…"}${token}: ${state} (${end})`;
  }

  opText(i) {
    const { ops, about, series } = this.data, ret = returned(ops, i), error = about.strings[ops.err[i]];
    const took = ret < NEVER ? spanText(ret - ops.t[i]) : "no response";
    const token = ops.token[i] >= 0 ? `, token ${this.data.tokenText(ops.token[i])}` : "";
    const said = `${series.byId[ops.kind[i] & 31]} ${about.statuses[ops.kind[i] >> 5]} in ${took}${token}, attempt ${ops.attempt[i]}`;
    return error ? [said, error] : [said];
  }
}

loaded().then((data) => {
  part("timeline").hidden = false;
  for (const link of document.querySelectorAll(".show, .show-nav")) link.hidden = false;
  const timeline = (window.timeline = new Timeline(data));
  timeline.draw();
  timeline.settled(false);
  timeline.ready = performance.now();
  timeline.loading = timeline.ready - begun;
  if (location.hash.startsWith("#t=")) part("timeline").scrollIntoView();
  document.documentElement.dataset.timeline = "ready";
}).catch((error) => {
  part("timeline").hidden = false;
  part("timeline-box").replaceChildren(element("p", `The timeline cannot be shown: ${error.message}. All findings are listed above.`));
  document.documentElement.dataset.timeline = "failed";
});
