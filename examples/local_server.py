"""Use a model on your own machine, behind Ollama or any server with Chat Completions.

python examples/local_server.py                          # prints what it would ask
MODEL=ollama:qwen3-8b python examples/local_server.py
"""

import os

import treadle
from treadle import Agent, Runtime
from treadle.config import Config, Provider

config = Config(
    providers={"office": Provider(type="openai-chat", base_url="http://10.0.0.5:8000/v1")}
)
agent = Agent(name="local", model=os.environ.get("MODEL", "office:qwen3-32b"))
runtime = Runtime.open(config=config)  # for `await runtime.run(agent, …)`
if os.environ.get("MODEL"):
    print(treadle.run_sync(agent, "Say hello.").unwrap())
else:
    print(agent.model, "at", config.providers["office"].base_url)
