"""What a server sends to one question; used to find out whether it is ready, and who leads."""

from __future__ import annotations

import asyncio


async def response(address: str, port: int, question: bytes, within_s: float) -> bytes:
    """All that it sends until it closes the connection; empty without a response in time."""
    try:
        async with asyncio.timeout(within_s):
            reader, writer = await asyncio.open_connection(address, port)
            try:
                writer.write(question)
                return await reader.read()
            finally:
                writer.close()
    except (OSError, TimeoutError):
        return b""
