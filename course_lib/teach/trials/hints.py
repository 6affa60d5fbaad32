"""Requirements of the exercises with trials, and hints for their mistakes.

A key is the name of an assertion in `code/trials/` and the mistake that its measurement shows.
The mistake "" matches any. The first sentence of a hint names the mistake, the rest a cure.
Mistakes in the exchange between ranks have a hint each. Mistakes in a serial formula share one,
which states the formula or shows the right intermediate values.
"""

from __future__ import annotations

from collections.abc import Mapping

from course_lib.words import N_

Hints = Mapping[tuple[str, str], str]

SERIAL = N_("equal to the serial result on 1, 2, 3 and 4 ranks")
SENT_ONCE: dict[str, str] = {
    "sent once": N_("each gradient is sent once"),
    "nothing kept": N_("nothing of a step is kept for the next step"),
}
OWN_PART: dict[str, str] = {
    "alone": N_("the shard has its own memory"),
    "sent": N_("each rank was handed its own part of the gradients"),
}
# In display order. Assertions that are not listed belong to "", by default the serial result.
REQUIREMENTS: dict[str, dict[str, str]] = {
    "ring": {
        "messages alone": N_("the work was done by sends and receives only"),
        "sent": N_("each rank sent 2 (n − 1) / n of the tensor: 1.5 times on 4 ranks"),
    },
    "reduce-scatter": {
        "": N_("each rank has the sum of its piece, on nodes of all sizes"),
        "messages alone": N_("the work was done by sends and receives only"),
        "budget": N_("each piece leaves a node once, as the sum over its ranks"),
    },
    "ddp": SENT_ONCE,
    "buckets": {
        **SENT_ONCE,
        "early": N_("the first bucket is sent while backward goes on"),
        "one thread": N_("one thread sends"),
        "overlap": N_("backward does not wait for the first bucket"),
        "buckets": N_("several gradients share a bucket"),
    },
    "zero1": {**OWN_PART, "state": N_("each rank keeps optimizer state only for its shard")},
    "fsdp": {
        **OWN_PART,
        "freed": N_("no whole layer is held after forward, or after a step"),
    },
    "column": {
        "memory": N_("each rank keeps only its slice"),
        "sent forward": N_("forward sends nothing"),
        "sent backward": N_("backward sends one sum"),
    },
    "row": {
        "memory": N_("each rank keeps only its slice"),
        "sent forward": N_("forward sends one sum"),
        "sent backward": N_("backward sends nothing"),
    },
    "attention": {
        "memory": N_("each rank keeps only its heads"),
        "sent forward": N_("forward sends no more than one all-reduce"),
        "sent backward": N_("backward sends no more than one all-reduce"),
    },
    "context": {"sent": N_("keys and values are sent, queries are not")},
    "vocabulary": {"sent": N_("three numbers are exchanged for each token, and no logits")},
    "ring-attention": {
        "piece by piece": N_("no rank computes with all keys at once"),
        "held": N_("no rank keeps keys or values of other ranks"),
        "messages alone": N_("the work was done by sends and receives only"),
    },
    "experts": {"sent": N_("each copy is sent only to the rank of its expert")},
    "packing": {"rows": N_("a document joins a row in which it fits")},
    "noise": {
        "": N_("the estimate is the plain one, from the gradients of 2, 3 and 4 ranks"),
    },
    "watchdog": {
        "": N_("each waiting rank names the missing rank, and no other"),
        "healthy": N_("no healthy rank is accused"),
    },
    "resume": {
        "": N_("each loss is equal to the undisturbed run, to the last bit"),
        "last step": N_("on SIGTERM the step is finished"),
        "together": N_("all ranks end after the same step"),
    },
    "clip": {
        "": N_("norm and gradients equal those of the whole model on 1, 2, 3 and 4 ranks"),
        "not finite": N_("no gradient changes if one of them is not finite"),
        "exchanged": N_("one collective that exchanges one number is enough"),
    },
    "pipeline": {
        "held": N_("stage r of p holds p − r micro-batches, as 1F1B does"),
        "sent": N_("only activations and their gradients are sent"),
    },
    "checkpoint": {
        "": N_("values and gradients equal those of the plain layers"),
        "held": N_("only the inputs of the layers are kept"),
        "runs": N_("each layer runs once in each pass"),
        "the dropout": N_("dropout is the same in both passes"),
    },
    "accumulate": {
        "one at a time": N_("one micro-batch at a time holds its activations"),
        "sent once": N_("the gradients are sent once for each step"),
    },
    "scaler": {
        "": N_("the scale equals a serial search after each step, on 1, 2, 3 and 4 ranks"),
        "the weights": N_("the weights equal the weights of the serial search"),
    },
    "prefetch": {
        "": N_("each batch comes once and in order"),
        "read ahead": N_("batches are read while the loop computes"),
        "not too far": N_("at most `depth` batches are read ahead"),
        "the error": N_("a read error reaches the loop"),
        "the thread ends": N_("the thread ends with the loop"),
    },
    "cure": {
        "": N_("the weights equal those of serial training"),
        "all steps": N_("each step computes"),
        "each once": N_("each sample is read once"),
        "the check": N_("a gradient that is not finite stops the program"),
        "the bottleneck": N_("the slow function is cured"),
        "the others": N_("the other functions have not changed"),
    },
    "parallelize": {
        "parts": N_("each rank holds its part of each parameter"),
        "wrapped": N_("the blocks and the model are sharded one by one"),
        "calls": N_("forward on 2 × 2 calls 9 all-gathers, 5 reduce-scatters and nothing else"),
    },
}

GATHERED_AGAIN = N_(
    "On {size} ranks each rank sent {sent:.3g} times all numbers. A reduce-scatter and an "
    "all-gather send {needed:.3g} times. all_reduce leaves whole gradients on every rank; "
    "reduce_scatter leaves each rank its own part."
)
VIEW = N_(
    "more than this rank's own part is held in memory. A view keeps the whole tensor, and a copy "
    "by .clone() keeps its own part alone."
)
NO_MEAN = N_(
    "the gradient is not the mean over the ranks. Were the parameters gathered again before "
    "backward (resize_ brings no numbers)? Was p.grad = None set after each step?"
)
SENT_TOO_MUCH = N_(
    "This pass calls {calls} and sends {sent:.3g} times the whole tensor on {size} ranks. Which "
    "sum is really needed in this direction? {needed:.3g} times the tensor is enough."
)
NOT_FINISHED = N_(
    "the gradient comes from this rank alone. All ranks hold this parameter, so finish must add up "
    "the gradients of all ranks, in parameter.grad itself."
)
BIAS = N_("every rank must add its whole bias once, after the sum of y over the ranks.")
ELSEWHERE = N_(
    "you cured {cured}, which costs little time here. Cure the one place that costs the time of "
    "`slow`, whose name is the answer to 05.1, and leave the others as they were."
)
MESSAGES_ALONE = N_("The program calls {collectives}. Use only sends and receives.")
# Hints that depend on the mistake alone.
GENERAL: dict[str, str] = {
    "none": N_("the result is None. Is a return missing? all_reduce returns None. Is autograd on?"),
    "no parameter": N_("this tensor does not learn. Make it a torch.nn.Parameter."),
    "no tensor": N_("the result is {has}, not a tensor."),
    "dtype": N_(
        "the result is {has}. All numbers here are float64: use torch.empty_like for buffers."
    ),
    "shape": N_("the result has the shape {has} and should have {wanted}."),
    "not finite": N_(
        "some numbers are infinite or NaN. Look for a division by 0. dist.get_rank() is 0 on rank "
        "0, and size - 1 is 0 on one rank. The number of ranks is dist.get_world_size()."
    ),
    "rounded": N_(
        "the numbers are right to {digits} digits only, so they went through float32. Make "
        "buffers with torch.empty_like."
    ),
    "the last ones": N_(
        "only the last of {numbers} numbers are wrong: {size} ranks do not divide {numbers}. Use "
        "tensor_split(n), or pad the row with zeros to a multiple."
    ),
    "added up": N_("the result still contains the gradient of the previous step."),
    "own": N_(
        "the result is still this rank's own, and its calls are: {made}. Do the calls exchange "
        "other numbers, or is the sum in a tensor that is not used?"
    ),
    "one for all": N_("all ranks have the numbers of rank {rank} alone. Add up those of all."),
    "times": N_(
        "the result is {factor:.3g} times the right one on {size} ranks. Is a sum or a division by "
        "the number of ranks missing, or is one too many?"
    ),
    "own pieces": N_(
        "piece r has only the numbers of rank r. Add up the numbers of all ranks first, for "
        "example with a reduce-scatter."
    ),
    "one piece": N_("only piece {rank} has changed here. Gather the pieces of all ranks."),
    "another piece": N_("this is piece {factor}. Rank {rank} keeps piece {rank}."),
    "values": N_(
        "the numbers are wrong. Rank {rank} calls here: {made}. Does rank r keep, send and take "
        "piece r, in one order everywhere? Print a few numbers on each rank."
    ),
    "alone": N_(
        "of {numbers} numbers, the first {first} are right. One rank alone sends nothing: compare "
        "its lines with those of the serial model."
    ),
}
HINTS: dict[str, Hints] = {
    "ring": {
        ("messages alone", ""): MESSAGES_ALONE,
        ("the sum", "own"): N_(
            "the tensor has not changed. Change it in place, with tensor += … or tensor.copy_(…): "
            "`tensor = …` gives the name to a different tensor."
        ),
        ("the sum", "values"): N_(
            "pieces are mixed up. Receive what the neighbour sends now, in a new buffer. The first "
            "round adds it, and the second round copies, beginning with the finished piece."
        ),
        ("sent", ""): N_(
            "On {size} ranks, the ranks sent more or less than needed, in sizes of the tensor: "
            "{by_rank}. A ring sends one of {size} pieces in each step, and {wanted:g} times the "
            "tensor in total."
        ),
    },
    "reduce-scatter": {
        ("messages alone", ""): MESSAGES_ALONE,
        ("the piece", "whole"): N_("all pieces are returned. Return only piece {rank} here."),
        ("the piece", "of the next rank"): N_("rank r has the next rank's piece. Return piece r."),
        ("budget", "of each rank"): N_(
            "{left:g} pieces leave the node of rank {rank}, because each of its ranks sends its "
            "own pieces. Add up inside the node first. Then only {needed} sums leave the node."
        ),
        ("budget", "rank numbers"): N_(
            "{left:g} pieces leave the node of rank {rank}, and {needed} are enough. The number "
            "was right only while ranks were in order. Read the ranks of a node from node_of, not "
            "from their numbers."
        ),
        ("budget", ""): N_(
            "{left:g} pieces leave the node of rank {rank}, and {needed} are enough. Only pieces "
            "of ranks on other nodes must leave, and each piece once. A ring over all ranks sends "
            "more."
        ),
    },
    "ddp": {
        ("the weights", ""): N_(
            "{part} differs from rank 0's. All ranks must call the broadcast, with src=0, for each "
            "tensor of model.state_dict(). parameters() leaves out the buffers."
        ),
        ("frozen", ""): N_(
            "the frozen parameter got a gradient or requires_grad=True. Leave it frozen."
        ),
        ("forward", ""): N_("own(x) returned {has}, not a tensor. Does forward end with a return?"),
        ("weights unchanged", ""): N_(
            "{part} changed before the end of finish(). The optimizer changes weights; finish() "
            "changes gradients."
        ),
        ("sent once", ""): N_(
            "The all-reduces of a step sum {summed} numbers, and there are {numbers} gradients. "
            "Are hooks registered twice, or in each forward?"
        ),
        ("nothing kept", ""): N_(
            "After step 2 tensors hold {more:.0f} numbers more than after step 1. Which list is "
            "never emptied?"
        ),
    },
    "buckets": {
        ("early", ""): N_(
            "Of {calls} calls, none came before all {parameters} gradients were there. Use "
            "register_post_accumulate_grad_hook, and send a bucket as soon as it has 80 numbers."
        ),
        ("the gradients", "own"): N_(
            "it is still this rank's own. Is the bucket copied back into p.grad, and does "
            "finish() send the rest?"
        ),
        ("one thread", ""): N_(
            "Calls come from several threads, so their order differs between ranks. Send from one "
            "thread."
        ),
        ("overlap", ""): N_(
            "The program waited for a sum when {after} of {parameters} gradients were ready, so "
            "backward stopped. Use async_op=True, and wait in finish()."
        ),
        ("buckets", ""): N_(
            "There are {calls} calls for {parameters} parameters. A bucket must collect several "
            "gradients."
        ),
    },
    "zero1": {
        ("stepped", ""): N_(
            "step() of the optimizer was not called here. Every rank must update its own shard."
        ),
        ("the step", "zero"): N_(
            "the parameters have not changed. Did you give make_optimizer the shard itself, or a "
            "copy? After the step, is the row gathered and copied back into the parameters?"
        ),
        ("the step", "new state"): N_(
            "this step began with empty state. Make the optimizer once, in __init__."
        ),
        ("the step", "values"): N_(
            "the parameters are wrong after the step. Rank r keeps, updates and sends shard r. "
            "Gather the shards into one row, and copy it back: each p takes the next p.numel() "
            "numbers of it."
        ),
        ("state", ""): N_(
            "On {size} ranks each rank keeps optimizer state for {state} of {numbers} numbers. "
            "Give make_optimizer the shard."
        ),
        ("alone", ""): VIEW,
        ("sent", ""): GATHERED_AGAIN,
    },
    "fsdp": {
        ("alone", ""): VIEW,
        ("the shard", "shape"): N_(
            "the shard has the shape {has} and should have {wanted} numbers on every rank: its "
            "piece of the layer, padded with as few zeros as {size} equal pieces need."
        ),
        ("the shard", ""): N_(
            "rank {rank} keeps piece {rank} of all parameters, flattened in the order of "
            "layer.parameters()."
        ),
        ("the answer", ""): N_(
            "the layer computed with wrong parameters. An all-gather from all ranks must bring the "
            "numbers before each use, because resize_ brings none."
        ),
        ("the gradient", "none"): N_(
            "shard.grad is None after backward. Which hook runs when the gradients are there? Was "
            "x detached?"
        ),
        ("the gradient", "values"): NO_MEAN,
        ("the gradient", "zero"): NO_MEAN,
        ("freed", ""): N_(
            "{more:.0f} numbers too many are held ({mistake}), because a whole layer or a copy of "
            "it was not freed. Free a layer as soon as it has computed, and set p.grad = None "
            "after a step. Keep a copy by .clone(), not a view of a row."
        ),
        ("sent", ""): GATHERED_AGAIN,
    },
    "column": {
        ("", "whole"): N_("every rank holds the whole tensor. Cut it by chunk({size}, …)[rank]."),
        ("y", "no bias"): N_("y lacks the bias, and is right without it."),
        ("the weight", "other dimension"): N_(
            "the weight is cut along the wrong dimension. torch stores weights as [outputs, "
            "inputs]."
        ),
        ("the gradient of x", "own"): N_(
            "the gradient contains only the outputs of this rank. Every output depends on all of "
            "x. Does forward use CopyIn.apply, and does its backward return the all-reduced copy?"
        ),
        ("unchanged", ""): N_(
            "backward changes its argument in place. Let all_reduce change a copy, grad.clone()."
        ),
        ("memory", ""): VIEW,
        ("sent forward", ""): SENT_TOO_MUCH,
        ("sent backward", ""): SENT_TOO_MUCH,
    },
    "row": {
        ("the bias", "divided"): N_(
            "the bias is divided by the number of ranks. Each rank's part gets the whole gradient, "
            "so a step moves the bias {size} times as far. Add the whole bias after the sum."
        ),
        ("y", "own"): N_(
            "the result is only the partial sum of this rank. Look for the all-reduce in forward."
        ),
        ("y", "averaged"): N_("the sum of the ranks is divided by {size}. Leave it whole."),
        ("y", "bias everywhere"): N_("the bias is added {size} times. Add it after the sum."),
        ("the gradient of x", "times"): N_(
            "the gradient is {factor:.3g} times the right one. dy is the same on every rank, so "
            "backward needs neither a sum nor a division."
        ),
        ("the gradient of the bias", "none"): BIAS,
        ("the gradient of the bias", ""): BIAS,
    },
    "attention": {
        ("", "whole"): N_("every rank holds all heads. Cut them by chunk({size}, 1)[rank]."),
        ("memory", ""): VIEW,
        ("y", "own heads"): N_(
            "the tokens are right, and the heads of the other ranks are missing. A reduce-scatter "
            "adds them. Cutting alone does not."
        ),
        ("y", "residual of all"): N_("x is added {size} times. Add the residual after the sum."),
        ("y", "no mask"): N_("positions look ahead. Look for the causal mask."),
        ("the gradient of x", "own heads"): N_(
            "the gradient comes from the heads of this rank alone. All ranks used these tokens, so "
            "the backward pass of the all-gather is a reduce-scatter, not a cut."
        ),
        ("the gradient of x", "averaged"): N_(
            "the gradient through attention is divided by {size}. Backward needs no division."
        ),
        ("y", "values"): N_(
            "it is not x plus attention of the norm of x. The norm has scale and shift, scores are "
            "divided by the root of the head's width, and no query looks ahead. Add x once, after "
            "the sum over the ranks."
        ),
        ("the gradient of x", "values"): N_(
            "the gradient is wrong. Collectives are unknown to autograd, so they need a "
            "torch.autograd.Function. Backward of the all-gather is a reduce-scatter, and backward "
            "of the reduce-scatter is an all-gather. The residual passes dy on."
        ),
        ("", "own"): NOT_FINISHED,
        ("", "added up"): N_("the heads of all ranks were added up. Each rank has its own heads."),
        ("sent forward", ""): N_(
            "Forward calls {calls} and sends {sent:.3g} times the whole tensor on {size} ranks. A "
            "reduce-scatter sends half as much as an all-reduce, and leaves each rank its own "
            "tokens."
        ),
        ("sent backward", ""): SENT_TOO_MUCH,
    },
    "context": {
        ("y", "own keys"): N_(
            "each position sees only the positions of its own rank. Are the keys and values of all "
            "ranks gathered, and does the mask compare positions in the sequence?"
        ),
        ("y", "not finite"): N_("some positions see no key. Each position must see its own key."),
        ("y", "one rank"): N_(
            "queries look at wrong keys. Hide each key whose position is after that of the query, "
            "and no other."
        ),
        ("y", "values"): N_(
            "queries look at wrong keys. Gather the positions as well as keys and values, and hide "
            "each key whose position is after that of the query. Places in the gathered tensor are "
            "no positions, because a rank holds an early and a late piece."
        ),
        ("the gradient of x", "values"): N_(
            "the gradient is wrong. It comes through the queries, and through the keys and values "
            "of all ranks. Collectives are unknown to autograd: gather by Gather.apply(…)."
        ),
        ("the gradient of x", "own"): N_(
            "the gradient comes from the outputs of this rank alone. Other ranks used these keys "
            "and values too, so the backward pass of the all-gather is a reduce-scatter."
        ),
        ("", "own"): NOT_FINISHED,
        ("weights unchanged", ""): N_(
            "finish has changed a weight, but it should only sum parameter.grad over the ranks."
        ),
        ("sent", ""): N_(
            "Forward sends {sent:.3g} times the numbers of x on all {size} ranks. Queries stay "
            "where they are: gather keys, values and positions."
        ),
    },
    "ring-attention": {
        ("y", "own keys"): N_(
            "each query has seen only the keys of its own rank. Does the next step use the piece "
            "that pass_on returned?"
        ),
        ("y", "positions stayed"): N_(
            "the mask takes this rank's positions for the keys of every rank. Pass the positions "
            "on with their keys."
        ),
        ("y", "not finite"): N_(
            "a query that sees no key of a piece has only scores of −∞ there, and −∞ − (−∞) is "
            "NaN. Begin with the rank's own keys, and take the largest score of all pieces so far."
        ),
        ("y", ""): N_(
            "the numbers are wrong. When the largest score grows, both s and o shrink by the "
            "same factor, and then the new piece is added. The division by s comes last."
        ),
        ("y of large scores", ""): N_(
            "y is right only for small scores. exp() of a score of 1000 is infinite, and exp() of "
            "−1000 is 0. Subtract the largest score so far before exp()."
        ),
        ("piece by piece", ""): N_(
            "Rank {rank} of {size} has a tensor with all positions. Compute with a piece when it "
            "arrives, and keep only m, s and o."
        ),
        ("held", ""): N_(
            "Between forward and backward, rank {rank} keeps {kept:.1f} times as many numbers as "
            "its keys have. Save only this rank's own rows, and send keys and values around once "
            "more in backward."
        ),
        ("", "own"): N_(
            "the gradient comes from the queries of this rank alone. The other ranks used these "
            "keys and values too. Send the gradients around with them, and let each rank add its "
            "part."
        ),
        **dict.fromkeys(
            [(f"the gradient of the {name}", "values") for name in ("queries", "keys", "values")],
            N_(
                "the gradient is wrong. With P = exp(S − L), L = m + ln s and dS = P * (dY Vᵀ − "
                "the row sum of dY * Y), it is dQ = dS K/√w, dK = dSᵀ Q/√w and dV = Pᵀ dY. The "
                "gradients of a piece belong to its rank: pass them on with the keys and values, "
                "and once more after the last piece."
            ),
        ),
        ("messages alone", ""): MESSAGES_ALONE,
    },
    "experts": {
        ("y", "not restored"): N_(
            "the results are in the order in which the copies were sent, sorted by expert. Write "
            "row n of them to row order[n]: restored[order] = results."
        ),
        ("y", "restored twice"): N_(
            "the results were sorted once more. Undo the order: restored[order] = results."
        ),
        ("y", "weights"): N_(
            "the chosen results are added up with wrong weights. Divide the chosen scores by their "
            "sum, and multiply each result by its own."
        ),
        ("y", "values"): N_(
            "some copies were computed by a wrong expert, or their results went to a wrong row. "
            "The copies that arrive are sorted by sender, and for each sender by expert. Print the "
            "expert of each row that arrives."
        ),
        ("sent", ""): N_(
            "On {size} ranks a rank sends {sent:.3g} numbers in forward, and {needed:.3g} are "
            "needed. Send each copy only to the rank of its expert, and its result back."
        ),
        ("the gradient of x", "values"): N_(
            "the gradient is wrong. It comes through the router and through the copies, whose "
            "gradients return by AllToAll.backward. dist.all_to_all_single alone is unknown to "
            "autograd."
        ),
        ("the gradient of the router", "own"): NOT_FINISHED,
        ("", "summed over ranks"): N_(
            "the gradients of different experts were added up. All rows of an expert were on its "
            "rank, so its gradient is complete after backward."
        ),
    },
    "blocks": {
        ("", "not finite"): N_(
            "some numbers are infinite or NaN. Some blocks are all zeros, and 448 / 0 is infinite, "
            "so give these blocks any finite scale."
        ),
        ("the rounding", "right"): N_(
            "the scale is right, but {number:.4g} becomes {has:.4g}, and not {wanted:.4g}. Look "
            "at the cast and the division."
        ),
        ("the rounding", ""): N_(
            "quantise and dequantise turn {number:.4g} into {has:.4g}, and not {wanted:.4g}. The "
            "largest of the 32 numbers of its block is {largest:.4g} without its sign. So the "
            "scale of the block is {right_scale:.3g}, the power of two at or below 448 over this "
            "number. Your scale is {scale:.3g}, in {dtype}: float8_e4m3fn holds up to 448."
        ),
        ("", "plain"): N_("neither factor is quantised. Quantise both factors of the product."),
        ("", "dy is plain"): N_("grad is not quantised. Quantise both factors of all products."),
        **dict.fromkeys(
            [("", "other axis"), ("", "as in forward"), ("", "as in dX")],
            N_(
                "a matrix is quantised along a wrong dimension. Y sums over columns of x, dX over "
                "outputs and dW over rows. Blocks lie along the sum: for another product, quantise "
                "the transposed matrix."
            ),
        ),
        ("", "none"): N_(
            "the gradient is None. backward must return two gradients, of x and of the weight."
        ),
        ("", "values"): N_(
            "it is not a product of two quantised matrices. The factors are dY and Wᵀ for dX, and "
            "dYᵀ and Xᵀ for dW."
        ),
    },
    "vocabulary": {
        ("the loss", "not finite"): N_(
            "an exponential overflows, or all of them are 0. Subtract the largest logit of all "
            "ranks first."
        ),
        ("the loss", "own sum"): N_("each rank has its own sum. Add up the sums of all ranks."),
        ("the loss", "own largest"): N_(
            "each rank subtracts its own largest logit, so the sums are scaled differently. Take "
            "the largest logit of all ranks: ReduceOp.MAX."
        ),
        ("the loss", "own target"): N_(
            "a target on another rank counts as 0 here. Add up the targets' logits over all ranks."
        ),
        ("the loss", "values"): N_(
            "the loss is wrong. For each token it is m + ln s − t, and ranks without the target "
            "add 0 to t. Print these three numbers for one token on all ranks."
        ),
        ("sent", ""): N_(
            "{numbers:.0f} numbers are exchanged for each token, of which a rank has {columns} "
            "logits. Before each all-reduce, compute one number from the logits: the largest, the "
            "sum or the target."
        ),
        ("the gradient", "values"): N_(
            "the gradient is wrong. It is the probabilities, which add up to 1 over all ranks, "
            "minus 1 in the column of the target on its rank alone, times grad."
        ),
    },
    "packing": {
        ("shapes", ""): N_("the shapes are {has}. Each result should be [rows, length]."),
        ("whole documents", ""): N_(
            "the places with owner {number} are not document {number}, whole and in one row. The "
            "owner is the number of the document among all documents, and padding has owner -1."
        ),
        ("positions", ""): N_("positions continue across documents. Each document begins at 0."),
        ("targets", ""): N_(
            "the target of each token is the next token of its document. The last token has a "
            "target of -100, because no token follows."
        ),
        ("padding", ""): N_("padding has targets, so it counts in the loss. Set them to -100."),
        ("rows", ""): N_(
            "the documents take {has} rows, and {most} are enough. Fill a row before you begin the "
            "next one."
        ),
        ("the mask", "earlier"): N_("a query sees earlier documents. Compare owners as well."),
        ("the mask", "ahead"): N_("queries look ahead. The causal part of the mask is missing."),
        ("the mask", ""): N_(
            "the mask is wrong. It is a tensor of bools, which is True at [row, query, key] if "
            "both have the same owner and the key is not after the query."
        ),
        ("the loss", "values"): N_(
            "the loss is {has:.4g} and should be {wanted:.4g}. Divide the sum over this rank's "
            "targets by the number of targets of all ranks, without a mean over rows or ranks. "
            "Padding has no target."
        ),
        ("the gradients", "not finite"): N_("a position without a key gives NaN, even in padding."),
    },
    "noise": {
        ("three numbers", ""): N_("the function returns {has}. Return tr(Σ), |G|² and an error."),
        ("", "own"): N_("the estimate uses only this rank's |g_b|². Average it over all ranks."),
        ("", "sum"): N_("the large gradient is a sum over the ranks. Divide it by their number."),
        ("", "sum of the small"): N_("|g_b|² is a sum over the ranks. Divide it by their number."),
        ("", "ratio"): N_("tr(Σ) is already divided by |G|². Return both without the division."),
        ("", "biased"): N_(
            "the estimate is biased. The gradient of the large batch has noise too: |g_B|² is |G|² "
            "+ tr(Σ)/B. B counts the samples of all ranks, and b counts the samples of one rank."
        ),
        ("the standard error", "values"): N_(
            "the standard error is {has:.4g} and should be {wanted:.4g}. Take tr(Σ) of each step, "
            "and divide their standard deviation by the square root of the number of steps."
        ),
        **dict.fromkeys(
            [("tr(Σ)", "values"), ("|G|²", "values")],
            N_(
                "the number is {has:.4g} and should be {wanted:.4g}. The sizes b and B are {b} and "
                "{B} samples, not numbers of ranks. |g_b|² is {small:.4g} in a mean over ranks and "
                "steps, and |g_B|² is {large:.4g} in a mean over steps. Print yours. Add up "
                "the squares of each step before the mean over steps. all_reduce changes its "
                "argument."
            ),
        ),
    },
    "watchdog": {
        ("named", "nobody"): N_(
            "rank {absent} was missing, but this rank named no rank within {limit} s, although it "
            "asks the store. A missing rank may have arrived earlier, and its thread may still "
            "run: compare the numbers of collectives."
        ),
        ("named", "silent"): N_(
            "rank {absent} was missing, but this rank named no rank within {limit} s, and no "
            "longer asks the store. Was the thread started? If an error ended it, the log has the "
            "error. store.get fails for a key that no rank has written."
        ),
        ("named", "no list"): N_("accuse got no list of ranks. Give it a list, even of one rank."),
        ("named", "others"): N_(
            "this rank named {accused}, but only rank {absent} was missing. A rank that waits "
            "takes no step either, but it has arrived. Which ranks have arrived at fewer "
            "collectives? store.get returns bytes; compare them as numbers."
        ),
        ("named", "ahead"): N_(
            "this rank named {accused}, but all ranks except rank {absent} have arrived and wait. "
            "Name the ranks that have arrived at fewer collectives."
        ),
        ("named", "early"): N_("rank {absent} was named after {after:.1f} s, before the time-out."),
        ("named", "in arrive"): N_(
            "arrive itself waited. It should only note the number, and the thread should wait."
        ),
        ("named by other clocks", ""): N_(
            "the answer is right only if all clocks agree, but clocks of nodes differ. Use only "
            "your own clock: when did you see another rank's number change?"
        ),
        ("stopped", ""): N_(
            "after stop(), the thread still runs. It must end then, not only stop asking."
        ),
        ("healthy", ""): N_(
            "this rank named {accused}, but none of these was missing. A missing rank has reached "
            "fewer collectives. Name it only if no rank has moved on for {timeout:g} s."
        ),
    },
    "resume": {
        ("handled", ""): N_("SIGTERM ended the process. Register a handler with signal.signal(…)."),
        ("together", ""): N_(
            "this rank ended after step {step}, but others did not. The signal reaches one rank "
            "first: let all ranks vote after each step, with an all_reduce."
        ),
        ("first step", ""): N_(
            "this start began with step {begun}, not {wanted}. Save the number of finished steps, "
            "and look for the file at the start."
        ),
        ("last step", ""): N_(
            "the program ended after step {ended}, but should end after step {wanted}. The handler "
            "should only set a flag. Look at it on all ranks after each step, then save and end."
        ),
        ("random state", ""): N_(
            "the random numbers of step {step} differ, and so does dropout. Let each rank save its "
            "own torch.get_rng_state(), and set it after the model is made."
        ),
        ("losses", "at once"): N_("the first loss of this start is wrong. Are the weights loaded?"),
        ("losses", "later"): N_(
            "the first loss of this start is right, but the loss of step {step} is not. Which "
            "state does the update of a weight also depend on?"
        ),
    },
    "clip": {
        ("the norm", "own"): N_(
            "the result is only the norm of this rank's part. Add up the squares of all ranks' "
            "shards."
        ),
        ("the norm", "once for each rank"): N_(
            "the norm counts the replicated gradients {size} times. Add their squares after the "
            "all_reduce."
        ),
        ("the norm", "clipped"): N_("this is the norm after clipping. Return the norm before it."),
        ("the norm", "values"): N_(
            "the result is {has:.4g} and should be {wanted:.4g}. The squares of all shards add up "
            "to {shards:.4g} over the ranks, and the squares of the replicated gradients to "
            "{once:.4g}. Add up squares, and take the square root last."
        ),
        ("the gradients", "unchanged"): N_(
            "the gradient has not changed. Change p.grad itself, for example with p.grad.mul_(…), "
            "in both lists."
        ),
        ("the gradients", "values"): N_(
            "the factor is wrong. Both lists need the same factor, and it is at most 1."
        ),
        ("no finite norm", ""): N_(
            "another rank has a gradient that is not finite, but the norm on this rank does not "
            "show it."
        ),
        ("not finite", ""): N_(
            "gradients have changed although the norm is not finite. In this case all ranks must "
            "leave their gradients alone and skip the step. Look at the norm before you scale: a "
            "finite number divided by an infinite norm is 0."
        ),
        ("exchanged", ""): N_(
            "{count} collectives exchange {numbers} numbers. Add up the squares of all shards on "
            "this rank first, and then call one all_reduce."
        ),
    },
    "pipeline": {
        ("own buffers", ""): N_(
            "micro-batches share a buffer, so one overwrites another. Receive each one in a "
            "torch.empty_like(x) of its own."
        ),
        ("", "sum"): N_("this is the sum over micro-batches. Divide each loss by their number."),
        ("", "last"): N_(
            "the result comes from the last micro-batch only. Add up gradients and losses."
        ),
        ("the loss", "values"): N_("it is not the mean of the losses of all micro-batches."),
        ("the gradient", "none"): N_(
            "the gradient is None. Each forward pass needs a backward pass, on every stage."
        ),
        ("the gradient", "from ones"): N_(
            "backward began with ones. On all stages but the last, it begins with the gradient "
            "that comes from the next stage: y.backward(gradient)."
        ),
        ("the gradient", "values"): N_(
            "the numbers are wrong. Does each micro-batch get its own x, target and gradient? "
            "Gradients arrive in the order of the forward passes, so the first micro-batch also "
            "goes backward first."
        ),
        ("held", ""): N_(
            "stage {rank} of {size} holds up to {held} micro-batches at once, but 1F1B holds "
            "{wanted}. After p − r − 1 forward passes, one forward and one backward pass alternate."
        ),
        ("sent", ""): N_(
            "stage {rank} of {size} sends {sent} bytes, and {needed} are enough. For each "
            "micro-batch, send y to the next stage and the gradient of x to the previous stage."
        ),
    },
    "checkpoint": {
        ("y learns", ""): N_(
            "y has no gradient. Here x is a batch, and the weights must learn. Give apply the "
            "weights as arguments too."
        ),
        ("held", ""): N_(
            "after the forward pass, {held:.1f} times the memory of x is held, and {needed} times "
            "is enough. Which activations does the graph, ctx or a list still refer to?"
        ),
        ("runs", ""): N_(
            "the two layers have run {runs} times so far. Each layer must run once in forward and "
            "once in backward."
        ),
        ("the dropout", ""): N_(
            "the second run set different numbers to zero. Read the random state before the first "
            "run of each layer, and set it before the second run."
        ),
        ("y", "values"): N_("y differs. Set no seed in forward: only read the random state."),
        ("the gradients", "values"): N_(
            "the gradients are wrong. Does backward return the gradient of x, for the previous "
            "layers? Is grad used in it?"
        ),
        ("the gradients", "none"): N_(
            "the gradient is None. backward must return one gradient for each argument of forward. "
            "The second run needs an x that requires a gradient: x.detach().requires_grad_()."
        ),
        ("the gradients", "twice"): N_(
            "the gradient is twice the right one. y.backward(grad) already adds gradients to the "
            "weights, and the gradients that backward returns are added too. Use one of the two."
        ),
        ("random numbers afterwards", ""): N_(
            "after the backward pass, random numbers repeat those of the forward pass. Put back "
            "the state that was there before the second run."
        ),
    },
    "accumulate": {
        ("", "micro-batches"): N_(
            "the result is a mean of the means of micro-batches. All tokens must count equally."
        ),
        ("", "not finite"): N_("a mean over no tokens is 0/0, which is NaN. Sum up the losses."),
        ("", "rank"): N_("each rank divides by its own tokens. First sum tokens over all ranks."),
        ("", "ranks"): N_("each rank divides by its own tokens. First sum tokens over all ranks."),
        ("", "averaged"): N_("the result is 1/{size} of the right one, because DDP averages."),
        ("", "not divided"): N_("the result is not divided by the tokens of the global batch."),
        ("", "padding"): N_("the result is divided by all targets. Targets of -100 do not count."),
        ("one at a time", ""): N_(
            "{most} micro-batches wait for their backward pass at once, and all keep their "
            "activations. Call backward for each before the next one begins."
        ),
        ("sent once", ""): N_(
            "the gradients of {count} micro-batches were sent {times} times. Inside no_sync, run "
            "forward and backward of all micro-batches but the last."
        ),
        ("the loss", ""): N_(
            "the returned loss is wrong. Divide the sum of the losses of all ranks by the tokens "
            "of all ranks. This sum needs an all-reduce of its own."
        ),
    },
    "scaler": {
        ("", "alone"): N_(
            "a gradient of another rank overflows, but this rank does not know it. Let the ranks "
            "exchange whether a gradient overflows."
        ),
        ("the scale", "nan"): N_("step {step}: a gradient is NaN, but the scale does not change."),
        ("the scale", ""): N_(
            "step {step}: the scale is {has:g} and should be {wanted:g}. After this step, {good} "
            "good steps are counted, and the remaining hysteresis is {patience}. Print yours in "
            "each step. A doubling sets both back, and an overflow sets the count back. An "
            "overflow lowers the hysteresis, and halves the scale only when that is 0. A halving "
            "leaves it at 0."
        ),
        ("the weights", ""): N_(
            "the step used wrong gradients. Before the step, divide them by the scale that "
            "multiplied the loss."
        ),
        ("the weights", "zeros"): N_(
            "a step with gradients of 0 still moves the weights, because of the momentum. Skip the "
            "step."
        ),
        ("the weights", "not finite"): N_("a step was taken although a gradient overflows."),
    },
    "prefetch": {
        ("the batches", ""): N_(
            "batch {number} of {of} is due, and the loop gets {got}. Each batch comes once, and in "
            "the order in which it was read: queue.Queue keeps the order."
        ),
        ("read ahead", ""): N_(
            "while the loop computes with batch {number}, {read} batches have been read, and there "
            "is room for {wanted}. Does a thread read while the body of the loop runs, and does "
            "the room depend on depth?"
        ),
        ("not too far", ""): N_(
            "while the loop computes with batch {number}, {read} batches have been read, with a "
            "depth of {depth}. A queue.Queue(depth) lets the thread wait until there is room."
        ),
        ("the end", ""): N_(
            "the loop does not end after the last batch. Tell it in the queue that no batch "
            "follows."
        ),
        ("the error", "waits"): N_(
            "the thread ends with an error, and the loop waits forever. Catch the error in the "
            "thread, hand it over, and raise it in the loop."
        ),
        ("the error", "hidden"): N_("the loop ends without an error. Raise the error in the loop."),
        ("all before", ""): N_("{read} batches came before the error, but {wanted} were read."),
        ("the thread ends", ""): N_(
            "the loop was left after {taken} batches, and the thread still runs. Stop the thread "
            "in `finally`, and let put() wait with a timeout."
        ),
    },
    "cure": {
        ("all steps", ""): N_("only {losses} of {steps} steps ran. Is each batch handed over?"),
        ("each once", ""): N_(
            "{missing} samples are not read, and {again} are read twice or more. One rank reads "
            "each sample of a step."
        ),
        ("the weights", ""): N_(
            "the weights differ from serial training. Does each step get its own batch? Are the "
            "gradients added up over the ranks, without a division, and copied back to their "
            "parameters?"
        ),
        ("the check", ""): N_(
            "no FloatingPointError ends the program if a number in the gradient of {part} is "
            "infinite. Ask less often, but look at every gradient before the optimizer's step."
        ),
        ("the bottleneck", "nothing"): N_(
            "no bottleneck is cured. Find in the figures what the ranks do for most of a step, and "
            "rewrite that function."
        ),
        ("the bottleneck", "elsewhere"): ELSEWHERE,
        ("the others", ""): ELSEWHERE,
        ("the bottleneck", "all first"): N_(
            "all samples are read before the first step. Then no step waits, but nothing is hidden "
            "either: hand each batch over as soon as it is read."
        ),
        ("the bottleneck", "reading"): N_(
            "only {overlaps} of {steps} steps computed while the next step was read. A thread must "
            "continue to read while the loop computes."
        ),
        ("the bottleneck", "asking"): N_(
            "the program asks for {asked:.0f} values and calls {operators:.0f} operators in each "
            "step. Give a whole gradient to one operator, without a loop over rows, and ask for "
            "its result."
        ),
        ("the bottleneck", "messages"): N_(
            "{sent:.0f} messages are sent in each step. Copy the gradients of several parameters "
            "into one tensor, and send this tensor."
        ),
        ("the bottleneck", "dealing"): N_(
            "a rank gets {most:.0f} tokens, but the mean is {mean:.0f}. Balance the sum of the "
            "lengths, not the number of samples."
        ),
    },
    "parallelize": {
        ("parts", ""): N_(
            "the mesh divides the dimensions {has} of {part}, and should divide {wanted}. "
            'parallelize_module gets mesh["tensor"], and fully_shard gets mesh["data"], last for '
            "the whole model. "
            "ColwiseParallel divides dimension 0, and RowwiseParallel dimension 1. A name in the "
            "plan that matches no layer gives no error."
        ),
        ("wrapped", ""): N_(
            "one gather makes all blocks whole at once. Call fully_shard on each block, and then "
            "on the model."
        ),
        ("y", "shape"): N_(
            "the result has the shape {has} and should have {wanted}. If it has too many "
            "positions, check the output_layouts of the embedding. If it has too few logits, check "
            "the output_layouts of the head."
        ),
        ("y", "values"): N_(
            "the numbers are wrong. Each rank has only its share of the heads: divide "
            "block.attention.heads by the size of the tensor dimension."
        ),
        ("calls", ""): N_(
            "forward calls {calls}. With output_layouts=Shard(1), RowwiseParallel calls a "
            "reduce-scatter, not an all-reduce. PrepareModuleInput on the attention gathers the "
            "positions once for query, key and value."
        ),
        ("the gradient", "averaged twice"): N_(
            "the gradient is divided by the number of data ranks twice. fully_shard already "
            "averages."
        ),
        ("the gradient of a norm", ""): N_(
            "the gradient comes from this rank's positions alone. With SequenceParallel, PyTorch "
            "adds up the gradients of a norm over the tensor ranks."
        ),
    },
}
HINTS["buckets"] = {**HINTS["ddp"], **HINTS["buckets"]}
HINTS["row"] = {**HINTS["column"], **HINTS["row"], ("the gradient of x", "own"): GENERAL["own"]}
