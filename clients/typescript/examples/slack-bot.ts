// A bot that answers a slash command of Slack, as a program beside Drydock. Slack sends the command here; it starts a run of
// the pipeline of examples/pipelines/slack-bot.yaml over HTTP, and its result is sent to the `response_url` of the command:
//
//   DRYDOCK_URL=https://drydock.example.com DRYDOCK_TOKEN=... SLACK_SIGNING_SECRET=... SLACK_USERS=U0ALICE,U0BOB \
//     LISTEN=127.0.0.1:8080 node dist/examples/slack-bot.js
//
// The token of Drydock has the scopes runs:read and runs:write. All runs are those of its person, so only the people of
// SLACK_USERS are answered: they read what this person may read.

import { Drydock, DrydockError } from "../src/client.js";
import { afterwards, bytesOf, cut, isSigned, listen, reasonOf, resultOf, variable } from "./bot.js";
import type { BotAnswer, SignedRequest } from "./bot.js";

/** The most seconds between the time of a request and now. */
const AGE_SECONDS_MAX = 300;
/** Slack shows longer texts in part. */
const TEXT_CHARACTERS_MAX = 3_000;

const secret = variable("SLACK_SIGNING_SECRET");
const users = new Set(variable("SLACK_USERS").split(","));
const responses = variable("SLACK_RESPONSES", "https://hooks.slack.com");
const drydock = new Drydock({ url: variable("DRYDOCK_URL"), token: variable("DRYDOCK_TOKEN") });

async function answer(request: SignedRequest): Promise<BotAnswer> {
  if (!(await isOfSlack(request))) {
    return { status: 401 };
  }
  const form = new URLSearchParams(new TextDecoder().decode(request.body));
  const field = (name: string): string => form.get(name) ?? "";
  const url = field("response_url");
  if (!url.startsWith(`${responses}/`) || field("trigger_id") === "") {
    return { status: 400 };
  }
  if (!users.has(field("user_id"))) {
    return told("You may not ask me here.");
  }
  const question = field("text").trim();
  if (question === "") {
    return told(`Write a question after ${field("command")}.`);
  }
  try {
    // A request that Slack sends again has the same trigger.
    const run = await drydock.startRun({ pipeline: "ask", params: { question } }, field("trigger_id"));
    afterwards(`run ${run.id}`, respond(run.id, url));
    return told(`This is run ${run.id}; its answer comes here.`);
  } catch (error) {
    if (!(error instanceof DrydockError)) {
      throw error;
    }
    return told(`Nothing was started: ${reasonOf(error)}`);
  }
}

async function isOfSlack({ header, body }: SignedRequest): Promise<boolean> {
  const time = header("x-slack-request-timestamp");
  const [version, signature = ""] = header("x-slack-signature").split("=");
  const begin = bytesOf(`v0:${time}:`);
  const message = new Uint8Array(begin.length + body.length);
  message.set(begin);
  message.set(body, begin.length);
  if (version !== "v0" || !/^[0-9]{1,12}$/.test(time) || !(await isSigned(secret, message, signature))) {
    return false;
  }
  return Math.abs(Date.now() / 1_000 - Number(time)) <= AGE_SECONDS_MAX;
}

/** Sends the result of a run to the one who typed the command. */
async function respond(run: number, url: string): Promise<void> {
  const ended = await drydock.finished(run);
  const result = resultOf(ended) ?? `The run ended without an answer: ${ended.why ?? ended.status}.`;
  const init = {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(message(result)),
    redirect: "error",
  } as const;
  const answered = await fetch(url, init);
  if (!answered.ok) {
    throw new Error(`Slack answers ${answered.status}`);
  }
  console.log(`run ${run}: answered`);
}

function told(text: string): BotAnswer {
  return { status: 200, body: message(text) };
}

/** Returns a message for one person, which mentions nobody. */
function message(text: string): object {
  const escaped = cut(text, TEXT_CHARACTERS_MAX).replaceAll("&", "&amp;").replaceAll("<", "&lt;");
  const shown = escaped.replaceAll(">", "&gt;");
  return { response_type: "ephemeral", text: shown };
}

listen(answer);
