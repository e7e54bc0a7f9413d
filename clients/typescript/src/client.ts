// A client of the HTTP API of a Drydock server. It needs `fetch` and nothing else, so it runs in Node 20 and in other
// runtimes. The types of requests and answers are generated from the description of the API (`schema.d.ts`).

import type { components, operations } from "./schema.js";

/** A run with the results of its steps. */
export type Run = components["schemas"]["Run"];
/** A step of a run. */
export type RunStep = components["schemas"]["RunStep"];
/** A part of the list of runs. */
export type RunList = components["schemas"]["RunList"];
/** A prepared change: the patch, the checks, and the differences of each file. */
export type Change = components["schemas"]["Change"];
/** The body of a request to start a run. */
export type StartRun = operations["startRun"]["requestBody"]["content"]["application/json"];
/** The runs to list. */
export type RunQuery = NonNullable<operations["listRuns"]["parameters"]["query"]>;

/** A problem of a field of a request, or of a parameter. */
export interface FieldProblem {
  field: string;
  problem: string;
}

/** Where the server is, and with which token it is asked. */
export interface DrydockOptions {
  /** The address of the server, such as `https://drydock.example.com`. */
  url: string;
  /** A token of `drydock token create`, with the scopes of the requests. */
  token: string;
  /** The function that sends requests; by default that of the runtime. */
  fetch?: typeof fetch;
}

/** The answer to a request that failed. */
export class DrydockError extends Error {
  /** The status of the answer. */
  readonly status: number;
  /** The word of the answer, such as `not found`. */
  readonly error: string;
  /** The problems of single fields. */
  readonly problems: readonly FieldProblem[];
  /** The seconds after which a repeat may succeed. */
  readonly retryAfter: number | undefined;

  constructor(status: number, body: Record<string, unknown>, retryAfter: number | undefined) {
    const error = typeof body["error"] === "string" ? body["error"] : "no answer of Drydock";
    const detail = typeof body["detail"] === "string" ? `: ${body["detail"]}` : "";
    super(`${status} ${error}${detail}`);
    this.name = "DrydockError";
    this.status = status;
    this.error = error;
    this.problems = Array.isArray(body["problems"]) ? (body["problems"] as FieldProblem[]) : [];
    this.retryAfter = retryAfter;
  }
}

/** The events of a run ended before the run did. */
export class EventsCutOff extends Error {
  constructor(id: number) {
    super(`the events of run ${id} ended before the run`);
    this.name = "EventsCutOff";
  }
}

/** The most attempts of `finished` without an event. */
const ATTEMPTS_MAX = 5;
/** The wait before another attempt, in milliseconds. */
const ATTEMPT_WAIT = 1_000;

/** A Drydock server. */
export class Drydock {
  readonly #url: string;
  readonly #token: string;
  readonly #fetch: typeof fetch;

  constructor(options: DrydockOptions) {
    this.#url = options.url.replace(/\/+$/, "");
    this.#token = options.token;
    this.#fetch = options.fetch ?? ((input, init) => fetch(input, init));
  }

  /** Starts a run. With a key, the same request starts one run, however often it is sent. */
  async startRun(request: StartRun, key?: string): Promise<Run> {
    return this.#json<Run>("POST", "/api/runs", { body: JSON.stringify(request), key });
  }

  /** Lists runs, the newest first. */
  async runs(query: RunQuery = {}): Promise<RunList> {
    const given = Object.entries(query).filter(([, value]) => value !== undefined);
    const words = new URLSearchParams(given.map(([name, value]) => [name, String(value)]));
    return this.#json<RunList>("GET", given.length === 0 ? "/api/runs" : `/api/runs?${words}`);
  }

  /** Returns a run. */
  async run(id: number): Promise<Run> {
    return this.#json<Run>("GET", `/api/runs/${id}`);
  }

  /** Cancels a run. */
  async cancelRun(id: number): Promise<Run> {
    return this.#json<Run>("POST", `/api/runs/${id}/cancel`);
  }

  /** Repeats a run from its first step that did not succeed. */
  async retryRun(id: number, key?: string): Promise<Run> {
    return this.#json<Run>("POST", `/api/runs/${id}/retry`, { key });
  }

  /** Returns a prepared change. */
  async change(number: number): Promise<Change> {
    return this.#json<Change>("GET", `/api/changes/${number}`);
  }

  /** Yields the state of a run at once and after each change, up to its end. Throws `EventsCutOff` if they end before. */
  async *watch(id: number, signal?: AbortSignal): AsyncGenerator<Run, void, undefined> {
    const answer = await this.#send("GET", `/api/runs/${id}/events`, { signal });
    if (answer.body === null) {
      throw new EventsCutOff(id);
    }
    for await (const event of events(answer.body)) {
      if (event.name === "end") {
        return;
      }
      if (event.name === "run") {
        yield JSON.parse(event.data) as Run;
      }
    }
    throw new EventsCutOff(id);
  }

  /** Waits for the end of a run and returns it. If the connection is lost, such as at a restart, it is watched again. */
  async finished(id: number, signal?: AbortSignal): Promise<Run> {
    for (let attempt = 1; ; attempt += 1) {
      let last: Run | undefined;
      try {
        for await (const run of this.watch(id, signal)) {
          last = run;
          attempt = 1;
        }
        return last ?? (await this.run(id));
      } catch (error) {
        const isRefused = error instanceof DrydockError && error.status < 500 && error.status !== 429;
        if (isRefused || signal?.aborted === true || attempt >= ATTEMPTS_MAX) {
          throw error;
        }
        await new Promise((resolve) => setTimeout(resolve, ATTEMPT_WAIT));
      }
    }
  }

  async #json<T>(method: string, path: string, more: RequestParts = {}): Promise<T> {
    const answer = await this.#send(method, path, more);
    return (await answer.json()) as T;
  }

  async #send(method: string, path: string, more: RequestParts): Promise<Response> {
    const headers: Record<string, string> = { authorization: `Bearer ${this.#token}` };
    if (more.key !== undefined) {
      headers["idempotency-key"] = more.key;
    }
    if (more.body !== undefined) {
      headers["content-type"] = "application/json";
    }
    const init: RequestInit = { method, headers, redirect: "error" };
    if (more.body !== undefined) {
      init.body = more.body;
    }
    if (more.signal !== undefined) {
      init.signal = more.signal;
    }
    const answer = await this.#fetch(this.#url + path, init);
    if (answer.ok) {
      return answer;
    }
    const retryAfter = Number(answer.headers.get("retry-after") ?? Number.NaN);
    const body: unknown = await answer.json().catch(() => ({}));
    const fields = typeof body === "object" && body !== null ? (body as Record<string, unknown>) : {};
    throw new DrydockError(answer.status, fields, Number.isNaN(retryAfter) ? undefined : retryAfter);
  }
}

interface RequestParts {
  body?: string | undefined;
  key?: string | undefined;
  signal?: AbortSignal | undefined;
}

interface ServerSentEvent {
  name: string;
  data: string;
}

/** Yields the server-sent events of a body. Comments are left out. */
async function* events(body: ReadableStream<Uint8Array>): AsyncGenerator<ServerSentEvent, void, undefined> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let text = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) {
        return;
      }
      text += decoder.decode(value, { stream: true });
      for (let end = text.indexOf("\n\n"); end >= 0; end = text.indexOf("\n\n")) {
        const event = parsed(text.slice(0, end));
        text = text.slice(end + 2);
        if (event !== undefined) {
          yield event;
        }
      }
    }
  } finally {
    await reader.cancel().catch(() => undefined);
  }
}

function parsed(block: string): ServerSentEvent | undefined {
  const data: string[] = [];
  let name = "message";
  for (const line of block.split("\n")) {
    const [field, ...rest] = line.split(":");
    const value = rest.join(":").replace(/^ /, "");
    if (field === "event") {
      name = value;
    } else if (field === "data") {
      data.push(value);
    }
  }
  return data.length === 0 ? undefined : { name, data: data.join("\n") };
}
