"""Stream a run to a browser as server-sent events.

uvicorn --app-dir examples fastapi_sse:app        # then: curl -N -X POST localhost:8000/ask/ada
python examples/fastapi_sse.py                    # tries it without a server
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from fastapi import FastAPI, Request
from fastapi.responses import StreamingResponse
from fastapi.testclient import TestClient

from treadle import Agent, Runtime
from treadle.testing import ScriptedModel

agent = Agent(name="bookshop", model=ScriptedModel([{"text": "Yes, three copies."}]))


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncGenerator[None]:
    async with Runtime.open() as app.state.runtime:
        yield


app = FastAPI(lifespan=lifespan)


@app.post("/ask/{user}")
async def ask(user: str, request: Request, text: str = "Is it there?") -> StreamingResponse:
    run = request.app.state.runtime.stream(agent, text, session=user, user_id=user)
    return StreamingResponse(run.sse(), media_type="text/event-stream")


if __name__ == "__main__":
    with TestClient(app) as client:
        frames = client.post("/ask/ada").text
    print(frames.count("event: text_delta"), "text,", frames.count("event: run_end"), "end")
