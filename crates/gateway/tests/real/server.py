"""A real server for the gateway's tests: llama.cpp's, from the package xllamacpp, with a tiny model of
random weights made by the package gguf.

    python server.py DIRECTORY chat|embeddings SLOTS

Prints `serving URL` and serves until its standard input ends.
"""

import pathlib
import sys

import gguf
import numpy
import xllamacpp

WIDTH, HEADS, LAYERS, INNER, CONTEXT = 64, 4, 2, 128, 4096


def write_model(path):
    """A Llama of random weights with the 256 bytes as its vocabulary. It speaks gibberish."""
    random = numpy.random.default_rng(1)
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    tokens = ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)]
    kinds = [gguf.TokenType.UNKNOWN, gguf.TokenType.CONTROL, gguf.TokenType.CONTROL]
    kinds += [gguf.TokenType.BYTE] * 256
    writer.add_tokenizer_model("llama")
    writer.add_token_list(tokens)
    writer.add_token_scores([0.0] * len(tokens))
    writer.add_token_types(kinds)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)

    def tensor(name, *shape):
        writer.add_tensor(name, random.normal(0, 0.1, shape).astype(numpy.float32))

    def ones(name):
        writer.add_tensor(name, numpy.ones(WIDTH, dtype=numpy.float32))

    tensor("token_embd.weight", len(tokens), WIDTH)
    ones("output_norm.weight")
    tensor("output.weight", len(tokens), WIDTH)
    for layer in range(LAYERS):
        ones(f"blk.{layer}.attn_norm.weight")
        ones(f"blk.{layer}.ffn_norm.weight")
        for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
            tensor(f"blk.{layer}.{name}.weight", WIDTH, WIDTH)
        tensor(f"blk.{layer}.ffn_gate.weight", INNER, WIDTH)
        tensor(f"blk.{layer}.ffn_up.weight", INNER, WIDTH)
        tensor(f"blk.{layer}.ffn_down.weight", WIDTH, INNER)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main():
    directory, purpose, slots = sys.argv[1:]
    model = pathlib.Path(directory) / f"{purpose}.gguf"
    write_model(model)
    params = xllamacpp.CommonParams()
    params.model.path = str(model)
    params.model_alias = {f"random-{purpose}"}
    params.n_ctx = CONTEXT
    params.n_parallel = int(slots)
    if purpose == "embeddings":
        params.embedding = True
        params.pooling_type = xllamacpp.llama_pooling_type.LLAMA_POOLING_TYPE_MEAN
    params.cpuparams.n_threads = 1
    params.cpuparams_batch.n_threads = 1
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.warmup = False
    server = xllamacpp.Server(params)
    print(f"serving {server.listening_address}/v1", flush=True)
    sys.stdin.read()


main()
