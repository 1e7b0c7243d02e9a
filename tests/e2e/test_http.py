"""`mcplan run --listen` in front of real servers, as the official SDK's clients of both eras see it."""

import contextlib
import re
import subprocess
from collections.abc import AsyncIterator

import anyio
import mcp_types as types
import pytest
from mcp.client.client import Client as AnyEra
from mcp.client.session import ClientSession
from mcp.client.streamable_http import streamable_http_client

import programs
from client import DEADLINE, Client, Stderr, text_of

pytestmark = pytest.mark.anyio


@contextlib.asynccontextmanager
async def listening(installation) -> AsyncIterator[tuple[str, Stderr]]:
    """`mcplan run --listen`, and where it listens."""
    stderr = Stderr()
    arguments = [installation.binary, "run", "--listen", "127.0.0.1:0", "-c", str(installation.config)]
    with stderr.writer as errlog:
        process = subprocess.Popen(arguments, cwd=installation.directory, stdin=subprocess.DEVNULL, stderr=errlog)
    try:
        line = await stderr.wait_for(r"listening on http://\S+")
        yield re.search(r"http://\S+", line)[0], stderr
    finally:
        process.terminate()
        assert process.wait(DEADLINE) == 0, stderr.text


@contextlib.asynccontextmanager
async def session(url: str, stderr: Stderr) -> AsyncIterator[Client]:
    """A client with a session."""
    heard: list[Client] = []

    async def hear(message) -> None:
        for client in heard:
            await client.hear(message)

    async with streamable_http_client(url) as (reads, writes), ClientSession(reads, writes, message_handler=hear) as session:
        with anyio.fail_after(DEADLINE):
            client = Client(session, stderr, await session.initialize())
        heard.append(client)
        yield client


async def test_clients_with_a_session_find_call_and_hear_of_changes(installation, config) -> None:
    installation.write(config({"everything": programs.everything()}, defer=True))
    async with listening(installation) as (url, stderr), session(url, stderr) as one, session(url, stderr) as other:
        assert "mcp__everything__get-sum" not in await one.tools()
        since = one.mark()
        found = await one.call("search_mcp_tools", query="the sum of two numbers", limit=3)
        assert "mcp__everything__get-sum" in found.model_dump_json()
        await one.notification(types.ToolListChangedNotification, since)
        assert "mcp__everything__get-sum" in await one.tools()
        assert "mcp__everything__get-sum" not in await other.tools(), "what one session found is its own"
        assert "is 5" in await one.text("mcp__everything__get-sum", a=2, b=3)

        steps: list[float] = []

        async def progress(done: float, total: float | None, message: str | None) -> None:
            steps.append(done)

        name = "mcp__everything__trigger-long-running-operation"
        result = await other.call(name, progress=progress, duration=1, steps=4)
        assert not result.is_error, text_of(result)
        assert steps == sorted(steps) and steps[-1] == 4


async def test_a_client_without_a_session_needs_none(installation, config) -> None:
    installation.write(config({"everything": programs.everything()}, defer=False))
    async with listening(installation) as (url, _), AnyEra(url) as client:
        assert client.protocol_version == "2026-07-28"
        listed = await client.list_tools()
        assert "mcp__everything__echo" in [tool.name for tool in listed.tools]
        result = await client.call_tool("mcp__everything__echo", {"message": "hello"})
        assert text_of(result) == "Echo: hello"
