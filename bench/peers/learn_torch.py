"""The work of `homeostat bench learn` on PyTorch: all agents stacked into batched
matrix products, the fastest way it has for many small networks, and its own GRU.
Prints JSON."""

import json
import sys

import numpy as np
import torch

import learn_work as work


def network(layers, x):
    hidden = torch.tanh(torch.baddbmm(layers[1][:, None], x, layers[0]))
    hidden = torch.tanh(torch.baddbmm(layers[3][:, None], hidden, layers[2]))
    return torch.baddbmm(layers[5][:, None], hidden, layers[4])


def loss(params, rows):
    advantage = rows["advantage"]
    advantage = (advantage - advantage.mean(1, keepdim=True)) / (advantage.std(1, keepdim=True) + 1e-8)
    log_probs = torch.log_softmax(network(params[:6], rows["obs"]), -1)
    log_prob = log_probs.gather(2, rows["action"].long()[:, :, None])[:, :, 0]
    ratio = (log_prob - rows["log_prob"]).exp()
    clipped = ratio.clamp(1 - work.CLIP, 1 + work.CLIP)
    policy = torch.maximum(-advantage * ratio, -advantage * clipped).mean(1)
    entropy = -(log_probs.exp() * log_probs).sum(-1).mean(1)
    value = ((network(params[6:], rows["obs"])[:, :, 0] - rows["target"]) ** 2).mean(1)
    # A sum over agents keeps their gradients apart.
    return (policy - work.ENTROPY * entropy + work.VALUE * value).sum()


def time_inference():
    layers = [torch.from_numpy(tensor) for tensor in work.weights(0)[:6]]
    obs = torch.from_numpy(work.batch(0)["obs"][:1])

    def infer():
        with torch.inference_mode():
            for _ in range(500):
                hidden = torch.tanh(torch.addmm(layers[1], obs, layers[0]))
                hidden = torch.tanh(torch.addmm(layers[3], hidden, layers[2]))
                torch.addmm(layers[5], hidden, layers[4])

    infer()
    return work.median_ms(infer, 9) * 1e3 / 500


def time_recurrent():
    gru = torch.nn.GRU(work.GRU_INPUTS, work.GRU_HIDDEN, num_layers=2, bidirectional=True)
    tensors = [tensor for direction in work.gru_weights() for tensor in direction]
    with torch.no_grad():
        for parameter, tensor in zip(gru.parameters(), tensors):
            parameter.copy_(torch.from_numpy(tensor.T.copy()))
    x = torch.from_numpy(work.gru_sequences())

    def run():
        gru.zero_grad()
        loss = (gru(x)[0] ** 2).mean()
        loss.backward()
        return loss

    checksums = work.gru_checksums(run().item(), [parameter.grad for parameter in gru.parameters()])
    return work.median_and_fastest_ms(run, 9), checksums


def main():
    sizes = [int(size) for size in sys.argv[1].split(",")]
    result = {"version": torch.__version__, "infer_us": time_inference(), "update_ms": {}, "checksum": {}}
    for minibatch in (5, 64):
        orders = [torch.from_numpy(order) for order in work.orders(minibatch)]
        timings = result["update_ms"][f"mb{minibatch}"] = {}
        for agents in sizes:
            stacked = [np.stack(tensors) for tensors in zip(*(work.weights(n) for n in range(agents)))]
            params = [torch.from_numpy(tensor).requires_grad_() for tensor in stacked]
            batches = [work.batch(n) for n in range(agents)]
            data = {key: torch.from_numpy(np.stack([one[key] for one in batches])) for key in batches[0]}
            adam = torch.optim.Adam(params, lr=work.LEARNING_RATE, eps=work.EPSILON, fused=True)

            def update():
                for order in orders:
                    adam.zero_grad(set_to_none=True)
                    loss(params, {key: value[:, order] for key, value in data.items()}).backward()
                    adam.step()

            update()
            result["checksum"][f"mb{minibatch}"] = work.checksums([tensor[0].detach().numpy() for tensor in params])
            timings[f"n{agents}"] = work.median_ms(update, 5 if agents < 1000 else 1)
    (result["recurrent_ms"], result["recurrent_fastest_ms"]), result["checksum"]["recurrent"] = time_recurrent()
    print(json.dumps(result))


main()
