// The lanes: holds, ops, faults and findings over time, drawn on a canvas.

const GUTTER = 112, EDGE = 12, LANE = 28, SLIM = 18, HEAD = 30, FAULT = 17;

function paletteOf() {
  const style = getComputedStyle(document.documentElement), found = {};
  for (const name of ["paper", "sheet", "sunk", "ink", "soft", "line", "faint", "accent", "hold", "hold-edge",
    "hold-ink", "red", "amber", "green", "violet", "partition", "pause", "kill", "clock", "other"]) {
    found[name] = style.getPropertyValue(`--${name}`).trim();
  }
  return found;
}

function spanText(us) {
  const size = Math.abs(us), sign = us < 0 ? "\u2212" : "";
  const [value, unit] = size >= 1e6 ? [size / 1e6, "s"] : size >= 1e3 ? [size / 1e3, "ms"] : [size, "µs"];
  return `${sign}${value.toFixed(value < 10 && unit !== "µs" ? 2 : value < 100 && unit !== "µs" ? 1 : 0)} ${unit}`;
}

const momentText = (us, digits = 6) => `${(us / 1e6).toFixed(digits).replace("-", "\u2212")} s`;

function stepFor(width, most) {
  const power = 10 ** Math.floor(Math.log10(width / most));
  return [1, 2, 5, 10].map((m) => m * power).find((step) => width / step <= most);
}

function sized(canvas, width, height) {
  const ratio = window.devicePixelRatio || 1;
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    canvas.style.height = `${height}px`;
  }
  const pen = canvas.getContext("2d");
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, width, height);
  pen.font = "12px system-ui, sans-serif";
  return pen;
}

class View {
  constructor(from, to) { this.whole = [from, to]; this.from = from; this.to = to; this.width = 800; }
  get plot() { return Math.max(this.width - GUTTER - EDGE, 50); }
  x(t) { return GUTTER + ((t - this.from) / (this.to - this.from)) * this.plot; }
  t(x) { return this.from + ((x - GUTTER) / this.plot) * (this.to - this.from); }
  set(from, to) {
    const [low, high] = this.whole;
    const span = Math.min(Math.max(to - from, 20), high - low);
    const start = Math.min(Math.max((from + to - span) / 2, low), high - span);
    this.from = start;
    this.to = start + span;
  }
  zoom(factor, about = (this.from + this.to) / 2) {
    this.set(about - (about - this.from) * factor, about + (this.to - about) * factor);
  }
  pan(share) { const by = share * (this.to - this.from); this.set(this.from + by, this.to + by); }
}

function axis(pen, view, y, colours, height) {
  const step = stepFor(view.to - view.from, Math.max(Math.floor(view.plot / 110), 2));
  const digits = Math.max(0, Math.min(6, Math.ceil(-Math.log10(step / 1e6) - 1e-9)));
  pen.textAlign = "center";
  for (let n = Math.ceil(view.from / step); n * step <= view.to; n++) {
    const x = view.x(n * step);
    pen.fillStyle = colours.faint;
    pen.fillRect(x, y + 6, 1, height);
    pen.fillStyle = colours.soft;
    pen.fillText(`${((n * step) / 1e6).toFixed(digits)} s`, x, y);
  }
  pen.textAlign = "left";
}

function lapsedPattern(pen, colours) {
  const tile = document.createElement("canvas");
  tile.width = tile.height = 6;
  const brush = tile.getContext("2d");
  brush.strokeStyle = colours["hold-edge"];
  brush.lineWidth = 1.4;
  brush.beginPath();
  for (const d of [-6, 0, 6]) { brush.moveTo(d, 6); brush.lineTo(d + 6, 0); }
  brush.stroke();
  return pen.createPattern(tile, "repeat");
}

class Lanes {
  constructor(data, canvas) {
    Object.assign(this, { data, canvas, top: 0, shown: 12 });
    this.faultRows = [...new Set(data.about.faults.map((fault) => fault.do))].slice(0, 8);
    this.faultsEnd = HEAD + this.faultRows.length * FAULT;
    this.head = this.faultsEnd + (data.about.failovers.length ? FAULT : 0) + 26;
    this.fold(false);
  }

  // Lanes without an event are folded: `rows` are the lanes shown, `tops` where each begins below the
  // first, `sizes` their heights. A lane with nothing but the times of faults needs less.
  fold(all) {
    const { lanes, about } = this.data, struck = new Set(about.faults.flatMap((one) => one.nodes));
    for (const one of about.findings) for (const node of one.lanes) struck.add(node);
    const busy = (lane) => lane.whole.n || lane.whole.hold.n || struck.has(lane.node);
    this.rows = [...lanes.keys()].filter((k) => all || busy(lanes[k]));
    const named = new Set(about.findings.flatMap((one) => one.lanes));
    const slim = (lane) => lane.kind === "server" && !lane.whole.n && !lane.whole.hold.n && !named.has(lane.node);
    this.sizes = lanes.map((lane) => (slim(lane) ? SLIM : LANE));
    this.tops = lanes.map(() => -1);
    this.tall = 0;
    for (const k of this.rows) { this.tops[k] = this.tall; this.tall += this.sizes[k]; }
    this.folded = lanes.filter((lane) => !busy(lane)).map((lane) => lane.name);
  }

  get height() { return this.head + this.tall; }
  laneY(k) { return this.head + this.tops[k] - this.top; }
  laneAt(y) {
    if (y < this.head) return -1;
    return this.rows.find((k) => y < this.laneY(k) + this.sizes[k]) ?? this.data.lanes.length;
  }

  draw(view, colours, height, selected = -1) {
    const pen = (this.pen = sized(this.canvas, view.width, height));
    this.selected = selected;
    this.owners = ownersIn(this.data.about.findings, view);
    this.pattern = lapsedPattern(pen, colours);
    pen.save();
    pen.beginPath();
    pen.rect(0, this.head, view.width, height - this.head);
    pen.clip();
    for (const k of this.rows) {
      const y = this.laneY(k);
      if (y + this.sizes[k] > this.head && y < height) this.lane(this.data.lanes[k], y, this.sizes[k], view, colours);
    }
    this.violations(view, colours, height);
    this.proofs(view, colours);
    this.attempt(view, colours);
    pen.restore();
    axis(pen, view, 14, colours, height);
    this.faults(view, colours, height);
    this.findings(view, colours, height);
  }

  lane(lane, y, size, view, colours) {
    const { pen } = this, middle = y + 3;
    pen.fillStyle = colours.faint;
    pen.fillRect(GUTTER, y + size - 1, view.plot, 1);
    this.struck(lane, y, size, view, colours);
    const owner = this.owners.get(lane.node);
    pen.fillStyle = owner ? toneOf(owner, colours) : lane.kind === "server" ? colours.soft : colours.ink;
    pen.font = "600 12.5px system-ui, sans-serif";
    pen.fillText(owner ? `\u25b8 ${lane.name}` : lane.name, 2, y + (size === SLIM ? 13 : 18), GUTTER - 10);
    pen.font = "12px system-ui, sans-serif";
    this.holds(lane.hold, middle, view, colours);
    this.ops(lane, y, view, colours);
  }

  struck(lane, y, size, view, colours) {
    const { pen } = this;
    for (const fault of this.data.about.faults) {
      if (!fault.nodes.includes(lane.node) || fault.to < view.from || fault.from > view.to) continue;
      const a = Math.max(view.x(fault.from), GUTTER), b = Math.min(view.x(fault.to), view.width - EDGE);
      pen.globalAlpha = fault.effective ? 0.22 : 0.08;
      pen.fillStyle = colours[fault.do] || colours.other;
      pen.fillRect(a, y, Math.max(b - a, 1.5), size - 1);
      pen.globalAlpha = 1;
    }
  }

  holds(hold, y, view, colours) {
    const low = lower(hold.reach, view.from), high = lower(hold.from, view.to);
    if (high - low > view.plot / 2) this.crowd(hold, low, y, view, colours);
    else for (let k = low; k < high; k++) this.hold(hold, k, y, view, colours);
  }

  hold(hold, k, y, view, colours) {
    const { pen } = this, x = (t) => Math.min(Math.max(view.x(t), GUTTER), view.width - EDGE);
    const a = x(hold.from[k]), sure = x(hold.sure[k]), b = Math.max(x(hold.to[k]), a + 1.5);
    const lease = x(hold.lease[k]), past = hold.lease[k] < hold.sure[k] && b - a >= 4;
    pen.fillStyle = colours.hold;
    pen.fillRect(a, y, Math.max((past ? lease : sure) - a, 0), 15);
    if (past) this.pastLease(hold, k, lease, sure, y, view, colours);
    if (b - sure > 0.5 && hold.tail[k] & 1) { pen.fillStyle = this.pattern; pen.fillRect(sure, y, b - sure, 15); }
    if (b - a < 4) { pen.fillStyle = colours["hold-edge"]; pen.fillRect(a, y, b - a, 15); return; }
    pen.strokeStyle = colours["hold-edge"];
    pen.setLineDash(hold.tail[k] & 2 || sure <= a ? [4, 3] : []);
    pen.strokeRect(a + 0.5, y + 0.5, b - a - 1, 14);
    pen.setLineDash([]);
    // Two holds of one client, one right after the other, are two.
    if (k && b - a > 5 && x(hold.to[k - 1]) > a - 1.5) { pen.fillStyle = colours.sheet; pen.fillRect(a - 0.75, y - 1, 1.5, 17); }
    const token = this.data.ops.token[hold.op[k]];
    const text = token >= 0 ? `#${this.data.tokenText(token)}` : "";
    if (text && b - a > 10 + 7 * text.length) {
      pen.fillStyle = colours["hold-ink"];
      pen.fillText(text, a + 5, y + 11.5);
    }
  }

  // The lease is over, and a later response shows that the hold was not.
  pastLease(hold, k, lease, sure, y, view, colours) {
    const { pen } = this;
    pen.globalAlpha = 0.4;
    pen.fillRect(lease, y, Math.max(sure - lease, 0), 15);
    pen.globalAlpha = 1;
    if (hold.lease[k] < view.from || hold.lease[k] > view.to) return;
    pen.fillStyle = colours["hold-ink"];
    pen.fillRect(lease - 0.75, y - 2, 1.5, 19);
  }

  // Many holds to a pixel: how full it is tells what share of its time was held.
  crowd(hold, from, y, view, colours) {
    const { pen } = this, width = 2, per = (view.to - view.from) / view.plot * width;
    let [before, k] = heldBefore(hold, view.from, 0), runX = GUTTER, level = -1;
    pen.fillStyle = colours["hold-edge"];
    for (let x = GUTTER; x <= view.width - EDGE; x += width) {
      const [now, at] = heldBefore(hold, view.t(x) + per, Math.max(k - 1, 0));
      const here = Math.round(Math.min(Math.max((now - before) / per, 0), 1) * 10);
      if (here !== level) {
        if (level > 0) { pen.globalAlpha = level / 10; pen.fillRect(runX, y, x - runX, 15); }
        runX = x;
        level = here;
      }
      before = now;
      k = at;
    }
    if (level > 0) { pen.globalAlpha = level / 10; pen.fillRect(runX, y, view.width - EDGE - runX, 15); }
    pen.globalAlpha = 1;
  }

  ops(lane, y, view, colours) {
    const low = lower(lane.t, view.from - 1e6), high = lower(lane.t, view.to);
    const inside = high - lower(lane.t, view.from);
    if (inside > view.plot / 3) this.density(lane, y, view, colours);
    else for (let k = Math.max(low, high - 4000); k < high; k++) this.op(lane, lane.op[k], y, view, colours);
  }

  op(lane, i, y, view, colours) {
    const { pen, data } = this, ops = data.ops, status = ops.kind[i] >> 5;
    const a = view.x(ops.t[i]), b = Math.min(view.x(Math.min(returned(ops, i), view.to)), view.width - EDGE);
    if (b < GUTTER) return;
    const yes = status === data.series.ok, no = data.about.statuses[status] === "fail";
    // Red is the violation's alone; a refusal is ordinary.
    const colour = yes ? colours.ink : no ? colours.soft : colours.violet;
    if (lane.kind === "resource") { this.served(a, y + 14, yes, colours); return; }
    pen.strokeStyle = pen.fillStyle = colour;
    pen.globalAlpha = 0.75;
    pen.setLineDash(yes || no ? [] : [3, 2]);
    pen.beginPath();
    pen.moveTo(Math.max(a, GUTTER), y + 23.5);
    pen.lineTo(Math.max(b, a + 1), y + 23.5);
    pen.stroke();
    pen.setLineDash([]);
    pen.globalAlpha = 1;
    if (a >= GUTTER) pen.fillRect(a - 0.5, y + 20, 1.5, 6);
    if (!yes && b >= GUTTER) this.cross(b, y + 23.5, 2.6);
  }

  served(x, y, accepted, colours) {
    if (x < GUTTER) return;
    const { pen } = this;
    pen.strokeStyle = accepted ? colours.ink : colours.soft;
    pen.fillStyle = pen.strokeStyle;
    if (!accepted) { this.cross(x, y, 4.2); return; }
    pen.beginPath();
    pen.arc(x, y, 3.4, 0, 7);
    pen.fill();
  }

  cross(x, y, r) {
    const { pen } = this;
    pen.lineWidth = 1.8;
    pen.beginPath();
    pen.moveTo(x - r, y - r); pen.lineTo(x + r, y + r);
    pen.moveTo(x - r, y + r); pen.lineTo(x + r, y - r);
    pen.stroke();
    pen.lineWidth = 1;
  }

  density(lane, y, view, colours) {
    const { pen } = this, width = 2, per = ((view.to - view.from) / view.plot) * width;
    const most = Math.max((lane.n / (view.whole[1] - view.whole[0])) * per * 2, 2);
    let at = lower(lane.t, view.from), level = -1, runX = GUTTER;
    const tall = lane.kind === "resource" ? 14 : 5, top = lane.kind === "resource" ? y + 7 : y + 21;
    const flush = (x) => {
      if (level > 0) { pen.globalAlpha = level / 8; pen.fillStyle = colours.soft; pen.fillRect(runX, top, x - runX, tall); }
    };
    for (let x = GUTTER; x < view.width - EDGE; x += width) {
      const next = lower(lane.t, view.t(x) + per, at), n = next - at;
      const here = n ? Math.max(1, Math.min(8, Math.round((n / most) * 8))) : 0;
      if (here !== level) { flush(x); level = here; runX = x; }
      if (lane.odd[next] - lane.odd[at]) {
        pen.globalAlpha = Math.min(0.35 + ((lane.odd[next] - lane.odd[at]) / n) * 0.65, 1);
        pen.fillStyle = colours.ink;
        pen.fillRect(x, y + 26, width, 3);
      }
      at = next;
    }
    flush(view.width - EDGE);
    pen.globalAlpha = 1;
  }

  faults(view, colours, height) {
    const { pen } = this;
    this.faultRows.forEach((name, row) => {
      const y = HEAD + row * FAULT;
      pen.fillStyle = colours.soft;
      pen.fillText(name, 2, y + 12, GUTTER - 10);
      let free = 0;
      for (const fault of this.data.about.faults) {
        if (fault.do !== name || fault.to < view.from || fault.from > view.to) continue;
        const a = Math.max(view.x(fault.from), GUTTER), b = Math.min(view.x(fault.to), view.width - EDGE);
        // A tint and an edge: text in ink is readable on the tint of every kind, in both schemes.
        pen.fillStyle = pen.strokeStyle = colours[fault.do] || colours.other;
        pen.globalAlpha = fault.effective ? 0.3 : 0.1;
        pen.fillRect(a, y + 1, Math.max(b - a, 2), FAULT - 4);
        pen.globalAlpha = 1;
        pen.setLineDash(fault.effective ? [] : [4, 3]);
        pen.strokeRect(a + 0.5, y + 1.5, Math.max(b - a, 2) - 1, FAULT - 5);
        pen.setLineDash([]);
        pen.globalAlpha = 0.5;
        for (const x of [view.x(fault.from), view.x(fault.to)]) {
          if (x >= GUTTER && x <= view.width - EDGE) pen.fillRect(x, y + 2, 1, height);
        }
        pen.globalAlpha = 1;
        const text = `${fault.id} ${fault.nodes.slice(0, 3).join(", ")}${fault.effective ? "" : " (no effect)"}`;
        if (a > free && b - a > 7 * text.length) {
          pen.fillStyle = colours.ink;
          pen.fillText(text, a + 5, y + 12);
          free = b;
        }
      }
    });
    const marks = this.data.about.failovers.map((mark) => [view.x(mark.t), mark])
      .filter(([x]) => x >= GUTTER && x <= view.width - EDGE).sort(([a], [b]) => a - b);
    pen.fillStyle = colours.soft;
    marks.forEach(([x, mark], n) => {
      const text = mark.gap === null ? "\u21af no grant followed" : `\u21af ${spanText(mark.gap)}`;
      // The sign marks the time; a text that would lie upon the next sign is in the list of faults.
      const room = (n + 1 < marks.length ? marks[n + 1][0] : view.width) - x - 6;
      pen.fillText(pen.measureText(text).width > room ? "\u21af" : text, x + 3, this.faultsEnd + 11);
    });
  }

  // Broken promises over everything else in the lanes: the time, the overlap, the request.
  violations(view, colours, height) {
    for (const one of byLoudness(this.data.about.findings)) {
      const tone = toneOf(one, colours), broken = one.tone === "broken";
      if (broken) this.wash(one, view, tone, height);
      this.pen.fillStyle = tone;
      for (const shown of [one, ...one.others]) {
        for (const [a, b] of shown.clashes) this.clash(shown, a, b, view);
      }
      if (broken && one.clashes.length) this.between(one, view, tone);
      if (one.arrow && one.tone !== "notes") this.request(one.arrow, view, tone, colours);
    }
  }

  wash(one, view, tone, height) {
    const { pen } = this, edges = one.clashes.flat();
    const low = Math.max(view.x(Math.min(one.t, ...edges)) - 3, GUTTER);
    const high = Math.min(view.x(Math.max(one.t, ...edges)) + 3, view.width - EDGE);
    if (high <= low) return;
    pen.fillStyle = tone;
    pen.globalAlpha = 0.13;
    pen.fillRect(low, this.head, high - low, height);
    pen.globalAlpha = 1;
  }

  clash(one, from, to, view) {
    const a = Math.max(view.x(from), GUTTER), b = Math.min(Math.max(view.x(to), a + 2), view.width - EDGE);
    if (b <= a) return;
    this.data.lanes.forEach((lane, k) => {
      if (this.tops[k] >= 0 && one.lanes.includes(lane.node)) this.pen.fillRect(a, this.laneY(k) + 3, b - a, 15);
    });
  }

  // Joins the lanes of two holders at the beginning of their overlap.
  between(one, view, tone) {
    const { pen } = this, x = view.x(one.clashes[0][0]), at = this.rowsOf(one.owners);
    if (at.length < 2 || x < GUTTER || x > view.width - EDGE) return;
    const top = this.laneY(at[0]) + 10, bottom = this.laneY(at[at.length - 1]) + 10;
    pen.strokeStyle = pen.fillStyle = tone;
    pen.lineWidth = 3;
    pen.beginPath();
    pen.moveTo(x, top); pen.lineTo(x, bottom);
    pen.stroke();
    pen.lineWidth = 1;
    for (const y of [top, bottom]) { pen.beginPath(); pen.arc(x, y, 5, 0, 7); pen.fill(); }
  }

  // The request of an owner whose time was over: from its lane to the resource.
  request(arrow, view, tone, colours) {
    const { pen } = this, [from] = this.rowsOf([arrow.from]), [to] = this.rowsOf([arrow.to]);
    const a = view.x(arrow.sent), b = view.x(arrow.t);
    if (from === undefined || to === undefined || b < GUTTER || a > view.width - EDGE) return;
    const y1 = this.laneY(from) + 14, y2 = this.laneY(to) + 14, down = Math.sign(y2 - y1);
    for (const [width, colour] of [[5, colours.sheet], [2.5, tone]]) {
      pen.strokeStyle = colour;
      pen.lineWidth = width;
      pen.beginPath();
      pen.moveTo(Math.max(a, GUTTER), y1); pen.lineTo(b, y2 - down * 8);
      pen.moveTo(b + 7, y2); pen.arc(b, y2, 7, 0, 7);
      pen.stroke();
    }
    pen.lineWidth = 1;
    pen.fillStyle = tone;
    pen.beginPath();
    pen.moveTo(b - 5, y2 - down * 14); pen.lineTo(b + 5, y2 - down * 14); pen.lineTo(b, y2 - down * 6);
    pen.fill();
  }

  rowsOf(nodes) {
    return this.rows.filter((k) => nodes.includes(this.data.lanes[k].node));
  }

  // The two halves of each proof, with the numbers that they have in the text.
  proofs(view, colours) {
    const { pen } = this;
    for (const one of byLoudness(this.data.about.findings)) {
      pen.fillStyle = pen.strokeStyle = toneOf(one, colours);
      for (const [n, half] of one.proof.entries()) {
        const [k] = this.rowsOf([half.lane]), x = view.x(half.t);
        if (k === undefined || x < GUTTER || x > view.width - EDGE) continue;
        const y = this.laneY(k) + (this.data.lanes[k].kind === "resource" ? 14 : 10), side = n ? 16 : -16;
        pen.lineWidth = 2;
        pen.beginPath(); pen.arc(x, y, 5, 0, 7); pen.stroke();
        pen.beginPath(); pen.arc(x + side, y, 9, 0, 7); pen.fill();
        pen.lineWidth = 1;
        pen.fillStyle = colours.sheet;
        pen.font = "700 11px system-ui, sans-serif";
        pen.textAlign = "center";
        pen.fillText(half.n, x + side, y + 4);
        pen.textAlign = "left";
        pen.fillStyle = pen.strokeStyle;
      }
    }
    pen.font = "12px system-ui, sans-serif";
  }

  // The selected op, and everything else of its attempt.
  attempt(view, colours) {
    const { pen, data, selected } = this, { ops } = data;
    if (selected < 0) return;
    pen.strokeStyle = colours.accent;
    const mine = attemptOf(ops, selected);
    for (const lane of new Set([ops.lane[selected], ops.sender[selected]])) {
      const hold = data.lanes[lane].hold;
      for (let k = lower(hold.reach, view.from), end = lower(hold.from, view.to); k < end; k++) {
        if (!mine(hold.op[k])) continue;
        const a = Math.max(view.x(hold.from[k]), GUTTER), b = Math.min(view.x(hold.to[k]), view.width - EDGE);
        pen.lineWidth = 2;
        pen.strokeRect(a - 1, this.laneY(lane) + 2, Math.max(b - a, 2) + 2, 17);
      }
    }
    const x = view.x(ops.t[selected]), y = this.laneY(ops.lane[selected]);
    const end = Math.min(view.x(Math.min(returned(ops, selected), view.to)), view.width - EDGE);
    if (x > view.width - EDGE || end < GUTTER) { pen.lineWidth = 1; return; }
    pen.lineWidth = 2.5;
    const tall = data.lanes[ops.lane[selected]].kind === "resource" ? [5, 18] : [18, 11];
    pen.strokeRect(Math.max(x, GUTTER) - 5, y + tall[0], Math.max(end - Math.max(x, GUTTER), 0) + 10, tall[1]);
    pen.lineWidth = 1;
    if (x < GUTTER) return;
    pen.setLineDash([2, 3]);
    pen.beginPath();
    pen.moveTo(x, this.head); pen.lineTo(x, y + tall[0]);
    pen.stroke();
    pen.setLineDash([]);
  }

  findings(view, colours, height) {
    const { pen } = this, y = this.head - 25;
    let free = Infinity;
    const groups = flags(this.data.about.findings, view);
    for (const { x, all } of groups) {
      const loud = byLoudness(all).pop(), tone = toneOf(loud, colours), broken = loud.tone === "broken";
      pen.fillStyle = tone;
      pen.globalAlpha = broken ? 1 : 0.5;
      pen.fillRect(x - (broken ? 1 : 0.5), y + 20, broken ? 2 : 1, height);
      pen.globalAlpha = 1;
      const text = flagText(all);
      const half = Math.max(11, text.length * 4 + 3);
      pen.beginPath();
      pen.moveTo(x - half, y); pen.lineTo(x + half, y); pen.lineTo(x + half, y + 12);
      pen.lineTo(x, y + 20); pen.lineTo(x - half, y + 12);
      pen.fill();
      pen.fillStyle = colours.sheet;
      pen.font = "700 11px system-ui, sans-serif";
      pen.textAlign = "center";
      pen.fillText(text, x, y + 10.5);
      pen.textAlign = "left";
    }
    // What was violated and by whom, beside its flag, where there is room up to the next one.
    for (const { x, all } of groups.reverse()) {
      const loud = byLoudness(all).pop();
      pen.font = `${loud.tone === "broken" ? "700 12" : "11.5"}px system-ui, sans-serif`;
      const text = `${loud.name}${loud.owners.length ? `: ${loud.owners.slice(0, 3).join(", ")}` : ""}`;
      const side = all.length > 1 ? 24 : 15, wide = pen.measureText(text).width;
      pen.fillStyle = toneOf(loud, colours);
      if (x + side + wide < Math.min(free - 20, view.width - EDGE)) pen.fillText(text, x + side, y + 11);
      else if (free === Infinity && groups.length === 1 && x - side - wide > GUTTER) pen.fillText(text, x - side - wide, y + 11);
      free = x;
    }
    pen.font = "12px system-ui, sans-serif";
  }
}

const LOUD = ["notes", "limits", "broken"];
const byLoudness = (all) => [...all].sort((a, b) => LOUD.indexOf(a.tone) - LOUD.indexOf(b.tone));
const toneOf = (one, colours) => (one.tone === "broken" ? colours.red : one.tone === "limits" ? colours.amber : colours.soft);

// Owners of the violations in view, each with its loudest one.
function ownersIn(findings, view) {
  const seen = findings.filter((one) => one.tone !== "notes" && one.to > view.from && one.from < view.to);
  return new Map(byLoudness(seen).flatMap((one) => one.owners.map((node) => [node, one])));
}

// "3", "3, 7", "1–4", "1–9…" of the findings under one flag.
function flagText(all) {
  const numbers = all.map((one) => one.n), first = numbers[0], last = numbers[numbers.length - 1];
  if (numbers.length === 1) return String(first);
  if (last - first === numbers.length - 1) return `${first}\u2013${last}`;
  return numbers.length < 4 ? numbers.join(", ") : `${first}\u2026${last}`;
}

// Flags that would cover each other are one.
function flags(findings, view) {
  const found = [];
  const inView = findings.map((one) => ({ x: view.x(one.t), one }))
    .filter(({ x }) => x >= GUTTER - 1 && x <= view.width - EDGE + 1).sort((a, b) => a.x - b.x || a.one.n - b.one.n);
  for (const { x, one } of inView) {
    const last = found[found.length - 1];
    if (last && x - last.x < 24) { last.all.push(one); last.all.sort((a, b) => a.n - b.n); } else found.push({ x, all: [one] });
  }
  return found;
}

// Whether an op belongs to the same attempt as op i.
function attemptOf(ops, i) {
  return (other) => ops.sender[other] === ops.sender[i] && ops.attempt[other] === ops.attempt[i];
}
