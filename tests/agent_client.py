"""The official SDK's client, speaking to a real `slipway mcp` over standard input and output."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import anyio
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

Call = tuple[str, Mapping[str, Any]]


def ask(calls: Sequence[Call], folder: Path, environment: Mapping[str, str], mode: str = "auto") -> list[Any]:
    """The results of calls of tools, in one session."""

    async def session() -> list[Any]:
        parameters = StdioServerParameters(
            command=sys.executable, args=["-m", "launcher", "mcp"], cwd=folder, env=dict(environment)
        )
        async with Client(stdio_client(parameters), mode=mode) as client:
            return [await client.call_tool(name, dict(arguments)) for name, arguments in calls]

    return anyio.run(session)


def tools(folder: Path, environment: Mapping[str, str]) -> list[Any]:
    """The tools that a server offers."""

    async def session() -> list[Any]:
        parameters = StdioServerParameters(
            command=sys.executable, args=["-m", "launcher", "mcp"], cwd=folder, env=dict(environment)
        )
        async with Client(stdio_client(parameters)) as client:
            return list((await client.list_tools()).tools)

    return anyio.run(session)
