import { createInterface } from "node:readline";
import { tmpdir } from "node:os";
import lockfile from "lockfile";

const say = (answer) => console.log(JSON.stringify(answer));
createInterface({ input: process.stdin }).on("line", (line) => {
  const { id, op, lock, lease_ms: stale, timeout_ms: wait } = JSON.parse(line);
  const path = `${tmpdir()}/lockfile-${lock}.lock`;
  if (op === "release") lockfile.unlock(path, () => say({ id, outcome: "ok" }));
  else lockfile.lock(path, { stale, wait: wait < 0 ? 1e9 : wait, pollPeriod: 20 }, (error) => say({ id, outcome: error ? "fail" : "ok" }));
});
