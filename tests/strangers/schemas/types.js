// Checks recorded requests with the types of other authors: Slack's own (@slack/web-api, @slack/types) and those of
// discord-api-types, with TypeScript, and Discord's components with @discordjs/builders. Usage: `node types.js NAME`.
// It reads and answers lines as checker.py describes, and ends with its input. With `--probe` it only says whether the
// packages are installed.
"use strict";

const fs = require("node:fs");
const path = require("node:path");
const readline = require("node:readline");
const ts = require("typescript");

const packages = path.dirname(path.dirname(require.resolve("typescript/package.json")));
const [name, argument] = process.argv.slice(2);

// Method and argument -> the reason why an unknown argument is accepted. The other arguments are checked.
const preview = "Slack documents it for new messages only and ignores it elsewhere; whatever it makes of it, no preview is shown";
const exceptions = {
  slack: {
    "chat.update.unfurl_links": preview,
    "chat.update.unfurl_media": preview,
    "chat.postEphemeral.unfurl_links": preview,
    "chat.postEphemeral.unfurl_media": preview,
  },
  discord: {},
};
const used = new Set();

// The limits that the descriptions of fields state.
const LIMITS = [
  { words: /(\d+)-(\d+) characters?\b/, least: 1, most: 2 },
  { words: /\b(?:up to|max(?:imum)?(?: of)?) (\d+)/i, most: 1 },
];

const languages = { slack: slackSource, discord: discordSource };

// Slack: a call of the client. A form has texts only, which `fieldsOf` has read as what they stand for.
function slackSource(request) {
  const [, place, method] = request.path.split("/");
  if (place !== "api") {
    return { place, source: [], values: [] };
  }
  const { blocks, view, ...fields } = fieldsOf(request);
  for (const excepted of Object.keys(fields).filter((field) => `${method}.${field}` in exceptions.slack)) {
    used.add(`${method}.${excepted}`);
    delete fields[excepted];
  }
  const source = [];
  // A union with any block would accept every block, so the known ones are checked alone.
  const inChunks = (fields.chunks ?? []).flatMap((chunk) => chunk.blocks ?? []);
  for (const block of [...(blocks ?? []), ...(view?.blocks ?? []), ...inChunks]) {
    source.push(`expect<KnownBlock>(${literal(block)});`);
  }
  const argument = literal({ ...fields, ...(blocks && { blocks: [] }), ...(view && { view: { ...view, blocks: [] } }) });
  source.push(`client.${method}(${argument});`);
  return { place: method, source };
}

// Discord: the types of a body, by route. The library makes the routes from ids.
function discordRoutes() {
  const { Routes } = require("discord-api-types/v10");
  const id = "[^/]+";
  const routes = [
    ["GET", Routes.gatewayBot(), null],
    ["GET", Routes.user(), null],
    ["GET", Routes.userGuilds(), "RESTGetAPICurrentUserGuildsQuery"],
    ["GET", Routes.guildChannels(id), null],
    ["GET", Routes.guildActiveThreads(id), null],
    ["GET", Routes.currentApplication(), null],
    ["GET", Routes.channel(id), null],
    ["POST", Routes.userChannels(), "RESTPostAPICurrentUserCreateDMChannelJSONBody"],
    ["GET", Routes.channelMessages(id), "RESTGetAPIChannelMessagesQuery"],
    ["POST", Routes.channelMessages(id), "RESTPostAPIChannelMessageJSONBody"],
    ["PATCH", Routes.channelMessage(id, id), "RESTPatchAPIChannelMessageJSONBody"],
    ["DELETE", Routes.channelMessage(id, id), null],
    ["POST", Routes.threads(id, id), "RESTPostAPIChannelMessagesThreadsJSONBody"],
    ["PUT", Routes.channelMessageOwnReaction(id, id, id), null],
    ["DELETE", Routes.channelMessageOwnReaction(id, id, id), null],
    ["GET", Routes.applicationCommands(id), null],
    ["POST", Routes.applicationCommands(id), "RESTPostAPIApplicationCommandsJSONBody"],
    ["PUT", Routes.applicationCommands(id), "RESTPutAPIApplicationCommandsJSONBody"],
    ["POST", Routes.interactionCallback(id, id), "RESTPostAPIInteractionCallbackJSONBody"],
    ["POST", Routes.webhook(id, id), "RESTPostAPIInteractionFollowupJSONBody"],
    ["GET", Routes.webhookMessage(id, id), null],
    ["PATCH", Routes.webhookMessage(id, id), "RESTPatchAPIInteractionFollowupJSONBody"],
    ["DELETE", Routes.webhookMessage(id, id), null],
  ];
  return routes.map(([method, route, type]) => {
    const pattern = decodeURIComponent(route).replaceAll(id, id);
    return { method, route: new RegExp(`^/api/v10${pattern}$`), type };
  });
}

let routes;
function discordSource(request) {
  const place = `${request.method} ${request.path.replace(/\/\d+/g, "/ID")}`;
  if (request.method === "FRAME") {
    return { place: "gateway", source: [`expect<GatewaySendPayload>(${literal(JSON.parse(request.body))});`] };
  }
  if (request.method === "ANSWER") {
    const source = [`expect<APIInteractionResponse>(${literal(JSON.parse(request.body))});`];
    return { place: "answer to an interaction", source };
  }
  // The contents of files have no body.
  if (request.path.startsWith("/attachments/")) {
    return { place, source: [] };
  }
  routes ??= discordRoutes();
  const route = routes.find((one) => one.method === request.method && one.route.test(request.path));
  if (route === undefined) {
    return { place, source: [], problems: [`${place}: unknown route`] };
  }
  const fields = fieldsOf(request);
  if (route.type === null) {
    const problems = Object.keys(fields).map((field) => `${place}: a body with ${field}`);
    return { place, source: [], problems };
  }
  return { place, source: [`expect<${route.type}>(${literal(fields)});`], problems: builtProblems(fields, place) };
}

// The limits of components, as the builders of discord.js validate them.
function builtProblems(fields, place) {
  const builders = require("@discordjs/builders");
  const { ComponentType } = require("discord-api-types/v10");
  const kinds = {
    [ComponentType.ActionRow]: builders.ActionRowBuilder,
    [ComponentType.Button]: builders.ButtonBuilder,
    [ComponentType.TextInput]: builders.TextInputBuilder,
  };
  const found = [];
  const all = fields.components ?? fields.data?.components ?? [];
  for (const component of all.flatMap((row) => [row, ...(row.components ?? []), ...(row.component ? [row.component] : [])])) {
    const kind = kinds[component.type];
    try {
      if (kind !== undefined) {
        rebuilt(kind, component);
      }
    } catch (error) {
      found.push(`${place} component ${component.type}: ${error.message}`);
    }
  }
  if (all.length > 5) {
    found.push(`${place}: ${all.length} rows`);
  }
  for (const row of all.filter((row) => (row.components ?? []).length > 5)) {
    found.push(`${place}: ${row.components.length} buttons in a row`);
  }
  return found;
}

// A builder validates what its setters are given.
function rebuilt(kind, component) {
  const builder = new kind();
  const setters = { custom_id: "setCustomId", label: "setLabel", placeholder: "setPlaceholder", value: "setValue", min_length: "setMinLength", max_length: "setMaxLength", style: "setStyle" };
  for (const [field, setter] of Object.entries(setters)) {
    if (component[field] !== undefined && typeof builder[setter] === "function") {
      builder[setter](component[field]);
    }
  }
}

// The fields of a body or, without one, of the query.
function fieldsOf(request) {
  const { type, body, query } = request;
  if (type.startsWith("multipart/")) {
    const boundary = /boundary="?([^";]+)/.exec(type)[1];
    const part = body.split(`--${boundary}`).find((one) => /name="payload_json"/.test(one));
    return JSON.parse(part.slice(part.indexOf("\r\n\r\n") + 4));
  }
  if (body && type.startsWith("application/json")) {
    return JSON.parse(body);
  }
  // Numbers with more digits are ids, which are texts.
  const form = new URLSearchParams(body || query);
  const isJson = (text) => /^(-?\d{1,10}|true|false|[[{].*)$/s.test(text);
  return Object.fromEntries([...form].map(([key, text]) => [key, isJson(text) ? JSON.parse(text) : text]));
}

// A literal of TypeScript. Sums of flags are numbers of no single name.
function literal(value, key = "") {
  if (Array.isArray(value)) {
    return `[${value.map((item) => literal(item)).join(", ")}]`;
  }
  if (value !== null && typeof value === "object") {
    return `{${Object.entries(value).map(([name, item]) => `${JSON.stringify(name)}: ${literal(item, name)}`).join(", ")}}`;
  }
  return typeof value === "number" && ["flags", "intents"].includes(key) ? `(${value} as number)` : JSON.stringify(value);
}

const heads = {
  slack: `import { WebClient } from "@slack/web-api";\nimport type { KnownBlock } from "@slack/types";\ndeclare const client: WebClient;\n`,
  discord: `import type * as api from "discord-api-types/v10";\n`,
};

// The host of a program with one file that changes.
const file = path.join(packages, "..", `recorded-${name}.ts`);
let [version, text] = [0, ""];
const options = {
  strict: true,
  noEmit: true,
  skipLibCheck: true,
  target: ts.ScriptTarget.ES2022,
  module: ts.ModuleKind.Node16,
  moduleResolution: ts.ModuleResolutionKind.Node16,
  types: [],
};
const service = ts.createLanguageService({
  getScriptFileNames: () => [file],
  getScriptVersion: (one) => (one === file ? String(version) : "0"),
  getScriptSnapshot: (one) => {
    const content = one === file ? text : fs.existsSync(one) ? fs.readFileSync(one, "utf8") : undefined;
    return content === undefined ? undefined : ts.ScriptSnapshot.fromString(content);
  },
  getCurrentDirectory: () => path.dirname(file),
  getCompilationSettings: () => options,
  getDefaultLibFileName: (one) => ts.getDefaultLibFilePath(one),
  fileExists: (one) => one === file || ts.sys.fileExists(one),
  readFile: ts.sys.readFile,
  readDirectory: ts.sys.readDirectory,
  directoryExists: ts.sys.directoryExists,
  getDirectories: ts.sys.getDirectories,
});

// The forms of accepted lines: without ids and, for texts that are no words of a type, with their lengths, as far as
// these count.
const accepted = new Set();
function formOf(line) {
  const length = name === "discord" ? (text) => text.length : () => 0;
  return line.replace(/"((?:[^"\\]|\\.)*)"/g, (all, text) => (/^[\w.:-]{0,40}$/.test(text) ? all.replace(/\d{3,}/g, "0") : `"${length(text)}"`));
}

// Each request is in a line of its own, so that a problem names it.
function problemsOf(requests) {
  const found = [];
  const lines = [];
  for (const request of requests) {
    const { place, source, problems } = languages[name](request);
    found.push(...(problems ?? []).map((problem) => ({ problem, request })));
    for (const line of source.filter((one) => !accepted.has(formOf(one)))) {
      lines.push({ place, request, line: line.replace("expect<", name === "discord" ? "expect<api." : "expect<"), form: formOf(line) });
    }
  }
  if (lines.length === 0) {
    return found;
  }
  const head = `${heads[name]}declare function expect<T>(value: T): void;\n`;
  const first = head.split("\n").length - 1;
  text = head + lines.map((one) => one.line).join("\n");
  version += 1;
  const program = service.getProgram();
  const source = program.getSourceFile(file);
  const problems = [...program.getSyntacticDiagnostics(source), ...program.getSemanticDiagnostics(source)];
  const add = (position, words) => {
    const one = lines[source.getLineAndCharacterOfPosition(position).line - first];
    found.push({ problem: `${one?.place ?? name}: ${words}`, request: one?.request });
  };
  for (const one of problems) {
    add(one.start, ts.flattenDiagnosticMessageText(one.messageText, " "));
  }
  beyondLimits(source, program.getTypeChecker(), add);
  const wrong = new Set(found.map((one) => one.request));
  lines.filter((one) => !wrong.has(one.request)).forEach((one) => accepted.add(one.form));
  return found;
}

// Compares texts and lists with the limits that the descriptions of their fields state.
function beyondLimits(source, checker, add) {
  const visit = (node) => {
    if (ts.isPropertyAssignment(node) && (ts.isStringLiteral(node.initializer) || ts.isArrayLiteralExpression(node.initializer))) {
      const size = ts.isStringLiteral(node.initializer) ? [...node.initializer.text].length : node.initializer.elements.length;
      const field = checker.getContextualType(node.parent)?.getProperty(node.name.text);
      const words = ts.displayPartsToString(field?.getDocumentationComment(checker) ?? []);
      const limit = LIMITS.map(({ words: pattern, least, most }) => ({ least, most, match: pattern.exec(words) })).find((one) => one.match);
      if (limit) {
        const [least, most] = [Number(limit.match[limit.least] ?? 0), Number(limit.match[limit.most])];
        if (size < least || size > most) {
          add(node.getStart(), `${node.name.text}: ${size}, allowed are ${least} to ${most}`);
        }
      }
    }
    ts.forEachChild(node, visit);
  };
  visit(source);
}

function answer(line) {
  const asked = JSON.parse(line);
  if (asked === "unused") {
    return Object.keys(exceptions[name]).filter((excepted) => !used.has(excepted));
  }
  return problemsOf(asked).map(({ problem, request }) => `${problem} in ${(request?.body ?? "").slice(0, 2000)}`);
}

if (argument === "--probe") {
  for (const one of ["@slack/web-api", "discord-api-types/v10", "@discordjs/builders"]) {
    require(one);
  }
} else {
  readline.createInterface({ input: process.stdin }).on("line", (line) => console.log(JSON.stringify(answer(line))));
}
