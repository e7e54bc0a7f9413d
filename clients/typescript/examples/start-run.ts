// Starts a run, shows its state whenever it changes, and ends with code 0 if it succeeded:
//
//   DRYDOCK_URL=https://drydock.example.com DRYDOCK_TOKEN=... node dist/examples/start-run.js review number=7
//
// DRYDOCK_KEY is a key under which the same request starts one run, however often this program is started.

import { Drydock, DrydockError, type Run } from "../src/client.js";

function line(run: Run): string {
  const steps = run.steps.map((step) => `${step.name} ${step.status}`);
  return `run ${run.id} ${run.status}: ${steps.join(", ")}`;
}

async function main(): Promise<void> {
  const [pipeline, ...given] = process.argv.slice(2);
  const { DRYDOCK_URL: url, DRYDOCK_TOKEN: token, DRYDOCK_KEY: key } = process.env;
  if (pipeline === undefined || url === undefined || token === undefined) {
    console.error("usage: DRYDOCK_URL=... DRYDOCK_TOKEN=... node start-run.js PIPELINE [NAME=VALUE ...]");
    process.exitCode = 2;
    return;
  }
  const params = Object.fromEntries(
    given.map((word) => {
      const [name, ...value] = word.split("=");
      return [name ?? "", value.join("=")];
    }),
  );
  const drydock = new Drydock({ url, token });
  const started = await drydock.startRun({ pipeline, params }, key);
  for await (const run of drydock.watch(started.id)) {
    console.log(line(run));
  }
  const run = await drydock.finished(started.id);
  for (const step of run.steps) {
    console.log(`${step.name}: ${step.text}`);
  }
  process.exitCode = run.status === "succeeded" ? 0 : 1;
}

main().catch((error: unknown) => {
  const problems = error instanceof DrydockError ? error.problems : [];
  console.error(error instanceof Error ? error.message : String(error));
  for (const { field, problem } of problems) {
    console.error(`${field}: ${problem}`);
  }
  process.exitCode = 1;
});
