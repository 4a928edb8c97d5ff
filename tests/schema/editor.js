// Runs taplo's language server as the extensions of editors do. It takes messages on standard input
// and writes answers to standard output, one a line. Usage: node editor.js NODE_MODULES
"use strict";
const fs = require("node:fs");
const path = require("node:path");
const readline = require("node:readline");
const { TaploLsp } = require(path.join(path.resolve(process.argv[2]), "@taplo/lsp"));

const environment = {
  now: () => new Date(),
  envVar: (name) => process.env[name],
  envVars: () => Object.entries(process.env),
  stdErrAtty: () => false,
  stdin: process.stdin,
  stdout: process.stderr,
  stderr: process.stderr,
  glob: () => [],
  readFile: (file) => fs.promises.readFile(file),
  writeFile: () => Promise.reject(new Error("not in a test")),
  urlToFilePath: (from) => decodeURIComponent(new URL(from).pathname), // also of other schemes
  isAbsolute: (file) => path.isAbsolute(file),
  cwd: () => process.cwd(),
  findConfigFile: () => undefined,
  // It asks a server for a catalogue of schemas before it knows its settings.
  fetch: { fetch: () => Promise.reject(new Error("no network in a test")), Headers, Request, Response },
};

TaploLsp.initialize(environment, {
  onMessage: (message) => process.stdout.write(JSON.stringify(message) + "\n"),
}).then((server) => {
  const lines = readline.createInterface({ input: process.stdin });
  lines.on("line", (line) => server.send(JSON.parse(line)));
  lines.on("close", () => process.exit(0));
});
