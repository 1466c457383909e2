import asyncio, os, ssl, sys, aiohttp

async def main():
    trust = ssl.create_default_context(cafile=os.environ["CA"])
    places = asyncio.Semaphore(8)
    async with aiohttp.ClientSession(trust_env=True) as session:
        async def get(url):
            async with places, session.get(url, ssl=trust) as answer:
                await answer.read()
                print(answer.status, url)
        await asyncio.gather(*map(get, sys.argv[1:]))

asyncio.run(main())
