"""Requests at half price: those of many runs go to the provider together, over its batch API.

A wire is not changed for this. Its model gets a `BatchConnection`, which answers a request from a
batch instead of sending it. Entry points: `RequestBatch`, `BatchConnection`, `batch_api`.

    api.py            what a batch API does, and the APIs by provider type
    anthropic.py      Message Batches
    connection.py     the connection of a run whose requests go out in batches
    gemini.py         batchGenerateContent
    openai.py         OpenAI's Batch API, and Groq's
    policy.py         times of a batch
    request_batch.py  the runs of a batch, and the requests that they make
    vendor_batch.py   one batch at the provider: gathering, submission, polling, results
"""
