// Connections of ioredis, with its defaults except for a timeout of 1 s per command.
import { library } from "./protocol.mjs";

const PORT = 6379;
const ANSWER_WITHIN_MS = 1000;

// One connection to the server at an address. Its errors are those of the commands.
export function connect(address) {
  const { Redis } = library("ioredis");
  const connection = new Redis({ host: address, port: PORT, commandTimeout: ANSWER_WITHIN_MS });
  connection.on("error", () => {});
  return connection;
}
