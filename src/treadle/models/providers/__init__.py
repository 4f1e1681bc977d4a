"""Provider adapters ("wires") and the connections they use. An adapter is imported when its model
is first used.

model.py defines the contract and retry.py retries. Entry points: the module of each provider, like
`anthropic`.

    bedrock.py          Amazon Bedrock, over two of the wires
    compatible_list.py  model lists in OpenAI's form, with the extensions of compatible servers
    connection.py       the interface between a wire and the network
    decoding.py         shared decoding of responses into deltas
    documents.py        requests that are answered with one JSON document
    effort.py           thinking, effort and temperature of GPT models, for both OpenAI wires
    encoding.py         shared encoding of requests
    error_bodies.py     bodies of error responses
    estimate.py         token estimate for a request, without a call to a provider
    exchange.py         one request to a provider
    fallback.py         a chain of models used as one
    hosted.py           tools that a provider runs on its own servers
    http.py             our own connection, over asyncio and httptools
    http_pool.py        connections of one event loop
    http_dialing.py     opening a connection: TCP, TLS, proxies
    http_protocol.py    one connection: parsing, limits, flow control
    http_exchange.py    one request and its response
    images.py           limits on the images and documents of one request
    identity.py         the credentials of a request
    access_tokens.py    tokens that a function of the program supplies
    json_schema.py      JSON Schemas in the subset that OpenAI accepts
    known_models.py     bundled data about models
    listing.py          reading the model lists of providers
    rate_limits.py      remaining rate limits, from response headers
    real_requests.py    refusal of requests to providers, for tests
    refusals.py         error responses of servers as `AgentError`s
    schema_parts.py     helpers for translating JSON Schemas
    run_headers.py      headers of one run, for one provider
    scripted.py         a model that replays a script, entry by entry
    sse.py              a parser of server-sent events
    structured.py       structured output for models without native support
    surrogates.py       repair of lone surrogates, which UTF-8 cannot encode
    tape.py             recording and replay of model traffic
    told_models.py      a cache of model data reported by providers
    vertex.py           Vertex AI, over three of the wires
    wires.py            lookup of a wire by provider type
    batching/           requests of many runs over a provider's batch API
    anthropic/          Anthropic's Messages API, and compatible servers
    gemini/             Google's Gemini API
    openai_chat/        the Chat Completions API and its many implementations
    openai_responses/   OpenAI's Responses API, used without stored state, and compatible servers
"""
