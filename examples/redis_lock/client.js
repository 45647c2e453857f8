// A lock on one Redis as a Node program: JSON lines on standard input and output.
//   node client.js ADDRESS
"use strict";
const net = require("net");
const readline = require("readline");

const PORT = 6379, POLL_MS = 10;
const address = process.argv[2];

// One command on a connection of its own; rejects where no reply came, so its outcome is unknown.
function redis(...words) {
  return new Promise((resolve, reject) => {
    const socket = net.connect(PORT, address);
    const parts = words.map((word) => `$${Buffer.byteLength(String(word))}\r\n${word}\r\n`);
    let reply = "";
    socket.setTimeout(1000, () => socket.destroy(new Error("no reply within 1 s")));
    socket.on("connect", () => socket.write(`*${words.length}\r\n${parts.join("")}`));
    socket.on("data", (data) => {
      reply += data;
      if (reply.includes("\r\n")) {
        socket.end();
        resolve(reply.split("\r\n")[0]);
      }
    });
    socket.on("error", reject);
    socket.on("close", () => reject(new Error("the server closed the connection")));
  });
}

const tell = (row) => process.stdout.write(JSON.stringify(row) + "\n");

async function acquire({ lock, attempt, timeout_ms, lease_ms }) {
  const until = timeout_ms < 0 ? Infinity : Date.now() + timeout_ms;
  for (;;) {
    if ((await redis("SET", lock, attempt, "NX", "PX", lease_ms)) === "+OK") return "ok";
    if (Date.now() + POLL_MS > until) return "fail";
    tell({ event: "waiting", lock, attempt });
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
}

async function release({ lock, attempt }) {
  return (await redis("DEL", lock)) === ":1" ? "ok" : "not_owner";
}

readline.createInterface({ input: process.stdin }).on("line", async (line) => {
  const request = JSON.parse(line);
  try {
    const outcome = await (request.op === "release" ? release : acquire)(request);
    tell({ id: request.id, outcome });
  } catch (error) {
    tell({ id: request.id, outcome: "info", error: String(error) });
  }
});
