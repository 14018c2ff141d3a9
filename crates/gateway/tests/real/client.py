"""What users of the official client do, against the gateway in front of a real server.

    python client.py URL KEY

URL is that of a gateway with the models random-chat, random-embeddings and the alias chat, with one slot
for chats, and with the key LIMITED that may send one request per minute. Prints `passed`.
"""

import sys
import threading
import time

import openai

url, key, limited = sys.argv[1:]
client = openai.OpenAI(base_url=url, api_key=key, max_retries=0, timeout=60)
hello = [{"role": "user", "content": "Say hello"}]


def raises(kind, call):
    try:
        call()
    except kind as error:
        return error
    raise AssertionError(f"no {kind.__name__}")


assert {"random-chat", "random-embeddings", "chat"} <= {model.id for model in client.models.list()}
assert client.models.retrieve("chat").id == "chat"

answer = client.chat.completions.create(model="random-chat", messages=hello, max_tokens=8, seed=1)
assert answer.usage.completion_tokens == 8 and answer.choices[0].finish_reason == "length"

# A stream through an alias: without usage, as it was not asked for, and with it.
chunks = list(client.chat.completions.create(model="chat", messages=hello, max_tokens=8, stream=True))
assert chunks[-1].choices[0].finish_reason == "length" and not any(chunk.usage for chunk in chunks)
options = {"include_usage": True}
chunks = list(
    client.chat.completions.create(
        model="chat", messages=hello, max_tokens=8, stream=True, stream_options=options
    )
)
assert chunks[-1].usage.completion_tokens == 8

assert client.completions.create(model="random-chat", prompt="Once", max_tokens=5).usage.completion_tokens == 5
texts = list(client.completions.create(model="random-chat", prompt="Once", max_tokens=5, stream=True))
assert texts[-1].choices[0].finish_reason == "length"

vectors = client.embeddings.create(model="random-embeddings", input=["one", "two"]).data
assert len(vectors) == 2 and len(vectors[0].embedding) == 64

# Errors have the classes that programs catch.
error = raises(openai.NotFoundError, lambda: client.chat.completions.create(model="gone", messages=hello))
assert error.code == "model_not_found" and error.param == "model", error
stranger = openai.OpenAI(base_url=url, api_key="wrong", max_retries=0)
raises(openai.AuthenticationError, stranger.models.list)
error = raises(
    openai.BadRequestError,
    lambda: client.chat.completions.create(model="chat", messages=hello, extra_body={"n": "many"}),
)
rated = openai.OpenAI(base_url=url, api_key=limited, max_retries=0)
ask = lambda: rated.chat.completions.create(model="chat", messages=hello, max_tokens=1)
ask()
error = raises(openai.RateLimitError, ask)
assert int(error.response.headers["retry-after"]) > 1, error.response.headers

# The only slot is free again at once when a client leaves a long stream.
with client.chat.completions.create(
    model="chat", messages=hello, max_tokens=3000, stream=True, extra_body={"ignore_eos": True}
) as stream:
    for number, _ in enumerate(stream):
        if number == 3:
            break
start = time.monotonic()
client.chat.completions.create(model="chat", messages=hello, max_tokens=1)
assert time.monotonic() - start < 20

# Short requests overtake a long one that waits before them; none is lost.
order = []


def timed(name, tokens):
    extra = {"ignore_eos": True}
    client.chat.completions.create(model="chat", messages=hello, max_tokens=tokens, extra_body=extra)
    order.append(name)


threads = []
for name, tokens in [("first", 3000), ("long", 3000), ("short", 2), ("shorter", 1)]:
    threads.append(threading.Thread(target=timed, args=(name, tokens)))
    threads[-1].start()
    time.sleep(0.15)
for thread in threads:
    thread.join()
assert sorted(order) == ["first", "long", "short", "shorter"], order
# On a very fast machine the first one may be over before the others come.
print("order", *order)
print("passed")
