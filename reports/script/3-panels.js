// The panels below the lanes, and the numbers of what is in view.

const PANEL = 74, SCATTER = 2500, EXACT_MOST = 200000;

function quantile(sorted, q) { return sorted[Math.min(Math.floor(sorted.length * q), sorted.length - 1)]; }

class Panels {
  constructor(data, canvas) {
    Object.assign(this, { data, canvas });
    const { series, about } = data;
    this.offsets = about.faults.flatMap((fault) => Object.entries(fault.offsets)
      .map(([node, ns]) => ({ node, us: ns / 1e3, from: fault.from, to: fault.to })));
    this.rows = [["latency", this.latency], ["responses /s", this.rate], ["waiting", this.depth]];
    if (data.tokens) this.rows.push(["tokens", this.tokens]);
    if (series.margin.t.length) this.rows.push(["lease left", this.margin]);
    if (this.offsets.length) this.rows.push(["clock offset", this.clock]);
  }
  get height() { return this.rows.length * PANEL + 8; }

  draw(view, colours) {
    const pen = (this.pen = sized(this.canvas, view.width, this.height));
    this.rows.forEach(([name, draw], row) => {
      const y = row * PANEL + 6;
      pen.fillStyle = colours.sunk;
      pen.fillRect(GUTTER, y, view.plot, PANEL - 12);
      pen.fillStyle = colours.ink;
      pen.font = "600 12.5px system-ui, sans-serif";
      pen.fillText(name, 2, y + 13, GUTTER - 8);
      pen.font = "11px system-ui, sans-serif";
      draw.call(this, view, colours, y, PANEL - 12);
    });
    for (const one of this.data.about.findings) {
      const x = view.x(one.t);
      if (x < GUTTER || x > view.width - EDGE) continue;
      pen.globalAlpha = one.tone === "broken" ? 0.8 : 0.4;
      pen.fillStyle = toneOf(one, colours);
      pen.fillRect(x - 0.5, 0, 1, this.height);
      pen.globalAlpha = 1;
    }
  }

  note(text, colours, y, line = 1) {
    this.pen.fillStyle = colours.soft;
    this.pen.fillText(text, 2, y + 13 + line * 14, GUTTER - 8);
  }

  latency(view, colours, y, height) {
    const { ops, series } = this.data, { pen } = this;
    const low = lower(ops.t, view.from), high = lower(ops.t, view.to);
    const every = Math.max(Math.ceil((high - low) / SCATTER), 1), lg = (us) => Math.log10(Math.max(us, 1));
    const [bottom, top] = this.data.tookRange, scale = (height - 4) / Math.max(lg(top) - lg(bottom), 0.1);
    for (const odd of [false, true]) {
      pen.fillStyle = odd ? colours.amber : colours["hold-edge"];
      for (let i = low; i < high; i += every) {
        if (!ops.took[i] || (ops.kind[i] >> 5 !== series.ok) !== odd) continue;
        pen.fillRect(view.x(ops.t[i]) - 1, y + height - 3 - (lg(ops.took[i] - 1) - lg(bottom)) * scale, 2, 2);
      }
    }
    this.note(`to ${spanText(top)}`, colours, y);
    this.note(every > 1 ? `1 op in ${every}` : "log scale", colours, y, 2);
  }

  rate(view, colours, y, height) {
    const { grants, refused } = this.data.series, { pen } = this, width = 4;
    const per = ((view.to - view.from) / view.plot) * width, bins = Math.ceil(view.plot / width);
    const yes = new Uint32Array(bins), no = new Uint32Array(bins);
    let a = lower(grants, view.from), b = lower(refused, view.from), most = 1;
    for (let k = 0; k < bins; k++) {
      const until = view.from + (k + 1) * per, c = lower(grants, until, a), d = lower(refused, until, b);
      yes[k] = c - a;
      no[k] = d - b;
      most = Math.max(most, yes[k] + no[k]);
      a = c;
      b = d;
    }
    for (let k = 0; k < bins; k++) {
      const up = (yes[k] / most) * (height - 2), more = (no[k] / most) * (height - 2);
      const x = GUTTER + k * width, w = Math.min(width, view.width - EDGE - x);
      pen.fillStyle = colours["hold-edge"];
      pen.fillRect(x, y + height - up, w, up);
      pen.fillStyle = colours.amber;
      pen.fillRect(x, y + height - up - more, w, more);
    }
    this.note(`peak ${Number(((most / per) * 1e6).toPrecision(3)).toLocaleString("en")}`, colours, y);
    this.note("granted, not granted", colours, y, 2);
  }

  depth(view, colours, y, height) {
    const { asks, over } = this.data.series, { pen } = this, most = Math.max(this.data.deepest, 1);
    pen.fillStyle = colours["hold-edge"];
    for (let x = GUTTER; x < view.width - EDGE; x += 2) {
      const t = view.t(x + 1), n = Math.max(lower(asks, t) - lower(over, t), 0);
      const up = Math.min(n / most, 1) * (height - 2);
      pen.fillRect(x, y + height - up, 2, up);
    }
    this.note(`to ${most}`, colours, y);
  }

  tokens(view, colours, y, height) {
    const { t, value, fell, low, high } = this.data.tokens, { pen } = this;
    const a = lower(t, view.from), b = lower(t, view.to), every = Math.max(Math.ceil((b - a) / SCATTER), 1);
    const up = (k) => y + height - 4 - ((value[k] - low) / Math.max(high - low, 1)) * (height - 8);
    pen.fillStyle = colours["hold-edge"];
    for (let k = a; k < b; k += every) pen.fillRect(view.x(t[k]) - 1, up(k) - 1, 2, 2);
    pen.fillStyle = colours.red;
    for (const k of fell) {
      if (k < a || k >= b) continue;
      const x = view.x(t[k]);
      pen.beginPath();
      pen.moveTo(x - 5, up(k) - 5); pen.lineTo(x + 5, up(k) - 5); pen.lineTo(x, up(k) + 5);
      pen.fill();
    }
    this.note(`${this.data.tokenText(low)} to ${this.data.tokenText(high)}`, colours, y);
  }

  margin(view, colours, y, height) {
    const { t, ns: left } = this.data.series.margin, { pen } = this;
    const a = lower(t, view.from), b = lower(t, view.to), every = Math.max(Math.ceil((b - a) / SCATTER), 1);
    const [low, high] = this.data.marginRange, zero = y + height - 3 - ((0 - low) / (high - low)) * (height - 6);
    pen.fillStyle = colours.soft;
    pen.fillRect(GUTTER, zero, view.plot, 1);
    for (let k = a; k < b; k += every) {
      pen.fillStyle = left[k] < 0 ? colours.amber : colours["hold-edge"];
      pen.fillRect(view.x(t[k]) - 1.5, y + height - 3 - ((left[k] - low) / (high - low)) * (height - 6) - 1, 3, 3);
    }
    this.note(`${spanText(low)} to`, colours, y);
    this.note(spanText(high), colours, y, 2);
  }

  clock(view, colours, y, height) {
    const { pen } = this, most = Math.max(...this.offsets.map((one) => Math.abs(one.us)), 1);
    const middle = y + height / 2;
    pen.fillStyle = colours.soft;
    pen.fillRect(GUTTER, middle, view.plot, 1);
    for (const one of this.offsets) {
      if (one.to < view.from || one.from > view.to) continue;
      const a = Math.max(view.x(one.from), GUTTER), b = Math.min(view.x(one.to), view.width - EDGE);
      const at = middle - (one.us / most) * (height / 2 - 6);
      pen.fillStyle = colours.clock;
      pen.fillRect(a, at - 1, b - a, 3);
      pen.fillText(`${one.node} ${spanText(one.us)}`, a + 3, one.us < 0 ? at - 4 : at + 13);
    }
    this.note(`\u00b1${spanText(most)}`, colours, y);
  }
}

// Spans of the ops and holds in view, by what they are: [name, how long, how many stand for them].
function spansInView(data, view, match) {
  const { ops, series } = data, found = new Map();
  const low = lower(ops.t, view.from), high = lower(ops.t, view.to);
  const every = Math.max(Math.ceil((high - low) / EXACT_MOST), 1);
  for (let i = low; i < high; i += every) {
    const op = series.byId[ops.kind[i] & 31], probes = data.lanes[ops.sender[i]].kind === "probe" && op !== "probe";
    const name = probes ? `probe: ${op}` : op;
    if ((match && !match[i]) || !ops.took[i] || ops.took[i] === 1 || ops.kind[i] >> 5 !== series.ok) continue;
    if (!found.has(name)) found.set(name, []);
    found.get(name).push(ops.took[i] - 1);
  }
  const holds = [];
  for (const { hold } of data.lanes) {
    for (let k = lower(hold.from, view.from), end = lower(hold.from, view.to); k < end; k += every) {
      if (!(hold.tail[k] & 2)) holds.push(hold.to[k] - hold.from[k]);
    }
  }
  if (holds.length) found.set("hold time", holds);
  const { t, ns } = series.margin, a = lower(t, view.from), b = lower(t, view.to);
  if (b > a && !match) found.set("lease left", Array.from(ns.subarray(a, b)));
  return { every, rows: [...found].map(([name, values]) => [name, Float64Array.from(values).sort()]) };
}

function histogram(canvas, values, colours) {
  if (values[0] === values[values.length - 1]) return;
  const width = 150, height = 26, pen = sized(canvas, width, height), bins = new Uint32Array(30);
  const lg = (v) => Math.log10(Math.max(v, 1)), low = lg(values[0]), high = Math.max(lg(values[values.length - 1]), low + 0.01);
  for (const value of values) bins[Math.min(Math.floor(((lg(value) - low) / (high - low)) * 30), 29)]++;
  const most = Math.max(...bins);
  pen.fillStyle = colours["hold-edge"];
  bins.forEach((n, k) => { if (n) pen.fillRect(k * 5, height - Math.max((n / most) * height, 1), 4.5, height); });
}
