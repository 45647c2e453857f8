import { tmpdir } from "node:os";
import { createInterface } from "node:readline";
import { withLock } from "@ster5/global-mutex";

const holds = new Map(); // attempt -> { end: ends its action, over: when its lock is released }
const say = (answer) => console.log(JSON.stringify(answer));

async function acquire({ id, lock, attempt, timeout_ms: wait }) {
  const within = { retries: 1e6, minTimeout: 10, maxTimeout: 50, maxRetryTime: Math.max(0, wait) };
  const retries = wait < 0 ? { ...within, forever: true } : within;
  const options = { fileToLock: `${tmpdir()}/global-mutex-${lock}`, stale: 60000, retries };
  let over;
  const held = new Promise((granted) => {
    over = withLock(options, () => new Promise((end) => granted(end)));
  });
  try {
    const end = await Promise.race([held, over.then(() => null)]);
    holds.set(attempt, { end, over });
    say({ id, outcome: "ok" });
  } catch (error) {
    const refused = /already being held/.test(error.message);
    say({ id, outcome: refused ? "fail" : "info", error: error.message });
  }
}

async function release({ id, attempt }) {
  const hold = holds.get(attempt);
  if (!holds.delete(attempt)) return say({ id, outcome: "not_owner" });
  hold.end();
  await hold.over;
  say({ id, outcome: "ok" });
}

createInterface({ input: process.stdin }).on("line", (line) => {
  const request = JSON.parse(line);
  if (request.op === "release") release(request);
  else if (request.op === "renew") say({ id: request.id, outcome: "fail" });
  else acquire(request.op === "try" ? { ...request, timeout_ms: 0 } : request);
});
