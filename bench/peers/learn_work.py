"""The work of `homeostat bench learn`, number for number.

Every value comes from one counter-based generator, so that each stack starts from
the same weights, sees the same batch, and must end with the same checksum.
"""

import time

import numpy as np

OBSERVATION, HIDDEN, CHOICES = 16, 64, 7
STEPS, EPOCHS = 200, 5
LEARNING_RATE, EPSILON = 3e-4, 1e-5
CLIP, ENTROPY, VALUE = 0.2, 0.01, 0.5

# A bidirectional GRU of two layers.
GRU_INPUTS, GRU_HIDDEN, GRU_STEPS, GRU_SEQUENCES = 16, 256, 100, 32


def uniform(stream, agent, count):
    """Numbers 0..count of one stream of one agent: uniform in [0, 1), 24 bits."""
    with np.errstate(over="ignore"):
        z = np.uint64((stream << 52) ^ (agent << 32)) ^ np.arange(count, dtype=np.uint64)
        z = z + np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z = z ^ (z >> np.uint64(31))
    return (z >> np.uint64(40)).astype(np.float32) / np.float32(16777216.0)


def symmetric(stream, agent, count):
    return uniform(stream, agent, count) * np.float32(2) - np.float32(1)


def weights(agent):
    """Actor then critic; each layer's matrix [inputs, outputs], then its bias."""
    shapes = [
        (inputs, outputs)
        for last in (CHOICES, 1)
        for inputs, outputs in ((OBSERVATION, HIDDEN), (HIDDEN, HIDDEN), (HIDDEN, last))
    ]
    numbers = symmetric(1, agent, sum(i * o + o for i, o in shapes))
    tensors, start = [], 0
    for inputs, outputs in shapes:
        fan = np.float32(1) / np.sqrt(np.float32(inputs))
        for shape in ((inputs, outputs), (outputs,)):
            count = int(np.prod(shape))
            tensors.append((numbers[start : start + count] * fan).reshape(shape))
            start += count
    return tensors


def batch(agent):
    return {
        "obs": symmetric(2, agent, STEPS * OBSERVATION).reshape(STEPS, OBSERVATION),
        "action": (uniform(3, agent, STEPS) * np.float32(CHOICES)).astype(np.int32),
        "log_prob": np.float32(-1.9459101) + np.float32(0.1) * symmetric(4, agent, STEPS),
        "advantage": symmetric(5, agent, STEPS),
        "target": symmetric(6, agent, STEPS),
    }


def gru_weights():
    """Both directions of both layers: matrices [inputs, 3 * hidden] of the input and of
    the hidden state, then their biases; gates in the order reset, update, candidate."""
    scale = np.float32(1) / np.sqrt(np.float32(GRU_HIDDEN))
    width = 3 * GRU_HIDDEN
    directions = []
    for direction in range(4):
        inputs = GRU_INPUTS if direction < 2 else 2 * GRU_HIDDEN
        shapes = [(inputs, width), (GRU_HIDDEN, width), (width,), (width,)]
        directions.append([
            (symmetric(10 + tensor, direction, int(np.prod(shape))) * scale).reshape(shape)
            for tensor, shape in enumerate(shapes)
        ])
    return directions


def gru_sequences():
    count = GRU_STEPS * GRU_SEQUENCES * GRU_INPUTS
    return symmetric(20, 0, count).reshape(GRU_STEPS, GRU_SEQUENCES, GRU_INPUTS)


def gru_checksums(loss, gradients):
    absolute = sum(float(np.abs(np.asarray(g, dtype=np.float64)).sum()) for g in gradients)
    return {"loss": float(loss), "gradient_abs": absolute}


def orders(minibatch):
    """Rows of every minibatch of every epoch; what fills no minibatch is left out."""
    rows = []
    for epoch in range(EPOCHS):
        order = ((1, 3, 7, 9, 11)[epoch] * np.arange(STEPS) + 17 * epoch) % STEPS
        rows.append(order[: STEPS // minibatch * minibatch].reshape(-1, minibatch))
    return np.concatenate(rows)


def checksums(tensors):
    arrays = [np.asarray(tensor, dtype=np.float64) for tensor in tensors]
    return {"sum": sum(float(a.sum()) for a in arrays), "abs": sum(float(np.abs(a).sum()) for a in arrays)}


def median_ms(call, repetitions):
    return median_and_fastest_ms(call, repetitions)[0]


def median_and_fastest_ms(call, repetitions):
    times = []
    for _ in range(repetitions):
        start = time.perf_counter()
        call()
        times.append((time.perf_counter() - start) * 1e3)
    return sorted(times)[len(times) // 2], min(times)
