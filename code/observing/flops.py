"""How much arithmetic an iteration is: what TFLOP/s in a line are counted from."""

from __future__ import annotations

import argparse


def flops_per_iteration(args: argparse.Namespace) -> float:
    """Model FLOPs of the matrix products: 2 per weight and token forward, twice that backward.

    72 B s l h² (1 + s / 12h + V / 12lh) for a GPT-2 with an MLP of 4h; grouped-query attention has
    narrower keys and values, SwiGLU a third matrix. Recomputation is not counted.

    There are two counts of attention. This is Megatron's of today, the *causal* one: a token looks
    back only, on average at half of the sequence, and kernels skip the other half. The *full* one,
    of most papers and of older Megatrons, has s / 6h instead.
    """
    hidden, length = args.hidden_size, args.seq_length
    keys = hidden * args.num_query_groups // args.num_attention_heads  # and as many values
    attention = hidden * (hidden + 2 * keys) + hidden**2
    mlp = (3 if args.swiglu else 2) * hidden * args.ffn_hidden_size
    seen = length / 2  # positions that a token looks at, on average
    per_layer = attention + mlp + 2 * hidden * seen
    weights = args.num_layers * per_layer + args.padded_vocab_size * hidden
    return 6.0 * weights * args.global_batch_size * length
