"""A real server for bench/gpu/serving: Hugging Face's `transformers serve` with continuous batching and a
Llama of random weights. Weights do not matter for speed; they do for when an answer ends, so the length of
each answer is given.

    python random_model_server.py DIRECTORY LENGTHS.json PORT

LENGTHS.json maps the text of a prompt to the tokens of its answer.
"""

import functools
import json
import os
import pathlib
import sys

# The server lists the models of this folder and fails where there is none.
os.environ["HF_HUB_CACHE"] = str(pathlib.Path(sys.argv[1]).parent)

import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers.cli.serve import Serve
from transformers.cli.serving import chat_completion, utils

MODEL = {"hidden_size": 1024, "intermediate_size": 2816, "num_hidden_layers": 8, "num_attention_heads": 16,
         "num_key_value_heads": 16, "max_position_embeddings": 8192}  # fmt: skip
CHAT = "{% for message in messages %}{{ message['content'] }}\n{% endfor %}"


def write_model(directory):
    """Saves a model of random weights whose vocabulary is the 256 bytes and an end token."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {letter: place for place, letter in enumerate([*letters, "<end>"])}
    tokenizer = Tokenizer(models.BPE(vocabulary, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token="<end>", pad_token="<end>", chat_template=CHAT
    ).save_pretrained(directory)
    torch.manual_seed(1)
    config = transformers.LlamaConfig(vocab_size=len(vocabulary), eos_token_id=None, bos_token_id=None, **MODEL)
    model = transformers.LlamaForCausalLM(config).to(torch.bfloat16)
    model.generation_config = transformers.GenerationConfig(do_sample=False, eos_token_id=None, max_new_tokens=1024)
    model.save_pretrained(directory)


def give_lengths(lengths):
    """Ends the answer to each known prompt after its number of tokens, as if the model had stopped."""
    build = chat_completion.ChatCompletionHandler._build_generation_config
    generate = utils.CBGenerateManager.generate_non_streaming

    @functools.wraps(build)
    def build_with_length(self, body, *arguments, **keywords):
        config = build(self, body, *arguments, **keywords)
        config.max_new_tokens = lengths[body["messages"][-1]["content"]]
        # Random weights never end an answer on purpose.
        config.eos_token_id = None
        return config

    @functools.wraps(generate)
    async def generate_and_stop(self, model, processor, inputs, config, request_id):
        answer = await generate(self, model, processor, inputs, config, request_id=request_id)
        # The handler reports `length` where an answer reaches this limit.
        config.max_new_tokens += 1
        return answer

    chat_completion.ChatCompletionHandler._build_generation_config = build_with_length
    utils.CBGenerateManager.generate_non_streaming = generate_and_stop


def main():
    directory, lengths, port = pathlib.Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    if not (directory / "config.json").exists():
        write_model(directory)
    give_lengths(json.loads(pathlib.Path(lengths).read_text()))
    Serve(force_model=str(directory), continuous_batching=True, device="cuda", dtype="bfloat16",
          attn_implementation="sdpa", host="127.0.0.1", port=port)  # fmt: skip


main()
