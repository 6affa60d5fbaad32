"""FLOPs of an iteration, for the TFLOP/s of a log line."""

from __future__ import annotations

import argparse

from training.router import has_experts


def flops_per_iteration(args: argparse.Namespace) -> float:
    """Return the model FLOPs of the matmuls: 2 per weight and token in forward, 4 in backward.

    They are 72 B s l h² (1 + s / 6h + V / 12lh) for a GPT-2 with an MLP of 4h. Grouped-query
    attention has narrower keys and values, SwiGLU a third matrix; a token passes through the router
    and its chosen experts. Recomputation does not count.

    Attention counts in *full*, all s × s products, as in most papers, older Megatrons and the
    course's planner. Today's Megatron counts the *causal* half that the mask leaves: s / 12h."""
    hidden, length = args.hidden_size, args.seq_length
    keys = hidden * args.num_query_groups // args.num_attention_heads  # and as many values
    attention = hidden * (hidden + 2 * keys) + hidden**2
    mlp = (3 if args.swiglu else 2) * hidden * args.ffn_hidden_size
    layers = args.num_layers * (attention + mlp + 2 * hidden * length)
    if mixed := sum(has_experts(args, number) for number in range(args.num_layers)):
        passed = args.moe_router_topk * args.moe_ffn_hidden_size
        passed += args.moe_shared_expert_intermediate_size or 0
        experts = (3 if args.swiglu else 2) * hidden * passed + hidden * args.num_experts
        layers += mixed * (experts - mlp)
    weights = layers + args.padded_vocab_size * hidden
    return 6.0 * weights * args.global_batch_size * length
