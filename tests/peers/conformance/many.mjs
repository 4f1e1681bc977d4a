// Runs the conformance suite again and again in one process: `node many.mjs PROGRAM`. Each line of
// standard input holds the arguments of one run, as JSON; a line of standard output answers it, with
// what it has printed. Each run gets the program's module anew, with its own state; the libraries
// are loaded once. A run ends when the program exits; `list` does not, and has printed everything
// when its module is loaded.

import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";
import { format } from "node:util";

class Ended extends Error {}

const program = pathToFileURL(process.argv[2]).href;
let printed = [];
let end;
for (const name of ["log", "error", "warn", "info"]) {
  console[name] = (...words) => printed.push(format(...words));
}
process.exit = () => {
  end();
  throw new Ended();
};
process.on("unhandledRejection", (reason) => {
  if (!(reason instanceof Ended)) {
    printed.push(format(reason));
    end();
  }
});

let number = 0;
for await (const line of createInterface({ input: process.stdin })) {
  const ended = new Promise((resolve) => (end = resolve));
  process.argv.splice(2, Infinity, ...JSON.parse(line));
  await import(`${program}?${++number}`);
  if (process.argv[2] !== "list") await ended;
  process.stdout.write(`${JSON.stringify(printed.join("\n"))}\n`);
  printed = [];
}
