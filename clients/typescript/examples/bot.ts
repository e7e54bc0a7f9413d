// The parts that both bots have: a server for signed requests, and the check of a signature.

import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { DrydockError, type Run } from "../src/client.js";

/** A request with its raw body, over which it is signed. */
export interface SignedRequest {
  /** Returns a header, or an empty text. */
  header(name: string): string;
  body: Uint8Array<ArrayBuffer>;
}

/** An answer. The body is sent as JSON. */
export interface BotAnswer {
  status: number;
  body?: object;
}

/** The most bytes of a request. GitHub sends at most 25 MB; an event about a pull request is far smaller. */
const BODY_BYTES_MAX = 4 << 20;

const encoder = new TextEncoder();

/** Returns a variable of the environment. */
export function variable(name: string, otherwise?: string): string {
  const value = process.env[name] ?? otherwise;
  if (value === undefined || value === "") {
    throw new Error(`set the variable ${name}`);
  }
  return value;
}

/** Returns the bytes of a text. */
export function bytesOf(text: string): Uint8Array<ArrayBuffer> {
  return encoder.encode(text);
}

async function keyOf(secret: string, use: "sign" | "verify"): Promise<CryptoKey> {
  const algorithm = { name: "HMAC", hash: "SHA-256" };
  return crypto.subtle.importKey("raw", bytesOf(secret), algorithm, false, [use]);
}

/** Returns true if a signature in hex digits is the HMAC-SHA256 of a message. The time it takes tells nothing. */
export async function isSigned(
  secret: string,
  message: Uint8Array<ArrayBuffer>,
  signature: string,
): Promise<boolean> {
  if (!/^[0-9a-f]{64}$/.test(signature)) {
    return false;
  }
  const bytes = Uint8Array.from({ length: 32 }, (_, index) =>
    Number.parseInt(signature.slice(2 * index, 2 * index + 2), 16),
  );
  return crypto.subtle.verify("HMAC", await keyOf(secret, "verify"), bytes, message);
}

/** Returns the HMAC-SHA256 of a text in hex digits. */
export async function signed(secret: string, text: string): Promise<string> {
  const bytes = await crypto.subtle.sign("HMAC", await keyOf(secret, "sign"), bytesOf(text));
  return Array.from(new Uint8Array(bytes), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Returns the text of the last agent step with one; undefined if none has. */
export function resultOf(run: Run): string | undefined {
  return run.steps.filter((step) => step.kind === "agent" && step.text !== "").at(-1)?.text;
}

/** Returns a text of at most so many characters. */
export function cut(text: string, charactersMax: number): string {
  const characters = Array.from(text);
  return characters.length <= charactersMax
    ? text
    : `${characters.slice(0, charactersMax).join("")}\n\nThe text is cut here.`;
}

/** Does work after the answer to a request. A failure is a line for the operator. */
export function afterwards(what: string, work: Promise<void>): void {
  work.catch((error: unknown) => console.error(`${what}: ${reasonOf(error)}`));
}

/** Returns the reason of a failure. */
export function reasonOf(error: unknown): string {
  const problems = error instanceof DrydockError ? error.problems : [];
  const reasons = problems.map(({ field, problem }) => `${field}: ${problem}`);
  return [error instanceof Error ? error.message : String(error), ...reasons].join("; ");
}

/** Answers requests at the address of the variable LISTEN. */
export function listen(answer: (request: SignedRequest) => Promise<BotAnswer>): void {
  const [host = "", port = ""] = variable("LISTEN", "127.0.0.1:8080").split(":");
  const server = createServer((request, response) => {
    received(request)
      .then((whole) => (whole === undefined ? { status: 413 } : answer(whole)))
      .catch((error: unknown) => {
        console.error(reasonOf(error));
        // The sender may send it again.
        return { status: 503 };
      })
      .then((answered) => send(response, answered));
  });
  server.listen(Number(port), host, () => {
    const address = server.address();
    const bound = typeof address === "object" && address !== null ? address.port : port;
    console.log(`listening on http://${host}:${bound}`);
  });
}

/** Reads a request. Undefined if it is too large. */
async function received(request: IncomingMessage): Promise<SignedRequest | undefined> {
  const parts: Uint8Array[] = [];
  let length = 0;
  for await (const part of request) {
    length += part.length;
    if (length > BODY_BYTES_MAX) {
      return undefined;
    }
    parts.push(part);
  }
  const body = new Uint8Array(length);
  let at = 0;
  for (const part of parts) {
    body.set(part, at);
    at += part.length;
  }
  const header = (name: string): string => {
    const value = request.headers[name];
    return typeof value === "string" ? value : "";
  };
  return { header, body };
}

function send(response: ServerResponse, { status, body }: BotAnswer): void {
  if (body === undefined) {
    response.writeHead(status, {});
    response.end();
    return;
  }
  response.writeHead(status, { "content-type": "application/json" });
  response.end(JSON.stringify(body));
}
