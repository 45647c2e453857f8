// A small lock server in Node: leases and fencing tokens, one text line a question.
//
//   node server.js ADDRESS PORT
//
// "acquire LOCK OWNER LEASE_MS" -> token or 0; "renew ..." and "release ..." -> 1 or 0; "ping" -> pong

const net = require("net");

const holds = new Map();
let token = 0;

function answer([op, lock, owner, lease]) {
  if (op === "ping") return "pong";
  const now = performance.now();
  const hold = holds.get(lock);
  const held = hold !== undefined && now < hold.until;
  const mine = held && hold.owner === owner;
  if (op === "acquire") {
    if (mine) return hold.token;
    if (held) return 0;
    token += 1;
    holds.set(lock, { owner, token, until: now + Number(lease) });
    return token;
  }
  if (!mine) return 0;
  if (op === "renew") hold.until = now + Number(lease);
  if (op === "release") holds.delete(lock);
  return 1;
}

const [address, port] = process.argv.slice(2);
const server = net.createServer((plug) => {
  let text = "";
  plug.on("error", () => plug.destroy());
  plug.on("data", (part) => {
    const lines = (text + part).split("\n");
    text = lines.pop();
    for (const line of lines) plug.write(`${answer(line.split(" "))}\n`);
  });
});
server.listen(Number(port), address);
