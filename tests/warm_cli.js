// The CDK CLI in a process that stays: `node warm_cli.js FOLDER_OF_AWS_CDK SOCKET` runs a command for each connection.
//
// A request is one line of JSON: args, env, cwd. The answer is what the command prints, each piece as one line of JSON,
// then its exit code as a number. Commands run one after another, because environment and folder are the process's own.
"use strict";

const child_process = require("child_process");
const fs = require("fs");
const Module = require("module");
const net = require("net");
const path = require("path");

const [, , cli, address] = process.argv;
const bundle = fs.realpathSync(path.join(cli, "lib", "index.js"));
const compile = Module.prototype._compile;

// cli() of aws-cdk 2.1148.1 starts exec() and returns nothing: here it returns the promise, so that its end is seen.
Module.prototype._compile = function (source, filename, ...rest) {
  if (filename === bundle) {
    const parts = source.split("  let error3;\n  exec(args).then(");
    if (parts.length !== 2) throw new Error(`${bundle} has another cli()`);
    source = parts.join("  let error3;\n  return exec(args).then(");
  }
  return compile.call(this, source, filename, ...rest);
};

// The app inherits the CLI's streams. Here they are those of the connection, which are no descriptors.
const { spawn } = child_process;
child_process.spawn = (...words) => {
  const options = words.at(-1);
  const { stdio } = options;
  if (!Array.isArray(stdio) || !stdio.includes("inherit")) return spawn(...words);
  const child = spawn(...words.slice(0, -1), { ...options, stdio: stdio.map((kind) => (kind === "inherit" ? "pipe" : kind)) });
  for (const [index, name] of ["", "stdout", "stderr"].entries()) {
    if (stdio[index] === "inherit") child[name].on("data", (piece) => process[name].write(piece));
  }
  return child;
};
const commands = require(bundle);

async function run({ args, env, cwd }, connection) {
  for (const name of Object.keys(process.env)) delete process.env[name];
  Object.assign(process.env, env);
  process.chdir(cwd);
  process.exitCode = undefined;
  const write = (chunk, encoding, done) => {
    const text = typeof chunk === "string" ? chunk : Buffer.from(chunk).toString("utf8");
    const after = typeof encoding === "function" ? encoding : done;
    connection.write(`${JSON.stringify(text)}\n`);
    if (after) process.nextTick(after);
    return true;
  };
  process.stdout.write = process.stderr.write = write;
  await commands.cli(args);
  connection.end(`${process.exitCode ?? 0}\n`);
}

let last = Promise.resolve();
const server = net.createServer((connection) => {
  let text = "";
  connection.on("error", () => {});
  connection.on("data", (piece) => {
    text += piece;
    if (!text.endsWith("\n")) return;
    const request = JSON.parse(text);
    last = last.then(() => run(request, connection));
  });
});
process.stdin.on("end", () => process.exit()).resume();
server.listen(address, () => console.log("ready"));
