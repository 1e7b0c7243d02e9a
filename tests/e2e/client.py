"""A client at the other end of a server's stdin and stdout: the official Python SDK, plus waiting with a deadline.

Nothing here sleeps. Whatever a test waits for is a notification, a line on stderr or the end of a process.
"""

import contextlib
import os
import re
import select
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import anyio
import anyio.to_thread
import mcp_types as types
from mcp.client.session import ClientSession
from mcp.client.stdio import StdioServerParameters, stdio_client

# Seconds until something that must happen counts as not happening. Generous: a busy machine is no failure.
DEADLINE = 60.0


class Stderr:
    """The lines that a process writes to stderr, as they come."""

    def __init__(self) -> None:
        reader, writer = os.pipe()
        self.writer = os.fdopen(writer, "w")
        self._lines: list[str] = []
        self._ended = False
        self._news = threading.Condition()
        self._thread = threading.Thread(target=self._read, args=(os.fdopen(reader, errors="replace"),), daemon=True)
        self._thread.start()

    def _read(self, pipe) -> None:
        with pipe:
            for line in pipe:
                with self._news:
                    self._lines.append(line.rstrip("\n"))
                    self._news.notify_all()
        with self._news:
            self._ended = True
            self._news.notify_all()

    @property
    def text(self) -> str:
        with self._news:
            return "\n".join(self._lines)

    def mark(self) -> int:
        """The place that a later `wait_for` should look from."""
        with self._news:
            return len(self._lines)

    async def wait_for(self, pattern: str, since: int = 0) -> str:
        """The first line from `since` on that holds the pattern."""

        def wait() -> str | None:
            def found() -> str | None:
                return next((line for line in self._lines[since:] if re.search(pattern, line)), None)

            with self._news:
                self._news.wait_for(lambda: found() is not None or self._ended, timeout=DEADLINE)
                return found()

        line = await anyio.to_thread.run_sync(wait)
        assert line is not None, f"no line with {pattern!r} on stderr:\n{self.text}"
        return line


class Client:
    """An initialised session and what came beside its answers."""

    def __init__(self, session: ClientSession, stderr: Stderr, initialized: types.InitializeResult) -> None:
        self.session = session
        self.stderr = stderr
        self.initialized = initialized
        self._heard: list[types.ServerNotification] = []
        self._news = anyio.Condition()

    async def hear(self, message) -> None:
        if isinstance(message, Exception):
            raise message
        async with self._news:
            self._heard.append(message)
            self._news.notify_all()

    def mark(self) -> int:
        """The place that a later `notification` should look from."""
        return len(self._heard)

    async def notification(self, kind: type, since: int = 0):
        """The first notification of this type from `since` on."""
        with anyio.fail_after(DEADLINE):
            async with self._news:
                while True:
                    for message in self._heard[since:]:
                        if isinstance(message, kind):
                            return message
                    await self._news.wait()

    async def tools(self) -> dict[str, types.Tool]:
        """Every page of tools/list, by name."""
        found: dict[str, types.Tool] = {}
        cursor = None
        while True:
            params = types.PaginatedRequestParams(cursor=cursor) if cursor is not None else None
            page = await self.session.list_tools(params=params)
            for tool in page.tools:
                assert tool.name not in found, f"{tool.name} is listed twice"
                found[tool.name] = tool
            cursor = page.next_cursor
            if cursor is None:
                return found

    async def tools_when(self, holds: Callable[[dict[str, types.Tool]], bool], since: int = 0) -> dict[str, types.Tool]:
        """The list of tools, read again after each tools/list_changed from `since` on until it is as wanted."""
        with anyio.fail_after(DEADLINE):
            while True:
                tools = await self.tools()
                if holds(tools):
                    return tools
                await self.notification(types.ToolListChangedNotification, since)
                since = self.mark()

    async def call(self, tool: str, /, progress=None, **arguments) -> types.CallToolResult:
        """A call that may take no longer than the deadline."""
        return await self.session.call_tool(tool, arguments, read_timeout_seconds=DEADLINE, progress_callback=progress)

    async def text(self, tool: str, /, **arguments) -> str:
        """All text of a call that must work."""
        result = await self.call(tool, **arguments)
        assert not result.is_error, f"{tool}: {text_of(result)}"
        return text_of(result)


def text_of(result: types.CallToolResult) -> str:
    """All text of a result."""
    return "\n".join(block.text for block in result.content if isinstance(block, types.TextContent))


@contextlib.asynccontextmanager
async def connect(
    command: str, args: list[str], *, cwd: Path | None = None, env: dict[str, str] | None = None
) -> AsyncIterator[Client]:
    """Starts a server, initialises a session with it, and ends both."""
    stderr = Stderr()
    parameters = StdioServerParameters(command=command, args=args, cwd=cwd, env=env)
    client: Client | None = None
    early: list = []

    async def hear(message) -> None:
        if client is None:
            early.append(message)
        else:
            await client.hear(message)

    try:
        with stderr.writer as errlog:
            async with stdio_client(parameters, errlog=errlog) as (reads, writes):
                # The child has its own copy; with ours closed the pipe ends when the child does.
                errlog.close()
                async with ClientSession(reads, writes, message_handler=hear) as session:
                    with anyio.fail_after(DEADLINE):
                        initialized = await session.initialize()
                    client = Client(session, stderr, initialized)
                    for message in early:
                        await client.hear(message)
                    yield client
    except BaseException as error:
        print(stderr.text)  # pytest shows it with the failure
        # The SDK's task groups wrap what the test raised, and pytest knows only its own exceptions as failures.
        raise the_only(error) from None


def the_only(error: BaseException) -> BaseException:
    """The one exception inside groups of one."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


def descendants(pid: int) -> dict[int, str]:
    """The processes below `pid`, each with its command line."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                # The name in parentheses may hold anything, so count from its end.
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
    below: dict[int, str] = {}
    edge = {pid}
    while edge:
        edge = {child for child, parent in parents.items() if parent in edge}
        for child in edge:
            with contextlib.suppress(OSError):
                below[child] = Path(f"/proc/{child}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    return below


class Watched:
    """A process that somebody else started, held so that its number can't be given to another."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._descriptor = os.pidfd_open(pid)

    def ended(self, seconds: float) -> bool:
        """Waits until it has ended, at most so long."""
        return bool(select.select([self._descriptor], [], [], seconds)[0])

    def close(self) -> None:
        os.close(self._descriptor)
