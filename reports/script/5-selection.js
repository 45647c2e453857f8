// Which ops are shown, the op that is selected with its details, and the download of the rows.

const MOST_OPTIONS = 500, CSV_SAMPLE = 200;

class Filter {
  constructor(data, changed) {
    Object.assign(this, { data, changed, match: null, count: data.ops.n });
    const { ops, about, series, lanes } = data;
    const seen = (column) => [...new Set(column)];
    const options = (name, pairs) => {
      const box = part(`filter-${name}`);
      for (const [value, text] of pairs.slice(0, MOST_OPTIONS)) element("option", text, box).value = value;
      box.addEventListener("change", () => this.apply());
    };
    const named = (values, name) => values.map((v) => [v, name(v)]).sort((a, b) => (a[1] < b[1] ? -1 : 1));
    options("lock", named(seen(ops.key), (key) => about.strings[key] ?? "…").filter(([, text]) => text));
    options("client", seen(ops.sender).sort((a, b) => a - b).map((k) => [k, lanes[k].name]));
    options("op", named(seen(ops.kind.map((kind) => kind & 31)), (id) => series.byId[id]));
    options("status", named(seen(ops.kind.map((kind) => kind >> 5)), (id) => about.statuses[id]));
    part("filter-text").addEventListener("input", () => {
      clearTimeout(this.later);
      this.later = setTimeout(() => this.apply(), 120);
    });
    part("filter-clear").addEventListener("click", () => this.clear());
  }

  chosen(name) { const { value } = part(`filter-${name}`); return value === "" ? -1 : Number(value); }

  clear() {
    for (const name of ["lock", "client", "op", "status", "text"]) part(`filter-${name}`).value = "";
    this.apply();
  }

  apply() {
    const { ops, series, lanes } = this.data, words = this.words();
    const [lock, client, op, status] = ["lock", "client", "op", "status"].map((name) => this.chosen(name));
    const active = words.length > 0 || Math.max(lock, client, op, status) >= 0;
    this.match = active ? new Uint8Array(ops.n) : null;
    this.count = ops.n;
    if (active) {
      this.count = 0;
      for (let i = 0; i < ops.n; i++) {
        if ((lock < 0 || ops.key[i] === lock) && (client < 0 || ops.sender[i] === client)
          && (op < 0 || (ops.kind[i] & 31) === op) && (status < 0 || ops.kind[i] >> 5 === status)
          && words.every((word) => word(i))) { this.match[i] = 1; this.count++; }
      }
    }
    // A hold is filtered by what it has: a lock and a client.
    const held = (i) => (lock < 0 || ops.key[i] === lock) && (client < 0 || ops.sender[i] === client);
    narrow(lanes, ops, series.ok, this.match, held);
    part("filter-count").textContent = active ? `${this.count.toLocaleString("en")} of ${ops.n.toLocaleString("en")} ops match` : "";
    part("filter-clear").hidden = !active;
    this.changed();
  }

  // Each word must occur in a name of the op (lock, client, lane, op, status, error), or be its row, or "#" and its token.
  words() {
    const { ops, about, series, lanes, tokenText } = this.data;
    return part("filter-text").value.toLowerCase().split(/\s+/).filter(Boolean).map((word) => {
      const has = (names) => Uint8Array.from(names, (name) => (String(name ?? "").toLowerCase().includes(word) ? 1 : 0));
      const string = has(about.strings), lane = has(lanes.map((one) => one.name)), op = has(series.byId), status = has(about.statuses);
      if (/^#\d+$/.test(word)) return (i) => ops.token[i] >= 0 && `#${tokenText(ops.token[i])}` === word;
      return (i) => string[ops.key[i]] || string[ops.err[i]] || lane[ops.lane[i]] || lane[ops.sender[i]] || op[ops.kind[i] & 31]
        || status[ops.kind[i] >> 5] || String(ops.row[i]) === word;
    });
  }

  shows(i) { return !this.match || this.match[i] === 1; }

  // The next shown op after i in direction step; -1: there is none.
  next(i, step) {
    for (let k = i + step; k >= 0 && k < this.data.ops.n; k += step) if (this.shows(k)) return k;
    return -1;
  }
}

class Details {
  constructor(timeline) {
    this.timeline = timeline;
    this.op = -1;
    part("timeline-op-close").addEventListener("click", () => this.select(-1));
    for (const button of document.querySelectorAll("[data-op]")) {
      button.addEventListener("click", () => this.step(Number(button.dataset.op)));
    }
  }

  select(i, focus = false) {
    const { timeline } = this;
    this.op = i;
    part("timeline-op").hidden = i < 0;
    if (i >= 0) this.fill(i);
    timeline.changed(false);
    if (i >= 0 && focus) part("timeline-op").focus({ preventScroll: true });
    if (i < 0 && focus) part("timeline-lanes").focus({ preventScroll: true });
  }

  // To another op, with its time and its lane in view.
  go(i, focus = false) {
    const { view, lanes, data, height } = this.timeline, t = data.ops.t[i];
    if (t < view.from || t > view.to) view.set(t - (view.to - view.from) / 2, t + (view.to - view.from) / 2);
    const y = lanes.tops[data.ops.lane[i]];
    if (y < lanes.top || y + LANE > lanes.top + height - lanes.head) lanes.top = y - LANE;
    this.select(i, focus);
  }

  step(by) {
    const { filter, data, view } = this.timeline;
    const first = () => (by > 0 ? lower(data.ops.t, view.from) - 1 : lower(data.ops.t, view.to));
    const i = filter.next(this.op < 0 ? first() : this.op, by);
    if (i >= 0) this.go(i);
  }

  fill(i) {
    const { data } = this.timeline, { ops, about, series, lanes } = data, ret = returned(ops, i);
    const client = lanes[ops.sender[i]].name, error = about.strings[ops.err[i]];
    const name = `${series.byId[ops.kind[i] & 31]}: ${about.statuses[ops.kind[i] >> 5]}`;
    part("timeline-op-title").textContent = `Row ${ops.row[i].toLocaleString("en")}, ${name}`;
    const facts = [
      ["Client", client], ["Lane", lanes[ops.lane[i]].name], ["Lock", about.strings[ops.key[i]] || "–"],
      ["Token", ops.token[i] < 0 ? "–" : data.tokenText(ops.token[i])], ["Called", momentText(ops.t[i])],
      ["Answered", ret < NEVER ? momentText(ret) : "never"], ["Took", ret < NEVER ? spanText(ret - ops.t[i]) : "no response"],
      ["Attempt", `${client}/${ops.attempt[i]}`], ...(error ? [["Error", error]] : []),
    ];
    const proofs = about.findings.filter((one) => one.rows.includes(ops.row[i])).map((one) => `${one.n} (${one.name})`);
    if (proofs.length) facts.push(["Proof of finding", proofs.join(", ")]);
    part("timeline-op-facts").replaceChildren(...facts.map(([term, value]) => {
      const pair = document.createElement("div");
      element("dt", term, pair);
      element("bdi", value, element("dd", undefined, pair));
      return pair;
    }));
    this.attempt(i);
  }

  // The ops of the same attempt, as buttons in order of time.
  attempt(i) {
    const { ops, series, about } = this.timeline.data, mine = attemptOf(ops, i), found = [];
    for (let k = 0; k < ops.n && found.length < 60; k++) if (mine(k)) found.push(k);
    part("timeline-op-attempt").replaceChildren(...found.map((k) => {
      const item = document.createElement("li"), button = element("button", undefined, item);
      button.type = "button";
      button.textContent = `${series.byId[ops.kind[k] & 31]} ${about.statuses[ops.kind[k] >> 5]} ${momentText(ops.t[k], 3)}`;
      if (k === i) button.setAttribute("aria-current", "true");
      button.addEventListener("click", () => this.go(k, true));
      return item;
    }));
  }
}

// The rows as CSV, in the order of the run; times in seconds, to the microsecond.
const CSV_COLUMNS = ["row", "lane", "client", "op", "status", "lock", "token", "attempt", "called_s", "returned_s", "error"];

// A cell that a spreadsheet would take for a formula begins with an apostrophe.
function cell(text) {
  const safe = /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return /[",\n\r]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

function csvLine(data, i) {
  const { ops, about, series, lanes } = data, ret = returned(ops, i);
  return [ops.row[i], cell(lanes[ops.lane[i]].name), cell(lanes[ops.sender[i]].name), series.byId[ops.kind[i] & 31],
    cell(about.statuses[ops.kind[i] >> 5]), cell(about.strings[ops.key[i]] ?? ""), ops.token[i] < 0 ? "" : data.tokenText(ops.token[i]),
    ops.attempt[i], (ops.t[i] / 1e6).toFixed(6), ret < NEVER ? (ret / 1e6).toFixed(6) : "", cell(about.strings[ops.err[i]] ?? "")].join(",");
}

function csvParts(data, filter) {
  const parts = [`${CSV_COLUMNS.join(",")}\n`];
  let lines = [];
  for (let i = filter.next(-1, 1); i >= 0; i = filter.next(i, 1)) {
    lines.push(csvLine(data, i));
    if (lines.length === 10000) { parts.push(`${lines.join("\n")}\n`); lines = []; }
  }
  if (lines.length) parts.push(`${lines.join("\n")}\n`);
  return parts;
}

// The size of the download, from the first rows.
function csvSize(data, filter) {
  let bytes = 0, n = 0;
  for (let i = filter.next(-1, 1); i >= 0 && n < CSV_SAMPLE; i = filter.next(i, 1), n++) bytes += csvLine(data, i).length + 1;
  return n ? (bytes / n) * filter.count : 0;
}

const sizeText = (bytes) => (bytes < 1e6 ? `${Math.max(bytes / 1e3, 1).toFixed(0)} kB` : `${(bytes / 1e6).toFixed(bytes < 1e7 ? 1 : 0)} MB`);

function download(data, filter) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob(csvParts(data, filter), { type: "text/csv" }));
  link.download = "rows.csv";
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60000);
}
