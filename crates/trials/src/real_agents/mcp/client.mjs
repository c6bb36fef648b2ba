// Drives the official TypeScript client of MCP: reads commands and writes events as JSON lines.
//
//   node client.mjs FOLDER LINE PROGRAM      FOLDER contains the package; LINE is `sdk` (version 1) or `client` (version 2)

import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';
import { join } from 'node:path';

const [folder, line, program] = process.argv.slice(2);
const load = createRequire(join(folder, 'package.json'));
const isFirst = line === 'sdk';
const { Client } = load(isFirst ? '@modelcontextprotocol/sdk/client/index.js' : '@modelcontextprotocol/client');
const { StdioClientTransport } = load(isFirst ? '@modelcontextprotocol/sdk/client/stdio.js' : '@modelcontextprotocol/client/stdio');

const send = (what) => process.stdout.write(`${JSON.stringify(what)}\n`);

let client;
let call;
let say = () => {};

async function open({ form, modern }) {
    const options = { capabilities: form ? { elicitation: {} } : {} };
    if (modern) options.versionNegotiation = { mode: { pin: modern } };
    client = new Client({ name: 'coven-trial', version: '1' }, options);
    if (form) {
        // Version 1 takes the schema, version 2 the name.
        const method = isFirst ? load('@modelcontextprotocol/sdk/types.js').ElicitRequestSchema : 'elicitation/create';
        client.setRequestHandler(method, (request, context) => shown(request.params, context));
    }
    // The environment is the client's default for servers.
    const transport = new StdioClientTransport({ command: program, args: ['mcp'], stderr: 'inherit' });
    let protocol;
    // Version 1 passes the protocol version only to the transport.
    if (isFirst) transport.setProtocolVersion = (version) => (protocol = version);
    await client.connect(transport);
    const { tools } = await client.listTools();
    protocol ??= client.getNegotiatedProtocolVersion();
    send({ opened: { protocol, tools: tools.map((tool) => tool.name) } });
}

// The form is open until it is answered or the server withdraws it.
function shown(params, context) {
    return new Promise((resolve) => {
        say = resolve;
        const signal = context?.signal ?? context?.mcpReq?.signal;
        signal?.addEventListener('abort', () => {
            send({ form_taken_back: true });
            resolve({ action: 'cancel' });
        });
        send({ form: params });
    });
}

async function ask({ name, arguments: given, timeout_ms: timeout, keep_alive: keepAlive }) {
    call = new AbortController();
    const options = { signal: call.signal, onprogress: (progress) => send({ progress }) };
    if (timeout) options.timeout = timeout;
    if (keepAlive) options.resetTimeoutOnProgress = true;
    const params = { name, arguments: given };
    try {
        const result = await (isFirst ? client.callTool(params, undefined, options) : client.callTool(params, options));
        send({ result: { is_error: result.isError ?? false, text: result.content?.[0]?.text, data: result.structuredContent } });
    } catch (error) {
        send({ error: String(error?.message ?? error) });
    }
}

const verbs = {
    open,
    // Not awaited: other commands may arrive during the call.
    call: (command) => void ask(command),
    cancel: () => call.abort('cancelled by the trial'),
    say: ({ said }) => say(said),
};

for await (const text of createInterface({ input: process.stdin })) {
    const command = JSON.parse(text);
    try {
        await verbs[command.do](command);
    } catch (error) {
        send({ error: String(error?.message ?? error) });
    }
}
await client?.close();
process.exit(0);
