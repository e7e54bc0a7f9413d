// Starts an emulator of another author on a free port of loopback: `node start.js NAME`. Prints its address as one
// line, and ends when its standard input does, so that it never outlives the test that started it. With `--probe`
// it only says whether the package is installed.
"use strict";

const starts = {
  // https://github.com/jehy/telegram-test-api
  "telegram-test-api": {
    package: "telegram-test-api",
    start: async (TelegramServer) => {
      const server = new TelegramServer({ host: "127.0.0.1", storeTimeout: 3600 });
      // Its constructor takes 0 for "not set".
      server.config.port = 0;
      await server.start();
      return `http://127.0.0.1:${server.server.address().port}`;
    },
  },
  // https://github.com/CopilotKit/aimock
  aimock: {
    package: "@copilotkit/aimock",
    // What no fixture answers is an error, and so is a request without the key.
    start: ({ LLMock }, key) =>
      new LLMock({ host: "127.0.0.1", port: 0, strict: true, auth: { apiKeys: [key] } }).start(),
  },
};

if (Number(process.versions.node.split(".")[0]) < 20) {
  throw new Error("node 20 or newer is needed");
}
const [name, argument] = process.argv.slice(2);
const emulator = starts[name];
const code = require(emulator.package);
if (argument !== "--probe") {
  process.stdin.resume();
  process.stdin.on("end", () => process.exit(0));
  emulator.start(code, argument).then((address) => console.log(address));
}
