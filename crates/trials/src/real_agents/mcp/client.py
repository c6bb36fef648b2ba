"""Drives the official Python client of MCP: reads commands and writes events as JSON lines.

    python client.py PROGRAM
"""

import json
import sys
from contextlib import AsyncExitStack

import anyio
from anyio.to_thread import run_sync
from mcp import Client, StdioServerParameters
from mcp_types import ElicitResult


def send(what):
    print(json.dumps(what), flush=True)


class Driver:
    def __init__(self, program, tasks, stack):
        self.program = program
        self.tasks = tasks
        self.stack = stack
        self.client = None
        self.scope = anyio.CancelScope()
        # One form at a time.
        self.said = None
        self.has_said = anyio.Event()

    async def open(self, command):
        # The environment is the client's default for servers.
        server = StdioServerParameters(command=self.program, args=["mcp"])
        mode = command.get("modern") or "legacy"
        client = Client(server, mode=mode, elicitation_callback=self.shown if command.get("form") else None)
        self.client = await self.stack.enter_async_context(client)
        tools = (await self.client.list_tools()).tools
        send({"opened": {"protocol": self.client.protocol_version, "tools": [tool.name for tool in tools]}})

    async def shown(self, _context, params):
        """Keeps the form open until it is answered or the server withdraws it."""
        send({"form": params.model_dump(mode="json", by_alias=True)})
        try:
            await self.has_said.wait()
        except anyio.get_cancelled_exc_class():
            send({"form_taken_back": True})
            raise
        return ElicitResult(**self.said)

    async def call(self, command):
        # Not awaited: other commands may arrive during the call.
        self.tasks.start_soon(self.ask, command)

    async def ask(self, command):
        async def progressed(progress, _total, message):
            send({"progress": {"progress": progress, "message": message}})

        timeout = command.get("timeout_ms")
        with anyio.CancelScope() as self.scope:
            try:
                result = await self.client.call_tool(
                    command["name"],
                    command["arguments"],
                    read_timeout_seconds=timeout / 1000 if timeout else None,
                    progress_callback=progressed,
                )
                text = result.content[0].text if result.content else None
                send({"result": {"is_error": result.is_error, "text": text, "data": result.structured_content}})
            except Exception as error:
                send({"error": str(error)})
        if self.scope.cancelled_caught:
            send({"error": "cancelled"})

    async def cancel(self, _command):
        self.scope.cancel()

    async def say(self, command):
        self.said = command["said"]
        self.has_said.set()


async def main():
    async with anyio.create_task_group() as tasks, AsyncExitStack() as stack:
        driver = Driver(sys.argv[1], tasks, stack)
        while line := await run_sync(sys.stdin.readline, abandon_on_cancel=True):
            command = json.loads(line)
            try:
                await getattr(driver, command["do"])(command)
            except Exception as error:
                send({"error": str(error)})
        driver.scope.cancel()


anyio.run(main)
