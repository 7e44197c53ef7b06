"""A proxy that holds every byte back for half a round trip on each way, and ends with whoever started it.

    python delay.py URL MILLISECONDS       prints its own URL
"""

import asyncio
import os
import sys

# Bytes at a time, and how many of them may be on their way: 64 MiB, so that the bandwidth is not bound by the delay.
PIECE_BYTES, PIECES_MAX = 256 << 10, 256

url, millis = sys.argv[1], float(sys.argv[2])
host, port = url.removeprefix("http://").split(":")
half = millis / 2_000


async def take(reader, pieces, loop):
    while piece := await reader.read(PIECE_BYTES):
        await pieces.put((loop.time() + half, piece))
    await pieces.put((loop.time() + half, b""))


async def give(writer, pieces, loop):
    while True:
        due, piece = await pieces.get()
        await asyncio.sleep(max(0.0, due - loop.time()))
        if not piece:
            writer.close()
            return
        writer.write(piece)
        await writer.drain()


async def serve(reader, writer):
    loop = asyncio.get_running_loop()
    # A connection takes a round trip too.
    await asyncio.sleep(2 * half)
    far_reader, far_writer = await asyncio.open_connection(host, int(port), limit=1 << 20)
    there, back = asyncio.Queue(PIECES_MAX), asyncio.Queue(PIECES_MAX)
    await asyncio.gather(
        take(reader, there, loop), give(far_writer, there, loop),
        take(far_reader, back, loop), give(writer, back, loop),
        return_exceptions=True,
    )


async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", 0, limit=1 << 20)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    parent = os.getppid()
    while os.getppid() == parent:
        await asyncio.sleep(1)


asyncio.run(main())
