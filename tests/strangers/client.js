// Generates the types of the TypeScript client, and type-checks and builds the client. Usage: `node client.js types`
// reads the description of the API from its input and prints the types; `node client.js build CLIENT OUT` checks the
// client in a directory with its own settings, and writes its programs to another one. Problems are lines, with the
// exit code 1. With `--probe` it only says whether the packages are installed.
"use strict";

const fs = require("node:fs");
const path = require("node:path");
const ts = require("typescript");

const [verb, client, out] = process.argv.slice(2);

async function types() {
  const { default: openapiTS, astToString, COMMENT_HEADER } = require("openapi-typescript");
  const description = JSON.parse(fs.readFileSync(0, "utf8"));
  // The file is the one that the program of the package writes.
  process.stdout.write(`${COMMENT_HEADER}${astToString(await openapiTS(description, { silent: true }))}`);
}

function build() {
  const file = path.join(client, "tsconfig.json");
  const read = ts.readConfigFile(file, ts.sys.readFile);
  const settings = ts.parseJsonConfigFileContent(read.config ?? {}, ts.sys, client);
  settings.options.outDir = out;
  const program = ts.createProgram(settings.fileNames, settings.options);
  const emitted = program.emit();
  const problems = [read.error, ...settings.errors, ...ts.getPreEmitDiagnostics(program), ...emitted.diagnostics];
  for (const problem of problems.filter(Boolean)) {
    const text = ts.flattenDiagnosticMessageText(problem.messageText, "\n");
    const place = problem.file?.getLineAndCharacterOfPosition(problem.start ?? 0);
    console.log(`${problem.file?.fileName ?? file}:${(place?.line ?? 0) + 1}: ${text}`);
    process.exitCode = 1;
  }
  // The programs are modules wherever they are.
  fs.writeFileSync(path.join(out, "package.json"), '{"type":"module"}\n');
}

if (verb === "types") {
  types();
} else if (verb === "build") {
  build();
} else if (verb === "--probe") {
  require.resolve("openapi-typescript");
} else {
  throw new Error(`no verb: ${verb}`);
}
