// The line protocol of a client program: requests on standard input, responses and events on
// standard output, logs on standard error.
//
//     node PROGRAM FOLDER PACKAGE              load the packages of a folder, and exit
//     node PROGRAM FOLDER PACKAGE ADDRESSES LEASE_MS NAME=VALUE...    serve until the end of input
//
// A program calls `serve` with a function from (addresses, options) to its handlers:
//
//     acquire(request)            a handle of the lock, kept until its release; null: not granted
//     renew(handle, request)      false: no longer ours; absent: the package has no renewal
//     release(handle, request)    false: the package reports that it was not ours
//     outcome(error, request)     "fail", "not_owner" or "info" of a call that raised
//     close()
//
// A handle may have a fencing token: a property `token`.
import { createRequire } from "node:module";
import { connect } from "node:net";
import { join } from "node:path";
import { createInterface } from "node:readline";

const [folder, name, addresses, , ...words] = process.argv.slice(2);
const ACQUIRES = ["acquire", "try"];
const load = createRequire(join(folder, "node_modules", "of-the-program.js"));

// The name of the package under test.
export const named = name;

export const library = (wanted) => load(wanted);

// The attempt's hold has ended, by the package's own notice.
export function lost(request, reason) {
  write({ event: "lost", lock: request.lock, attempt: request.attempt, reason: String(reason) });
}

// A poll of this request was rejected.
export function waiting(request) {
  write({ event: "waiting", lock: request.lock, attempt: request.attempt });
}

export function serve(make) {
  if (addresses === undefined) process.exit(0);
  // An error that a package leaves unhandled must not end the client: the run would end with it.
  for (const event of ["unhandledRejection", "uncaughtException"]) {
    process.on(event, (error) => console.error(`${event}: ${error}`));
  }
  const options = Object.fromEntries(words.map((word) => word.split(/=(.*)/s)));
  const handlers = make(addresses.split(","), options);
  const handles = new Map();
  const unsure = new Set();
  const acquiring = new Map();
  const input = createInterface({ input: process.stdin });
  // A request starts when the acquire of its attempt has ended, if that was cancelled meanwhile.
  input.on("line", async (line) => {
    const request = JSON.parse(line);
    const { attempt } = request;
    if (!ACQUIRES.includes(request.op)) await acquiring.get(attempt);
    const ended = answer(handlers, handles, unsure, request);
    if (!ACQUIRES.includes(request.op)) return;
    acquiring.set(attempt, ended);
    ended.then(() => acquiring.delete(attempt));
  });
  input.on("close", async () => {
    const overdue = setTimeout(() => process.exit(0), 1000);
    await Promise.resolve(handlers.close?.()).catch(() => {});
    clearTimeout(overdue);
    process.exit(0);
  });
}

// unsure: attempts whose acquire raised, and may have been granted by the servers all the same.
async function answer(handlers, handles, unsure, request) {
  let said;
  try {
    said = await executed(handlers, handles, unsure, request);
  } catch (error) {
    const outcome = (await handlers.outcome?.(error, request)) ?? "info";
    if (outcome === "info" && ACQUIRES.includes(request.op)) unsure.add(request.attempt);
    said = { outcome, error: `${error.name}: ${error.message}`.slice(0, 300) };
  }
  write({ id: request.id, ...said });
}

async function executed(handlers, handles, unsure, request) {
  const { op, attempt } = request;
  if (ACQUIRES.includes(op)) {
    const handle = await handlers.acquire(request);
    if (handle === null) return { outcome: "fail" };
    handles.set(attempt, handle);
    return { outcome: "ok", token: handle.token };
  }
  if (op === "send") return sent(request);
  if (op === "renew" && handlers.renew === undefined) {
    return { outcome: "fail", error: "the package has no renewal of this kind" };
  }
  const handle = handles.get(attempt);
  if (handle === undefined) {
    const error = "no lock of this attempt";
    if (!unsure.has(attempt)) return { outcome: "not_owner", error };
    return { outcome: "info", error: `${error}, whose acquire has no certain outcome` };
  }
  if (op === "release") handles.delete(attempt);
  const kept = await handlers[op](handle, request);
  return { outcome: kept === false ? "not_owner" : "ok" };
}

// Sends a line to the protected resource, by a send of this process; one connection for each.
function sent({ address, port, line }) {
  return new Promise((resolve) => {
    let received = "", open = false;
    const plug = connect({ host: address, port, noDelay: true });
    plug.setTimeout(2000, () => plug.destroy(new Error("no answer of the resource")));
    plug.on("connect", () => {
      open = true;
      plug.write(`${line}\n`);
    });
    plug.on("data", (data) => {
      received += data;
      if (received.endsWith("\n")) {
        plug.end();
        resolve({ outcome: "ok", answer: received.trim() });
      }
    });
    plug.on("error", (error) => resolve({ outcome: open ? "info" : "fail", error: String(error) }));
    plug.on("close", () => resolve({ outcome: "info", error: "the connection was closed" }));
  });
}

function write(said) {
  process.stdout.write(`${JSON.stringify(said)}\n`);
}
