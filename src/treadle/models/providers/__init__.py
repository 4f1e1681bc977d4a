"""The wires: one adapter for each provider, and the connections they speak over. Nothing is
imported until its model is used.

Contracts live in model.py, retries in retry.py. Entry: the module of the provider (`anthropic`).

    compatible_list.py  lists of models in OpenAI's form, and what compatible servers add
    connection.py       the seam between a wire and the network
    decoding.py         what every wire needs to make deltas of an answer
    effort.py           thinking, effort and temperature as one GPT model takes them, over either
    encoding.py         what every wire needs to make bytes of a request
    estimate.py         about how many tokens a request has, where nobody can be asked
    exchange.py         one question to a provider
    fallback.py         several models as one
    hosted.py           tools that a provider runs on its own servers
    http.py             our own connection, on aiohttp
    http_exchange.py    one question over aiohttp
    identity.py         who asks
    json_schema.py      JSON Schemas as OpenAI takes them
    known_models.py     what is known of models without asking anybody
    listing.py          the lists of their models that providers keep
    rate_limits.py      how much of an account's rate limits is left after a request, by its headers
    refusals.py         what a server says when it does not answer, in our error family
    schema_parts.py     what a JSON Schema holds, looked at on the way to what a provider takes
    scripted.py         A model that says what a script tells it, entry by entry
    sse.py              server-sent events out of bytes, however the bytes are cut
    structured.py       an answer that fits a schema, from a model that has no such thing of its own
    surrogates.py       halves of surrogate pairs, for which UTF-8 has no place
    tape.py             real traffic recorded once and replayed offline
    told_models.py      what providers told of their models when they were last asked, kept
    wires.py            which wire a provider speaks, by the type that the configuration gives
    anthropic/          claude, and whatever else speaks Anthropic's Messages API (model.py)
    gemini/             gemini over Google's API (model.py)
    openai_chat/        whatever speaks Chat Completions
    openai_responses/   openAI, and whatever else speaks its Responses API, without anything being
"""
