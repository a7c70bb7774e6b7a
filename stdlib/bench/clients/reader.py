"""Reads streams as the Python benchmark tools do: KIND ADDRESS STREAMS ROUNDS."""
import asyncio, json, resource, sys, time

kind, address, streams, rounds = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
late = []


def body(i):
    return {"prompt": [i], "model": "sim", "max_tokens": rounds, "stream": True}


def take(now, line):
    if line.startswith("data: ") and not line.startswith("data: [DONE]"):
        event = json.loads(line[6:])
        if "t" in event:
            late.append(now - event["t"])


async def with_aiohttp():
    import aiohttp

    async def one(session, i):
        rest = ""
        # json.dumps without spaces, as the server looks for "prompt":[
        data = json.dumps(body(i), separators=(",", ":"))
        async with session.post(f"http://{address}/v1/completions", data=data, headers={"Content-Type": "application/json"}) as r:
            async for chunk in r.content.iter_any():
                now = time.time_ns()
                parts = (rest + chunk.decode()).split("\n\n")
                rest = parts.pop()
                for p in parts:
                    take(now, p)

    limit = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=limit, timeout=aiohttp.ClientTimeout(total=600)) as session:
        await asyncio.gather(*(one(session, i) for i in range(streams)))


async def with_httpx():
    import httpx

    async def one(client, i):
        data = json.dumps(body(i), separators=(",", ":"))
        async with client.stream("POST", f"http://{address}/v1/completions", content=data) as r:
            async for line in r.aiter_lines():
                take(time.time_ns(), line.strip())

    limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
    async with httpx.AsyncClient(limits=limits, timeout=600) as client:
        await asyncio.gather(*(one(client, i) for i in range(streams)))


if kind == "uvloop":
    import uvloop

    uvloop.install()
before = resource.getrusage(resource.RUSAGE_SELF)  # imports and start-up are not held against anybody
asyncio.run(with_httpx() if kind == "httpx" else with_aiohttp())
used = resource.getrusage(resource.RUSAGE_SELF)
late.sort()
print(json.dumps({"events": len(late), "cpu_s": used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime,
                  "p50_s": late[len(late) // 2] / 1e9, "p99_s": late[len(late) * 99 // 100] / 1e9}))
