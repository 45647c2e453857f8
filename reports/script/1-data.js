"use strict";
// The recorded ops as typed arrays, and what is looked up in them while the page is moved about.
// Times are microseconds since the start of the run.

const ASKS = new Set(["acquire", "try", "probe"]);
const NEVER = Infinity;

async function unpacked(about, text) {
  const bytes = Uint8Array.fromBase64 ? Uint8Array.fromBase64(text) : bytesOf(atob(text));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  const whole = new Uint8Array(await new Response(stream).arrayBuffer());
  const columns = {};
  let at = 0;
  for (const [name, width, n] of about.layout) {
    columns[name] = joined(whole, at, width, n);
    at += width * n;
  }
  return columns;
}

function bytesOf(text) {
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < bytes.length; i++) bytes[i] = text.charCodeAt(i);
  return bytes;
}

function joined(whole, at, width, n) {
  if (width === 1) return whole.subarray(at, at + n);
  const found = width === 2 ? new Uint16Array(n) : new Uint32Array(n);
  if (width === 2) {
    const high = at + n;
    for (let i = 0; i < n; i++) found[i] = whole[at + i] | (whole[high + i] << 8);
  } else {
    const b = at + n, c = b + n, d = c + n;
    for (let i = 0; i < n; i++) {
      found[i] = whole[at + i] | (whole[b + i] << 8) | (whole[c + i] << 16) | (whole[d + i] << 24);
    }
  }
  return found;
}

const unsigned = (code) => (code % 2 ? -(code + 1) / 2 : code / 2);

function opsOf(about, columns) {
  const n = columns.wait.length, lanes = about.lanes.length;
  const ops = {
    n, t: new Float64Array(n), took: columns.took, lane: columns.lane, kind: columns.kind,
    err: columns.err, token: new Float64Array(n), attempt: new Uint32Array(n), key: new Uint16Array(n),
    row: new Uint32Array(n), sender: new Uint16Array(n),
  };
  const token = new Float64Array(lanes), attempt = new Float64Array(lanes), key = new Int32Array(lanes);
  let now = about.first, row = -1;
  for (let i = 0; i < n; i++) {
    const lane = columns.lane[i];
    ops.t[i] = now += columns.wait[i];
    ops.row[i] = row += 1 + columns.skipped[i];
    ops.sender[i] = lane + unsigned(columns.sender[i]);
    const step = columns.token[i];
    ops.token[i] = step ? (token[lane] += unsigned(step - 1)) : -1;
    ops.attempt[i] = attempt[lane] += unsigned(columns.attempt[i]);
    ops.key[i] = key[lane] += unsigned(columns.key[i]);
  }
  return ops;
}

const returned = (ops, i) => (ops.took[i] ? ops.t[i] + ops.took[i] - 1 : NEVER);

// Per lane: its ops by time, how many of them were not ok, its holds by their beginning.
function lanesOf(about, columns, ops, okStatus) {
  const lanes = about.lanes.map((one) => ({ ...one, n: 0, holds: 0 }));
  opsInto(lanes, ops, okStatus, null);
  holdsInto(lanes, about, columns, ops);
  for (const lane of lanes) lane.whole = { op: lane.op, t: lane.t, odd: lane.odd, n: lane.n, hold: lane.hold };
  return lanes;
}

// `match`: 1 for each op that is drawn; null: all are.
function opsInto(lanes, ops, okStatus, match) {
  for (const lane of lanes) lane.n = 0;
  for (let i = 0; i < ops.n; i++) if (!match || match[i]) lanes[ops.lane[i]].n++;
  for (const lane of lanes) {
    lane.op = new Uint32Array(lane.n);
    lane.t = new Float64Array(lane.n);
    lane.odd = new Uint32Array(lane.n + 1);
    lane.n = 0;
  }
  for (let i = 0; i < ops.n; i++) {
    if (match && !match[i]) continue;
    const lane = lanes[ops.lane[i]], k = lane.n++;
    lane.op[k] = i;
    lane.t[k] = ops.t[i];
    lane.odd[k + 1] = lane.odd[k] + (ops.kind[i] >> 5 === okStatus ? 0 : 1);
  }
}

// The lanes with the ops that match, and with the holds that `held` keeps; whole again for null.
function narrow(lanes, ops, okStatus, match, held) {
  if (!match) {
    for (const lane of lanes) Object.assign(lane, lane.whole);
    return;
  }
  opsInto(lanes, ops, okStatus, match);
  for (const lane of lanes) {
    const all = lane.whole.hold, kept = [];
    for (let k = 0; k < all.n; k++) if (held(all.op[k])) kept.push(k);
    const taken = (column) => column.constructor.from(kept, (k) => column[k]);
    lane.hold = { n: kept.length, op: taken(all.op), from: taken(all.from), sure: taken(all.sure),
      to: taken(all.to), tail: taken(all.tail), lease: taken(all.lease) };
    summed(lane.hold);
  }
}

function holdsInto(lanes, about, columns, ops) {
  const n = columns.holdOp.length, owner = new Uint32Array(n);
  for (let i = 0, op = 0; i < n; i++) {
    owner[i] = op += columns.holdOp[i];
    lanes[ops.lane[op]].holds++;
  }
  for (const lane of lanes) {
    lane.hold = { n: 0, op: new Uint32Array(lane.holds), from: new Float64Array(lane.holds),
      sure: new Float64Array(lane.holds), to: new Float64Array(lane.holds), tail: new Uint8Array(lane.holds),
      lease: new Float64Array(lane.holds) };
  }
  for (let i = 0; i < n; i++) {
    const op = owner[i], hold = lanes[ops.lane[op]].hold, k = hold.n++;
    hold.op[k] = op;
    hold.from[k] = returned(ops, op);
    hold.to[k] = hold.from[k] + columns.holdLength[i];
    hold.sure[k] = hold.to[k] - columns.holdLoose[i];
    hold.lease[k] = hold.sure[k] - columns.holdPast[i];
    hold.tail[k] = columns.holdTail[i];
  }
  for (const lane of lanes) summed(lane.hold);
}

// `reach` is the latest end so far; `held` the time held before each beginning.
function summed(hold) {
  hold.reach = new Float64Array(hold.n);
  hold.held = new Float64Array(hold.n + 1);
  let reach = -Infinity;
  for (let k = 0; k < hold.n; k++) {
    hold.held[k + 1] = hold.held[k] + hold.to[k] - Math.max(hold.from[k], Math.min(reach, hold.to[k]));
    hold.reach[k] = reach = Math.max(reach, hold.to[k]);
  }
}

function lower(sorted, value, low = 0, high = sorted.length) {
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle] < value) low = middle + 1; else high = middle;
  }
  return low;
}

// How long the lane was held before t; exact where its holds do not overlap.
function heldBefore(hold, t, from = 0) {
  const k = lower(hold.from, t, from);
  const over = k ? Math.max(hold.reach[k - 1] - t, 0) : 0;
  return [hold.held[k] - Math.min(over, hold.held[k]), k];
}

// What the panels below the lanes are read from, in order of time.
function seriesOf(about, columns, ops) {
  const name = about.ops, byId = [];
  about.opIds.forEach((id, i) => { byId[id] = name[i]; });
  const ok = about.statuses.indexOf("ok"), asks = [], grants = [], over = [], refused = [];
  for (let i = 0; i < ops.n; i++) {
    if (!ASKS.has(byId[ops.kind[i] & 31])) continue;
    const ret = returned(ops, i), status = ops.kind[i] >> 5;
    asks.push(ops.t[i]);
    if (ret < NEVER) over.push(ret);
    (status === ok ? grants : refused).push(ret < NEVER ? ret : ops.t[i]);
  }
  const sorted = (values) => Float64Array.from(values).sort();
  const margin = { t: new Float64Array(columns.margin.length), ns: new Float64Array(columns.margin.length) };
  for (let i = 0, op = 0; i < margin.t.length; i++) {
    op += columns.renewOp[i];
    margin.t[i] = returned(ops, op);
    margin.ns[i] = unsigned(columns.margin[i]);
  }
  return { byId, ok, asks: Float64Array.from(asks), over: sorted(over), grants: sorted(grants),
    refused: sorted(refused), margin };
}
