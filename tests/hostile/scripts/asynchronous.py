# Runs an event loop that a signal handler of its own ends.
import asyncio
import os
import signal


async def main():
    done = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, done.set)
    os.kill(os.getpid(), signal.SIGTERM)
    await asyncio.wait_for(done.wait(), 5)
    print("ended in good order")


asyncio.run(main())
