"""The official SDK's client, speaking to a real `slipway mcp` over standard input and output.

The SDK is imported by its first use: it takes a second of every worker that only collects the tests.
"""

import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio

Call = tuple[str, Mapping[str, Any]]


def ask(calls: Sequence[Call], folder: Path, environment: Mapping[str, str], mode: str = "auto") -> list[Any]:
    """The results of calls of tools, in one session."""

    async def session() -> list[Any]:
        async with _client(folder, environment, mode) as client:
            return [await client.call_tool(name, dict(arguments)) for name, arguments in calls]

    return anyio.run(session)


def tools_and_results(
    calls: Sequence[Call], folder: Path, environment: Mapping[str, str]
) -> tuple[list[Any], list[Any]]:
    """The tools that a server offers, and the results of calls, in one session."""

    async def session() -> tuple[list[Any], list[Any]]:
        async with _client(folder, environment, "auto") as client:
            tools = list((await client.list_tools()).tools)
            return tools, [await client.call_tool(name, dict(arguments)) for name, arguments in calls]

    return anyio.run(session)


@asynccontextmanager
async def _client(folder: Path, environment: Mapping[str, str], mode: str) -> AsyncIterator[Any]:
    """A session with a new server."""
    from mcp.client.client import Client
    from mcp.client.stdio import StdioServerParameters, stdio_client

    parameters = StdioServerParameters(
        command=sys.executable, args=["-m", "launcher", "mcp"], cwd=folder, env=dict(environment)
    )
    async with Client(stdio_client(parameters), mode=mode) as client:
        yield client
