# The defaults, but for the timeout in HTTPX_TIMEOUT, in seconds.
import asyncio, os, sys, httpx

timeout = {"timeout": float(os.environ["HTTPX_TIMEOUT"])} if "HTTPX_TIMEOUT" in os.environ else {}

async def main():
    places = asyncio.Semaphore(8)
    async with httpx.AsyncClient(**timeout) as client:
        async def get(url):
            async with places:
                try:
                    print((await client.get(url)).status_code, url)
                except httpx.HTTPError as error:
                    print(type(error).__name__, url)
        await asyncio.gather(*map(get, sys.argv[1:]))

asyncio.run(main())
