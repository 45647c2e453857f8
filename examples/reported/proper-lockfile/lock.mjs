import { createInterface } from "node:readline";
import { tmpdir } from "node:os";
import lockfile from "proper-lockfile";

const say = (answer) => console.log(JSON.stringify(answer));
const held = new Map();
createInterface({ input: process.stdin }).on("line", async (line) => {
  const { id, op, lock, attempt, timeout_ms: wait } = JSON.parse(line);
  if (op === "release") {
    const release = held.get(attempt);
    held.delete(attempt);
    if (!release) return say({ id, outcome: "fail" });
    return release().then(() => say({ id, outcome: "ok" }), () => say({ id, outcome: "fail" }));
  }
  const by = Date.now() + (wait < 0 ? 1e9 : wait);
  const options = { stale: 2000, update: 1000, realpath: false, onCompromised: () => say({ event: "lost", lock, attempt }) };
  for (;;) {
    try {
      held.set(attempt, await lockfile.lock(`${tmpdir()}/proper-${lock}`, options));
      return say({ id, outcome: "ok" });
    } catch (error) {
      if (error.code !== "ELOCKED" || Date.now() >= by) return say({ id, outcome: "fail" });
      await new Promise((done) => setTimeout(done, 10));
    }
  }
});
