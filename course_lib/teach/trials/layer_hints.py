"""What a learner is told of a parallel layer, by the mistake whose numbers it has."""

from __future__ import annotations

from collections.abc import Mapping

Hints = Mapping[tuple[str, str], str]
"""By the part of the result and the mistake that the trial found; "" stands for any part."""

NO_PARAMETER = (
    "it is a tensor that is no torch.nn.Parameter, so parameters() lacks it, and no optimizer "
    "would change it."
)
SUMMED_AGAIN = (
    "all ranks had the same numbers there, and they were summed over the ranks: {size} times too "
    "much."
)
ADDED_UP = (
    "the gradients of all slices were added up. Each slice belongs to one rank; there is nothing "
    "to sum."
)
NOT_SUMMED = (
    "it is this rank's own: its positions gave only a part of it. All ranks hold these weights, "
    "so their gradients need one more sum."
)
EVERY: dict[tuple[str, str], str] = {
    ("the weight", "none"): "it is None. Does the layer set self.weight?",
    ("the bias", "none"): "it is None. Does the layer set self.bias?",
    ("y", "none"): "it is None. Is a return missing?",
    ("", "none"): "it is None: for autograd y does not depend on it, or it was taken away "
    "afterwards.",
    ("", "no tensor"): "it is {has}.",
    ("the gradient of x", "none"): "it is None: nothing leads from y back to x. Was something "
    "detached, or what does backward return?",
    ("", "dtype"): "it is {has}; what comes in is float64, and is to stay so.",
    ("", "shape"): "it has shape {has}; {wanted} is wanted.",
    ("", "no parameter"): NO_PARAMETER,
    ("", "frozen"): "it is frozen (requires_grad=False), so it would never learn.",
    ("", "in place"): "the numbers are right, but backward changes in place what came to it. "
    "Others may need that as it was: let all_reduce change a copy, grad.clone().",
    ("", "not finite"): "it has numbers that are infinite, or none (NaN).",
    ("", "rounded"): "it is right to some six digits: somewhere on the way the numbers were "
    "float32, or less.",
    ("", "shares"): "ranks 0, 1 and so on are in it so many times: {shares}. Each of their shares "
    "is to be in it once.",
    ("", "values"): "its shape is right, its numbers are not, by none of the usual mistakes. "
    "Compare it with the serial layer on one rank.",
    ("", "mean"): "it was divided by the number of ranks: partial sums are added, not averaged.",
    ("", "times"): SUMMED_AGAIN,
    ("the weight", "whole"): "it is not cut: every rank holds the whole weight.",
    ("the weight", "every so many"): "rank {rank} took every {size}th row or column. A rank takes "
    "neighbours: chunk({size}, …)[rank].",
    ("the weight", "another rank's"): "rank {rank} holds the slice of rank {whose}. Where does "
    "`rank` enter?",
    ("the bias", "every so many"): "rank {rank} took every {size}th number. A rank takes "
    "neighbours: chunk({size})[rank].",
    ("", "another rank's"): "rank {rank} has that of rank {whose}.",
    ("", "transposed"): "it is transposed: shape {has} where {wanted} is wanted.",
}  # fmt: skip
COLUMN: Hints = EVERY | {
    ("the weight", "other dimension"): "it is cut along the inputs, which is the row-parallel "
    "layer. torch keeps weights as [outputs, inputs]: the columns of the A in x A are the rows of "
    "this tensor, its dimension 0.",
    ("the weight", "other dimension, transposed"): "it is cut along the inputs, and transposed.",
    ("the bias", "whole"): "it is not cut. There is one number for each output, so each belongs "
    "to the rank that has the output.",
    ("y", "gathered"): "all outputs are here: they were gathered where nobody needs them. What "
    "follows, an activation and a row-parallel layer, works on the slice.",
    ("y", "no bias"): "the bias is missing.",
    ("the gradient of x", "own"): "it holds this rank's outputs alone: the all-reduce in backward "
    "is missing. Every output depends on all of x, so x gets a share of its gradient from each "
    "rank, and they have to be added up.",
    ("the gradient of x", "times"): "the gradient was summed twice: {size} equal sums were added.",
    ("the gradient of the weight", "added up"): ADDED_UP,
    ("the gradient of the bias", "added up"): ADDED_UP,
    ("the gradient of the weight", "times"): SUMMED_AGAIN,
}  # fmt: skip
ROW: Hints = EVERY | {
    ("the weight", "other dimension"): "it is cut along the outputs, which is the column-parallel "
    "layer. torch keeps weights as [outputs, inputs]: here dimension 1, the inputs, is cut.",
    ("the weight", "other dimension, transposed"): "it is cut along the outputs, and transposed.",
    ("the bias", "cut"): "it is cut. Every output needs its bias, and every rank has all outputs.",
    ("the bias", "zeros"): "it is zero here. The sum comes out right once, but each rank's zeros "
    "get the whole gradient as well: after a step of the optimizer the bias is in it {size} times. "
    "Add it on every rank after the sum, or hold it on one rank alone, and None on the others.",
    ("the bias", "divided"): "it is divided by the number of ranks. The sum comes out right, but "
    "each rank's share gets the whole gradient: a step of the optimizer moves it {size} times as "
    "far. Keep it whole, and add it after the sum.",
    ("y", "partial"): "this is rank {rank}'s partial sum: the all-reduce in forward is missing.",
    ("y", "partial, no bias"): "this is rank {rank}'s partial sum, without the bias: the "
    "all-reduce in forward is missing.",
    ("y", "bias everywhere"): "the bias is in it {size} times: every rank added it before the sum. "
    "Add it afterwards.",
    ("y", "no bias"): "the bias is missing.",
    ("y", "mean with the bias"): "it was divided by the number of ranks, the bias as well: partial "
    "sums are added, not averaged.",
    ("y", "shares"): "the partial sums of ranks 0, 1 and so on, and last the bias, are in it so "
    "many times: {shares}. Each is to be in it once.",
    ("y", "times"): "the products were summed twice.",
    ("y", "cut"): "this is a slice of the outputs. A row-parallel layer leaves the whole on every "
    "rank.",
    ("the gradient of x", "times"): "a sum in backward that is not needed: dy is the same on every "
    "rank, so the gradient comes out {size} times too large. y = y₀ + y₁ + …, so each partial sum "
    "has the gradient of y itself, and nothing travels.",
    ("the gradient of the weight", "times"): "a sum in backward that is not needed: dy is the same "
    "on every rank, so the gradient comes out {size} times too large.",
    ("the gradient of x", "added up"): ADDED_UP,
    ("the gradient of the weight", "added up"): "the gradients of all slices were added up.",
    ("the gradient of the bias", "none here"): "it has none here, while rank {other}'s has one: "
    "the copies of the bias drift apart. Add it on every rank after the sum, or hold it on one "
    "rank alone.",
}  # fmt: skip
TOKENS: Hints = EVERY | {
    ("y", "all tokens"): "all tokens are here, and each rank is to have its own: a "
    "reduce-scatter in the place of the all-reduce.",
    ("y", "partial"): "the tokens are the right ones, but only rank {rank}'s partial sum of them "
    "is here: cutting is not enough, the partial sums have to be added.",
    ("y", "all tokens, partial"): "this is the partial sum as it came in: ScatterTokens does "
    "nothing.",
    ("y", "another rank's"): "these are the tokens of rank {whose}.",
    ("the gradient of x", "own"): "it holds rank {rank}'s share alone. Every rank used these "
    "tokens, so backward of GatherTokens adds up all shares: a reduce-scatter, not a cut.",
    ("the gradient of a", "own tokens"): "it comes from the own tokens of dy alone: backward of "
    "ScatterTokens has to gather the others'.",
    ("the gradient of b", "own tokens"): "it comes from the own tokens of dy alone: backward of "
    "ScatterTokens has to gather the others'.",
    ("the gradient of x", "times"): "the gradient was summed twice.",
    ("the gradient of a", "added up"): ADDED_UP,
    ("the gradient of b", "added up"): ADDED_UP,
}  # fmt: skip

CONTEXT: Hints = EVERY | {
    ("y", "own keys"): "each position looks at those of its own rank alone: keys and values of "
    "the others have to come.",
    ("y", "no mask"): "positions look ahead: the causal mask is missing.",
    ("y", "rank order"): "the gathered keys lie rank by rank, and the mask takes them for the "
    "sequence in its order. Gather their positions as well.",
    ("y", "inverted mask"): "positions see their own and what comes later: the mask is the wrong "
    "way round. Hidden is a key whose position is greater than that of the query.",
    ("y", "not finite"): "it has numbers that are none (NaN): some position sees no key at all, "
    "not even its own, or the mask is the wrong way round. Hidden is a key whose position is "
    "greater than that of the query.",
    ("y", "keys in order"): "keys and their positions are in the order of the sequence, and values "
    "still lie rank by rank: both have to be sorted.",
    ("y", "queries from 0"): "the mask counts the queries of every rank from 0. Their positions "
    "are given.",
    ("y", "queries and keys from 0"): "the mask counts from 0, the queries of every rank and the "
    "gathered keys (triu does). Both have positions in the sequence.",
    ("y", "swapped"): "keys and values are exchanged.",
    ("y", "place in the list"): "the mask counts places in the list of gathered keys, not "
    "positions of the sequence.",
    ("the gradient of x", "own"): "it comes from this rank's outputs alone. Other ranks looked at "
    "these keys and values: backward of the all-gather is a reduce-scatter.",
    ("the gradient of x", "no keys"): "it comes by the queries alone: through the gathered keys "
    "and values nothing comes back. dist.all_gather is unknown to autograd.",
    ("the gradient of x", "mean of keys"): "what comes through keys and values was divided by the "
    "number of ranks: gradients are added, not averaged.",
    ("the gradient of x", "keys twice"): "what comes through keys and values was summed twice.",
    ("", "changed"): "finish has changed the weight itself. It sums up gradients: parameter.grad.",
    ("the gradient of wq", "own"): NOT_SUMMED,
    ("the gradient of wk", "own"): NOT_SUMMED,
    ("the gradient of wv", "own"): NOT_SUMMED,
    ("", "mean"): "it is the mean over the ranks. Each rank holds other positions of the same "
    "sequence, and the loss is a sum over them: gradients are added.",
}  # fmt: skip
