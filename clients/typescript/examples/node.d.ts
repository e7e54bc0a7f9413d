// The parts of Node that the examples use, so that they need no other package.

declare const process: {
  argv: string[];
  env: Record<string, string | undefined>;
  exitCode: number | undefined;
};

declare module "node:http" {
  export interface IncomingMessage extends AsyncIterable<Uint8Array> {
    readonly method?: string;
    readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  }

  export interface ServerResponse {
    writeHead(status: number, headers: Record<string, string>): void;
    end(body?: string): void;
  }

  export interface Server {
    address(): { port: number } | string | null;
    listen(port: number, host: string, listening: () => void): void;
  }

  export function createServer(
    answer: (request: IncomingMessage, response: ServerResponse) => void,
  ): Server;
}
