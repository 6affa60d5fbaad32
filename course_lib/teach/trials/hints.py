"""Requirements of the exercises with trials, and hints for frequent mistakes.

A key is the name of an assertion in `code/trials/` and the mistake that its measurement shows.
The mistake "" matches any. `shares.py` explains shares of ranks, and `torch_errors.py` explains
errors of torch.
"""

from __future__ import annotations

from collections.abc import Mapping

from course_lib.words import N_

Hints = Mapping[tuple[str, str], str]

SERIAL = N_("equal to the serial result on 1, 2, 3 and 4 ranks")
# In display order. Assertions that are not listed belong to the serial result.
REQUIREMENTS: dict[str, dict[str, str]] = {
    "ring": {
        "messages alone": N_("sends and receives did all the work"),
        "sent": N_("each rank sent 2 (n − 1) / n of the tensor: 1.5 times on 4 ranks"),
    },
    "ddp": {
        "sent once": N_("each gradient is sent once"),
        "nothing kept": N_("nothing of a step is kept for the next one"),
    },
    "buckets": {
        "sent once": N_("each gradient is sent once"),
        "nothing kept": N_("nothing of a step is kept for the next one"),
        "early": N_("the first bucket is sent while backward goes on"),
        "one thread": N_("one thread sends"),
        "overlap": N_("and backward does not wait for it"),
        "buckets": N_("several gradients share a bucket"),
    },
    "zero1": {
        "state": N_("each rank keeps optimizer state for its shard alone"),
        "alone": N_("the shard stands alone in memory"),
        "sent": N_("each rank was handed its own part of the gradients"),
    },
    "fsdp": {
        "alone": N_("the shard stands alone in memory"),
        "freed": N_("no more than two layers were whole at once, and nothing is held after a step"),
        "sent": N_("each rank was handed its own part of the gradients"),
    },
    "column": {
        "memory": N_("each rank keeps its slice alone"),
        "sent forward": N_("forward: nothing travels"),
        "sent backward": N_("backward: what travels is one sum"),
    },
    "row": {
        "memory": N_("each rank keeps its slice alone"),
        "sent forward": N_("forward: what travels is one sum"),
        "sent backward": N_("backward: nothing travels"),
    },
    "tokens": {
        "sent forward": N_("forward sends no more than one all-reduce"),
        "sent backward": N_("backward sends no more than one all-reduce"),
    },
    "context": {"sent": N_("keys and values travel, queries do not")},
    "packing": {"rows": N_("a document joins a row in which it fits")},
    "schedule": {},
}

BY_ZERO = N_(
    "dist.get_rank() is 0 on rank 0, and size - 1 is 0 on one rank. The number of ranks is "
    "dist.get_world_size()."
)
NO_PARAMETER = N_(
    "it is no torch.nn.Parameter that learns: parameters() lacks it, or it is frozen "
    "(requires_grad=False)."
)
FROM_THREADS = N_(
    "Calls come from several threads. Their order is chance: the first call of one rank meets the "
    "first of the others."
)
GATHERED_AGAIN = N_(
    "On {size} ranks each sent {sent:.3g} times all numbers, where a reduce-scatter and an "
    "all-gather send {needed:.3g}. all_reduce, or reduce and broadcast, leave whole gradients on "
    "every rank, where its own part would do: reduce_scatter adds up and deals out at once."
)
VIEW = N_(
    "the shard is a view into a longer row: it keeps the room of all others' numbers, or loses its "
    "own when the row is freed. A copy by .clone() stands alone."
)
OTHER_DIMENSION = N_(
    "it is cut along the other dimension. torch keeps weights as [outputs, inputs]: a "
    "column-parallel layer cuts dimension 0, a row-parallel one dimension 1."
)
BY_OWN_TOKENS = N_(
    "it comes from the own tokens of dy alone: backward of ScatterTokens gathers the rest."
)
ADDED_UP = N_(
    "the gradients of all slices were added up. Each slice belongs to one rank; there is "
    "nothing to sum."
)
PARTIAL = N_("it is this rank's partial sum: the all-reduce in forward is missing.")
TOKENS_SENT = N_(
    "On {size} ranks it sends {sent:.3g} times all tokens ({calls}); an all-gather and a "
    "reduce-scatter, half of an all-reduce each, are enough: {needed:.3g} times."
)
FROM_0 = N_(
    "the mask counts the queries of every rank from 0 (as triu does). Queries and keys "
    "have positions in the sequence, which are given."
)
NOT_GATHERED_AGAIN = N_(
    "the gradient is no weighted sum of the ranks'. Were the parameters gathered again "
    "before backward (resize_ brings no numbers), was p.grad = None set after each step, "
    "and is something written into shard.grad?"
)
# Hints that depend on the mistake alone.
GENERAL: dict[str, str] = {
    "none": N_("it is None. Is a return missing, or does nothing lead there for autograd?"),
    "no tensor": N_("it is {has}, and is to be a tensor."),
    "dtype": N_("it is {has}; what comes in is float64, and is to stay so: empty_like."),
    "shape": N_("it has shape {has}; {wanted} is wanted."),
    "not finite": N_("it has numbers that are infinite, or none (NaN). ") + BY_ZERO,
    "rounded": N_(
        "the numbers are right to {digits} digits: on their way they went through float32 or bf16. "
        "A buffer has the type of what it holds: torch.empty_like."
    ),
    "the last ones": N_(
        "only the last of {numbers} numbers are wrong: {size} ranks do not divide {numbers}. "
        "tensor_split(n) makes pieces that hold all; or fill the row up with zeros to a multiple "
        "(round up, not down), and leave them out afterwards."
    ),
    "added up": N_("the gradient of the step before is still in it."),
    "values": N_(
        "the numbers are no weighted sum of what the ranks have. Does rank r keep, send and take "
        "piece r, in one order everywhere? Print the shapes and a few numbers on each rank."
    ),
}
HINTS: dict[str, Hints] = {
    "ring": {
        ("messages alone", ""): N_(
            "It calls {collectives}. Only sends and receives are to do the work, written out; a "
            "ring needs no meeting of all."
        ),
        ("the sum", "own"): N_(
            "the tensor is what it was. Changing it in place means tensor += … or tensor.copy_(…); "
            "`tensor = …` gives another tensor the name, and what was summed in a copy has to be "
            "copied back."
        ),
        ("the sum", "values"): N_(
            "it holds no sum of the ranks' numbers at their places. Are there as many pieces as "
            "ranks (tensor_split(size)), and does a rank take in a step the piece that its "
            "neighbour sends in that step? The direction of the ring and the order of the pieces "
            "belong together."
        ),
        ("sent", ""): N_(
            "On {size} ranks they sent so many times the tensor: {by_rank}. A ring cuts the tensor "
            "into as many pieces as there are ranks and sends one a step, {wanted:g} times the "
            "tensor in all, the same on every rank; less is not enough without another way."
        ),
    },
    "ddp": {
        ("the weights", ""): N_(
            "{part} is not rank 0's. All ranks call the broadcast, with src=0, for the very "
            "tensors of model.state_dict(): parameters() lacks the buffers, and copies are not the "
            "model's."
        ),
        ("frozen", ""): N_("the frozen parameter got requires_grad=True. It is to stay frozen."),
        ("forward", ""): N_("own(x) gave no tensor but {has}: does forward end with `return …`?"),
        ("weights unchanged", ""): N_(
            "{part} changed between forward and the end of finish(). Weights are the optimizer's "
            "to change; finish() changes gradients."
        ),
        ("sent once", ""): N_(
            "All-reduces of a step sum {summed} numbers, and there are {numbers} gradients: they "
            "are sent more than once. Are hooks registered twice, or anew in each forward?"
        ),
        ("nothing kept", ""): N_(
            "After step 2 tensors have {more:.0f} numbers more than after step 1: what was sent is "
            "kept, and grows with every step. Is a list never emptied?"
        ),
    },
    "buckets": {
        ("early", ""): N_(
            "Of {calls} calls, with up to {numbers} numbers, none came before all {parameters} "
            "gradients were there. A hook by register_post_accumulate_grad_hook runs when a "
            "gradient is ready; a bucket goes as soon as it has 80 numbers (p.numel() counts)."
        ),
        ("the gradients", "own"): N_(
            "it is still this rank's own: the sum is in another tensor (a bucket that is not "
            "copied back into p.grad), or it was not sent: what is left is sent in finish()."
        ),
        ("one thread", ""): FROM_THREADS,
        ("overlap", ""): N_(
            "A sum was waited for when {after} of {parameters} gradients were there: backward "
            "stands still until it has gone. With async_op=True the call returns at once, with a "
            "work whose wait() finish() can call."
        ),
        ("buckets", ""): N_(
            "{calls} calls for {parameters} parameters. Every call costs its latency; a bucket "
            "collects several gradients."
        ),
    },
    "zero1": {
        ("stepped", ""): N_(
            "step() of the optimizer was not called here. Every rank makes the step for its own "
            "shard, with the optimizer of make_optimizer."
        ),
        ("the step", "zero"): N_(
            "the parameters have not changed. Is the shard whose .grad is set the very tensor that "
            "make_optimizer was given? After the step the shards are gathered, and the row is "
            "copied back into the parameters."
        ),
        ("the step", "by piece"): N_(
            "pieces of the row went different ways. Every rank updates its shard by the mean of "
            "all ranks' gradients for it; then the all-gather brings the shards of the others, and "
            "the result is written back."
        ),
        ("the step", "new state"): N_(
            "this step began with empty state, as if it were the first. Make the optimizer once, "
            "in __init__, and keep it."
        ),
        ("state", ""): N_(
            "On {size} ranks one keeps optimizer state for {state} of {numbers} numbers. The state "
            "is as large as what make_optimizer is given: give it the shard."
        ),
        ("alone", ""): VIEW,
        ("sent", ""): GATHERED_AGAIN,
    },
    "fsdp": {
        ("alone", ""): VIEW,
        ("the shard", "shape"): N_(
            "it has shape {has}, and is to have {wanted} numbers on every rank: those of the "
            "layer, with as few zeros behind them as make {size} equal pieces (round up)."
        ),
        ("the shard", ""): N_(
            "this is not the rank's own piece; rank {rank} keeps piece {rank} of all parameters, "
            "flattened in the order of layer.parameters()."
        ),
        ("the answer", ""): N_(
            "the parameters were not the layer's when it computed, or its result is not what "
            "forward returns. Taking the room back (resize_) brings no numbers; the all-gather "
            "does, from all ranks, before each use."
        ),
        ("the gradient", "none"): N_(
            "shard.grad is None after backward. The hook of each parameter runs when its gradient "
            "is there; with the last of them all can go. Was x detached?"
        ),
        ("the gradient", ""): NOT_GATHERED_AGAIN,
        ("freed", "wrapping"): N_(
            "after FSDP(layer) there are {more:.0f} numbers more than the shards have: a layer is "
            "still whole, or a copy of it."
        ),
        ("freed", ""): N_(
            "in {mistake} {more:.0f} numbers too many are held: while a layer computes, another "
            "one (of {layer} numbers) is whole, or kept as a copy. Gather just before, and free as "
            "soon as it has computed, or its gradients have gone; whole gradients go too, by "
            "p.grad = None."
        ),
        ("freed", "after"): N_(
            "after the step {more:.0f} numbers too many are held, in whole parameters or "
            "gradients. p.grad = None gives the room of whole gradients back; a shard.grad that is "
            "a view keeps its row, a copy by .clone() stands alone."
        ),
        ("sent", ""): GATHERED_AGAIN,
    },
    "column": {
        ("the weight learns", ""): NO_PARAMETER,
        ("the bias learns", ""): NO_PARAMETER,
        ("the weight", "whole"): N_("it is not cut: every rank holds the whole weight."),
        ("the weight", "other dimension"): OTHER_DIMENSION,
        ("the weight", "values"): N_(
            "a rank takes neighbours, not every {size}th row: chunk({size}, …)[rank]."
        ),
        ("the bias", "whole"): N_(
            "it is not cut. There is one number for each output, so each belongs to the rank that "
            "has the output."
        ),
        ("y", "gathered"): N_(
            "all outputs are here: they were gathered where nobody needs them. What follows works "
            "on the slice."
        ),
        ("y", "no bias"): N_("the bias is missing."),
        ("the gradient of x", "own"): N_(
            "it holds this rank's outputs alone: the all-reduce in backward is missing, or what it "
            "has summed up is not what is used (a copy, a call nobody waited for). Every output "
            "depends on all of x, so x gets a share of its gradient from each rank."
        ),
        ("unchanged", ""): N_(
            "the numbers are right, but backward changes in place what came to it. Others may need "
            "that as it was: let all_reduce change a copy, grad.clone()."
        ),
        ("memory", ""): N_(
            "The layer keeps {kept:.3g} times its slices in memory, its parameters {viewed:.3g} "
            "times. A slice that is a view keeps the whole; a copy, by .clone(), lets go of it."
        ),
        ("sent forward", ""): N_(
            "In forward it calls {calls}, and sends {sent:.3g} times the whole on {size} ranks. "
            "Column-parallel: nothing has to travel; row-parallel: one all-reduce is enough."
        ),
        ("sent backward", ""): N_(
            "In backward it calls {calls}, and sends {sent:.3g} times the whole on {size} ranks. "
            "Column-parallel: one all-reduce is enough; row-parallel: nothing has to travel."
        ),
    },
    "row": {
        ("the bias", "cut"): N_("it is cut. Every rank has all outputs, and each needs its bias."),
        ("the bias", "divided"): N_(
            "it is divided by the number of ranks. The sum comes out right, but each rank's share "
            "gets the whole gradient: a step of the optimizer moves it {size} times as far. Keep "
            "it whole, and add it after the sum."
        ),
        ("the bias", "zeros"): N_(
            "it is zero here. Each rank's zeros get the whole gradient as well: after a step of "
            "the optimizer the bias is in y {size} times. Add it after the sum, or hold it on one "
            "rank alone, and None on the others."
        ),
        ("y", "partial"): PARTIAL,
        ("y", "own"): PARTIAL,
        ("y", "bias everywhere"): N_(
            "the bias is in it {size} times: every rank added it before the sum. Add it afterwards."
        ),
        ("the gradient of x", "times"): N_(
            "a sum in backward that is not needed: dy is the same on every rank, so the gradient "
            "comes out {size} times too large. Each partial sum has the gradient of y itself."
        ),
        ("the gradient of the bias", "mean"): N_(
            "it is 1/{size} of the right one, and y is right: the bias was divided by the number "
            "of ranks and added before the sum. Add the whole bias after the sum."
        ),
    },
    "tokens": {
        ("y", "all tokens"): N_(
            "all tokens are here, and each rank is to have its own: a reduce-scatter in the place "
            "of the all-reduce."
        ),
        ("y", "own"): N_(
            "the tokens are the right ones, but only this rank's partial sum of them is here: "
            "cutting is not enough, the partial sums have to be added."
        ),
        ("the gradient of x", "own"): N_(
            "it holds this rank's share alone. Every rank used these tokens, so backward of "
            "GatherTokens adds up all shares: a reduce-scatter, not a cut."
        ),
        ("the gradient of a", "own"): BY_OWN_TOKENS,
        ("the gradient of a", "added up"): ADDED_UP,
        ("the gradient of b", "own"): BY_OWN_TOKENS,
        ("the gradient of b", "added up"): ADDED_UP,
        ("sent forward", ""): TOKENS_SENT,
        ("sent backward", ""): TOKENS_SENT,
    },
    "context": {
        ("y", "own keys"): N_(
            "each position looks at those of its own rank alone: keys and values of the others "
            "have to come."
        ),
        ("y", "no mask"): N_("positions look ahead: the causal mask is missing."),
        ("y", "inverted mask"): N_(
            "the mask is the wrong way round. Hidden is a key whose position is greater than that "
            "of the query."
        ),
        ("y", "not finite"): N_(
            "it has numbers that are none (NaN): some position sees no key at all, not even its "
            "own. Hidden is a key whose position is greater than that of the query."
        ),
        ("y", "in the order of ranks"): N_(
            "the gathered keys lie rank by rank, and the mask takes them for the sequence in its "
            "order. Gather their positions as well."
        ),
        ("y", "from 0"): FROM_0,
        ("y", "both from 0"): FROM_0,
        ("y", "exchanged"): N_("keys and values are exchanged."),
        ("the gradient of x", "own"): N_(
            "it comes from this rank's outputs alone. Other ranks looked at these keys and values: "
            "backward of the all-gather is a reduce-scatter."
        ),
        ("the gradient of x", "queries alone"): N_(
            "it comes by the queries alone: through the gathered keys and values nothing comes "
            "back. dist.all_gather is unknown to autograd."
        ),
        ("weights unchanged", ""): N_(
            "finish has changed a weight itself. It sums up parameter.grad."
        ),
        ("", "own"): N_(
            "it is this rank's own. All ranks hold these weights, and each has other positions, so "
            "their gradients need one more sum, and it has to reach parameter.grad, not a copy."
        ),
        ("sent", ""): N_(
            "Forward sends {sent:.3g} times what x has on all {size} ranks. Queries stay where "
            "they are: gather keys and values, and the positions they belong to."
        ),
    },
    "packing": {
        ("shapes", ""): N_("their shapes are {has}. Each is a tensor of [rows, length]."),
        ("whole documents", ""): N_("document {number} is not whole, in one row, with its owner."),
        ("positions", "on"): N_("they count on through the row. Each document begins at 0."),
        ("targets", "itself"): N_("a token is its own target. The target is the next token."),
        ("targets", "across"): N_("the last one crosses into what follows. It has to be -100."),
        ("padding", ""): N_("it has targets, so it counts in the loss. Give it -100."),
        ("rows", ""): N_("{has} rows, and {most} are enough. Fill a row before the next one."),
        ("the mask", "earlier"): N_("a query sees earlier documents. Compare owners as well."),
        ("the mask", "ahead"): N_("queries look ahead. The causal part of the mask is missing."),
        ("the mask", "inverted"): N_("it is inverted. True means that the query may look."),
        ("bools", ""): N_("the mask is a tensor of bools with [rows, queries, keys]."),
        ("the loss", "own targets"): N_("divide by the targets of all ranks, not of this rank."),
        ("the loss", "mean of ranks"): N_("it is a mean of the ranks' means. Targets count alike."),
        ("the loss", "rows"): N_("it is a mean over rows. Every target counts the same."),
        ("the loss", "sum"): N_("it is a sum. Divide it by the targets of all ranks."),
        ("the loss", "all places"): N_("it is divided by all places. Padding has no target."),
        ("the gradients", "not finite"): N_("a place that sees no key gives NaN, even padding."),
    },
    "schedule": {
        ("the gradient of the weight", "none"): N_("no micro-batch came back through this stage."),
        ("the gradient of the weight", ""): N_(
            "not every micro-batch has gone forward and backward once through this stage."
        ),
    },
}
HINTS["buckets"] = {**HINTS["ddp"], **HINTS["buckets"]}
HINTS["row"] = {**HINTS["column"], **HINTS["row"]}
HINTS["row"] = {
    key: one for key, one in HINTS["row"].items() if key != ("the gradient of x", "own")
}
