"""Proofs of the contract: every law of `calque.layers.contract.Layer`, over a layer's examples or over any definition.

    report = prove_layer(MyLayer, with_plugins((my_module,)))
    print(report)

Everything runs in float64 with random parameters, on sentences of unequal lengths. A difference of more than 1e-9 of the largest
number breaks a law; where a law says "no bit" or "nothing", any difference does. The laws:

equal    `step` over any partition is `forward`, with one row per sentence or several; gradients are equal too
causal   outputs do not depend on later inputs, by perturbation and by gradient
padding  nothing in padding affects the result; a row by itself gives the same
batch    changing the neighbours changes no bit of a row
idle     rows that do not advance keep their state
reorder  after `select` and `keep`, outputs are those of each row's own history
state    states report their bytes and share no memory; layers keep nothing between calls
model    embeddings, both sides and output layer work together, on words
shape    widths, parameters and canonical text are those of the checked tree
record   a recorder changes nothing, and both forms give it the same weights
train    nothing is random in evaluation; in training the dropout of both forms has the same distribution
"""

from calque.prove.compose import random_program
from calque.prove.outcome import ProofReport, Verdict
from calque.prove.prover import prove_layer, prove_module, prove_text

__all__ = ["ProofReport", "Verdict", "prove_layer", "prove_module", "prove_text", "random_program"]
