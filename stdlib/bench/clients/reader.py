"""Reads streams as Python benchmark tools do: KIND ADDRESS STREAMS ROUNDS.

For each event the same is done as by this project's client, and no more: the
read is stamped, the event cut out, its JSON decoded, error, token, finish
reason and usage looked at, the token's time kept. Tools do more (keep the
text, make objects of events, wait for a connection pool).
"""
import asyncio, json, sys, time

kinds, address, streams, rounds = sys.argv[1].split("+"), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
loads = json.loads
if "orjson" in kinds:
    import orjson

    loads = orjson.loads


class Answer:
    __slots__ = ("marks", "late", "finish", "usage", "done", "error")

    def __init__(self):
        self.marks, self.late, self.finish, self.usage, self.done, self.error = [], [], None, None, False, None

    def take(self, now, message):
        """Takes one event, or one line of it, that was read at now."""
        if not message.startswith("data:"):
            return  # a comment, an empty line
        data = message[5:].strip()
        if data == "[DONE]":
            self.done = True
            return
        event = loads(data)
        if "error" in event:
            self.error = event["error"]
            return
        if choices := event.get("choices"):
            choice = choices[0]
            if choice.get("text"):
                self.marks.append(now)
                self.late.append(now - event["t"])
            if reason := choice.get("finish_reason"):
                self.finish = reason
        if usage := event.get("usage"):
            self.usage = usage

    def right(self):
        return (self.error is None and self.done and self.finish == "length" and len(self.marks) == rounds
                and self.usage is not None and self.usage["completion_tokens"] == rounds)


def body(i):
    # without spaces, as the server looks for "prompt":[
    return json.dumps({"prompt": [i], "model": "sim", "max_tokens": rounds, "stream": True}, separators=(",", ":"))


async def with_aiohttp():
    import aiohttp

    async def one(session, i):
        answer, rest = Answer(), ""
        async with session.post(f"http://{address}/v1/completions", data=body(i), headers={"Content-Type": "application/json"}) as r:
            async for chunk in r.content.iter_any():
                now = time.time_ns()
                parts = (rest + chunk.decode()).split("\n\n")
                rest = parts.pop()
                for p in parts:
                    answer.take(now, p)
        return answer

    limit = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=limit, timeout=aiohttp.ClientTimeout(total=600)) as session:
        return await asyncio.gather(*(one(session, i) for i in range(streams)))


async def with_httpx():
    import httpx

    async def one(client, i):
        answer = Answer()
        async with client.stream("POST", f"http://{address}/v1/completions", content=body(i)) as r:
            async for line in r.aiter_lines():
                answer.take(time.time_ns(), line)
        return answer

    limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
    async with httpx.AsyncClient(limits=limits, timeout=600) as client:
        return await asyncio.gather(*(one(client, i) for i in range(streams)))


if "uvloop" in kinds:
    import uvloop

    asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())
answers = asyncio.run(with_httpx() if "httpx" in kinds else with_aiohttp())
used = time.process_time()
if wrong := sum(not a.right() for a in answers):
    sys.exit(f"{wrong} of {streams} answers are not what was asked for")
late = sorted(t for a in answers for t in a.late)
print(json.dumps({"events": len(late), "cpu_s": used,
                  "p50_s": late[len(late) // 2] / 1e9, "p99_s": late[len(late) * 99 // 100] / 1e9}))
