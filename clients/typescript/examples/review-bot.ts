// A bot that comments on pull requests, as a program beside Drydock. GitHub sends its events here; each starts a run of the
// pipeline of examples/pipelines/review-pull-request.yaml over HTTP, and the result is one comment:
//
//   DRYDOCK_URL=https://drydock.example.com DRYDOCK_TOKEN=... GITHUB_REPOSITORY=acme/infra GITHUB_TOKEN=... \
//     GITHUB_WEBHOOK_SECRET=... LISTEN=127.0.0.1:8080 node dist/examples/review-bot.js
//
// The token of Drydock has the scopes runs:read and runs:write. An event that is delivered again starts no second run and
// makes no second comment, also after a restart; if the program was stopped before its comment, deliver the event again.

import { Drydock } from "../src/client.js";
import { afterwards, cut, isSigned, listen, resultOf, signed, variable } from "./bot.js";
import type { BotAnswer, SignedRequest } from "./bot.js";

/** The fields of an event that are used. */
interface PullRequestEvent {
  action: string;
  repository: { full_name: string };
  pull_request: {
    number: number;
    title: string;
    draft: boolean;
    commits: number;
    head: { sha: string; repo: { full_name: string } | null };
  };
}

/** The most characters of a comment are 65,536. */
const COMMENT_CHARACTERS_MAX = 60_000;
/** The comments of a page, and the most pages that are searched. */
const PAGE = 100;
const PAGES_MAX = 50;

const secret = variable("GITHUB_WEBHOOK_SECRET");
const repository = variable("GITHUB_REPOSITORY");
const github = variable("GITHUB_URL", "https://api.github.com");
const githubToken = variable("GITHUB_TOKEN");
const drydock = new Drydock({ url: variable("DRYDOCK_URL"), token: variable("DRYDOCK_TOKEN") });
/** The runs whose end is waited for. */
const followed = new Set<number>();

async function answer(request: SignedRequest): Promise<BotAnswer> {
  const [scheme, signature = ""] = request.header("x-hub-signature-256").split("=");
  if (scheme !== "sha256" || !(await isSigned(secret, request.body, signature))) {
    return { status: 401 };
  }
  const delivery = request.header("x-github-delivery");
  if (request.header("content-type") !== "application/json" || delivery === "") {
    return { status: 400 };
  }
  const event = JSON.parse(new TextDecoder().decode(request.body)) as PullRequestEvent;
  if (request.header("x-github-event") !== "pull_request" || !isReviewed(event)) {
    return { status: 204 };
  }
  const { number, title, commits, head } = event.pull_request;
  const params = { number, title, commit: head.sha, commits };
  const run = await drydock.startRun({ pipeline: "review-pull-request", params }, delivery);
  if (!followed.has(run.id)) {
    followed.add(run.id);
    const work = comment(run.id, number).finally(() => followed.delete(run.id));
    afterwards(`run ${run.id}`, work);
  }
  return { status: 202 };
}

/** Returns true for a pull request whose commits are in the repository. */
function isReviewed({ action, repository: of, pull_request: pull }: PullRequestEvent): boolean {
  const isNew = action === "opened" || action === "synchronize";
  return isNew && of.full_name === repository && !pull.draft && pull.head.repo?.full_name === repository;
}

/** Comments with the result of a run, once. */
async function comment(run: number, pull: number): Promise<void> {
  const ended = await drydock.finished(run);
  const result = resultOf(ended);
  if (result === undefined) {
    console.log(`run ${run}: ${ended.status} without a result`);
    return;
  }
  // Nobody else can write this mark.
  const mark = `<!-- drydock-run:${run} ${await signed(secret, `run ${run}`)} -->`;
  if (await hasComment(pull, mark)) {
    console.log(`run ${run}: has its comment`);
    return;
  }
  const body = `${quiet(cut(result, COMMENT_CHARACTERS_MAX))}\n\n${mark}`;
  await call("POST", `/repos/${repository}/issues/${pull}/comments`, { body });
  console.log(`run ${run}: commented on ${repository}#${pull}`);
}

/** Returns a text of a model in which nobody is mentioned, nothing is referred to, and no mark is written. */
function quiet(text: string): string {
  return text.replaceAll(/[@#]/g, "$&\u200b").replaceAll("<", "&lt;");
}

async function hasComment(pull: number, mark: string): Promise<boolean> {
  for (let page = 1; page <= PAGES_MAX; page += 1) {
    const path = `/repos/${repository}/issues/${pull}/comments?per_page=${PAGE}&page=${page}`;
    const comments = (await call("GET", path)) as { body: string }[];
    if (comments.some(({ body }) => body.includes(mark))) {
      return true;
    }
    if (comments.length < PAGE) {
      return false;
    }
  }
  throw new Error(`${repository}#${pull} has too many comments`);
}

async function call(method: string, path: string, body?: object): Promise<unknown> {
  const headers: Record<string, string> = {
    accept: "application/vnd.github+json",
    authorization: `Bearer ${githubToken}`,
    "user-agent": "drydock-review-bot",
    "x-github-api-version": "2022-11-28",
  };
  const init: RequestInit = { method, headers, redirect: "error" };
  if (body !== undefined) {
    headers["content-type"] = "application/json";
    init.body = JSON.stringify(body);
  }
  const answered = await fetch(github + path, init);
  if (!answered.ok) {
    throw new Error(`GitHub answers ${answered.status} to ${method} ${path}`);
  }
  return answered.json();
}

listen(answer);
