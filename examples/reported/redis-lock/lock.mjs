import { createInterface } from "node:readline";
import { createClient } from "redis";
import redisLock from "redis-lock";

const client = await createClient({ url: `redis://${process.argv[2]}:6379` }).on("error", () => {}).connect();
const lock = redisLock(client);
const held = new Map();
createInterface({ input: process.stdin }).on("line", async (line) => {
  const { id, op, lock: name, attempt, lease_ms } = JSON.parse(line);
  if (op !== "release") held.set(attempt, await lock(name, lease_ms));
  else await held.get(attempt)();
  console.log(JSON.stringify({ id, outcome: "ok" }));
});
