"""The work of `homeostat bench learn` on JAX: the whole update is one compiled
scan, agents are spread over the cores by pmap and run one after the other by
lax.map, which is faster on a CPU than vmap. The recurrent network is two scans for each
layer, compiled with its gradient. Prints JSON."""

import json
import os
import sys

CORES = os.cpu_count() or 1
os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={CORES}"

import jax
import jax.numpy as jnp
import numpy as np

import learn_work as work


def network(layers, x):
    hidden = jnp.tanh(x @ layers[0] + layers[1])
    hidden = jnp.tanh(hidden @ layers[2] + layers[3])
    return hidden @ layers[4] + layers[5]


def loss(params, rows):
    advantage = rows["advantage"]
    advantage = (advantage - advantage.mean()) / (jnp.std(advantage, ddof=1) + 1e-8)
    log_probs = jax.nn.log_softmax(network(params[:6], rows["obs"]))
    log_prob = jnp.take_along_axis(log_probs, rows["action"][:, None], 1)[:, 0]
    ratio = jnp.exp(log_prob - rows["log_prob"])
    clipped = jnp.clip(ratio, 1 - work.CLIP, 1 + work.CLIP)
    policy = jnp.maximum(-advantage * ratio, -advantage * clipped).mean()
    entropy = -(jnp.exp(log_probs) * log_probs).sum(-1).mean()
    value = ((network(params[6:], rows["obs"])[:, 0] - rows["target"]) ** 2).mean()
    return policy - work.ENTROPY * entropy + work.VALUE * value


def make_update(minibatch):
    orders = jnp.asarray(work.orders(minibatch))

    def update(state, data):
        def step(state, order):
            params, mean, square, count = state
            grads = jax.grad(loss)(params, {key: value[order] for key, value in data.items()})
            count = count + 1
            mean = [0.9 * m + 0.1 * g for m, g in zip(mean, grads)]
            square = [0.999 * v + 0.001 * g * g for v, g in zip(square, grads)]
            first, second = 1 - 0.9**count, 1 - 0.999**count
            params = [
                p - work.LEARNING_RATE * (m / first) / (jnp.sqrt(v / second) + work.EPSILON)
                for p, m, v in zip(params, mean, square)
            ]
            return (params, mean, square, count), None

        return jax.lax.scan(step, state, orders)[0]

    return update


def fleet(agents):
    """Weights, moments and batches of all agents, stacked."""
    params = [np.stack(tensors) for tensors in zip(*(work.weights(n) for n in range(agents)))]
    zeros = [np.zeros_like(tensor) for tensor in params]
    batches = [work.batch(n) for n in range(agents)]
    data = {key: np.stack([one[key] for one in batches]) for key in batches[0]}
    return (params, zeros, zeros, np.zeros(agents, np.float32)), data


def time_inference():
    params = [jnp.asarray(tensor) for tensor in work.weights(0)[:6]]
    obs = jnp.asarray(work.batch(0)["obs"][:1])
    infer = jax.jit(network)
    infer(params, obs).block_until_ready()
    calls = 300
    return work.median_ms(lambda: [infer(params, obs).block_until_ready() for _ in range(calls)], 9) * 1e3 / calls


def direction(weights, x, reverse):
    of_input, of_hidden, input_bias, hidden_bias = weights
    size = work.GRU_HIDDEN

    def step(h, sums):
        hidden = h @ of_hidden + hidden_bias
        reset = jax.nn.sigmoid(sums[:, :size] + hidden[:, :size])
        update = jax.nn.sigmoid(sums[:, size : 2 * size] + hidden[:, size : 2 * size])
        candidate = jnp.tanh(sums[:, 2 * size :] + reset * hidden[:, 2 * size :])
        h = candidate + update * (h - candidate)
        return h, h

    initial = jnp.zeros((work.GRU_SEQUENCES, size))
    return jax.lax.scan(step, initial, x @ of_input + input_bias, reverse=reverse)[1]


def time_recurrent():
    directions = jax.tree.map(jnp.asarray, work.gru_weights())
    x = jnp.asarray(work.gru_sequences())

    def loss(directions):
        rows = x
        for layer in range(2):
            both = [direction(directions[2 * layer + d], rows, d == 1) for d in range(2)]
            rows = jnp.concatenate(both, -1)
        return (rows**2).mean()

    run = jax.jit(jax.value_and_grad(loss))
    value, gradients = run(directions)
    checksums = work.gru_checksums(value, jax.tree.leaves(gradients))
    return work.median_and_fastest_ms(lambda: jax.block_until_ready(run(directions)), 9), checksums


def main():
    sizes = [int(size) for size in sys.argv[1].split(",")]
    result = {"version": jax.__version__, "infer_us": time_inference(), "update_ms": {}, "checksum": {}}
    for minibatch in (5, 64):
        update = make_update(minibatch)
        timings = result["update_ms"][f"mb{minibatch}"] = {}
        for agents in sizes:
            # All cores share the fleet; a few more agents make the shares equal.
            devices = min(CORES, agents)
            each = -(-agents // devices)
            state, data = fleet(devices * each)
            split = lambda a: a.reshape((devices, each) + a.shape[1:])
            state, data = jax.tree.map(split, (state, data))
            run = jax.pmap(lambda s, d: jax.lax.map(lambda pair: update(*pair), (s, d)), devices=jax.devices()[:devices])
            place = jax.pmap(lambda a: a, devices=jax.devices()[:devices])
            state, data = place((state, data))
            done = jax.block_until_ready(run(state, data))
            result["checksum"][f"mb{minibatch}"] = work.checksums([tensor[0, 0] for tensor in done[0]])
            call = lambda: jax.block_until_ready(run(state, data))
            timings[f"n{agents}"] = work.median_ms(call, 5 if agents < 1000 else 3)
    (result["recurrent_ms"], result["recurrent_fastest_ms"]), result["checksum"]["recurrent"] = time_recurrent()
    print(json.dumps(result))


main()
