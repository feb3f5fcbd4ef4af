"""Terms of the report, in the words of docs/glossary.md, docs/measuring.md and docs/experiments.md,
and the sources of published figures."""

TERMS = {
    "MFU": "model FLOP/s (half of causal attention's T x T matrix counts) over a rate of the "
    "device: measured in the same run by large matrix products, or of the data sheet",
    "bus bandwidth": "bytes over time, times 2 (n - 1) / n for an all_reduce on n ranks: "
    "comparable between numbers of ranks",
    "exposed": "the time of an exchange during which the GPU waits for it, because nothing is left "
    "to compute",
    "headline": "the phase whose median stands for a case: step, both (forward and backward) or "
    "time",
    "rehearsal": "the steps of a case before warm-up, repeated until one allocates nothing new; "
    "their collectives send nothing",
    "compiled": "the same step with fused operations, tuned matrix products and CUDA graphs; eager "
    "launches one kernel per operation",
    "recompute": "the inputs of blocks are kept, and their forward pass runs again in backward",
    "symmetric": "a registration: all ranks register the buffers of a collective as windows, which "
    "NCCL's kernels access directly",
    "cadence": "what a repetition of a collective is: one call after a barrier, 20 calls back to "
    "back, or 20 calls in a CUDA graph",
    "fused": "attention with scale, mask and softmax in one kernel; naive has an operation each in "
    "eager execution, flash keeps no T x T matrix",
}
WRITE_UPS = (
    "Tables that name a write-up, numbered 0 to 4, or the assignment put our figures beside those "
    "of a published solution of the same assignment (CS336, assignment 2, spring 2025) or of its "
    "own text. They are from other machines and other code: context, not a baseline. Those "
    "without a row that these files measure are folded."
)
DIFFERENCES = (
    "Our own cases are called faster or slower, shorter or longer only where their 95% intervals "
    "do not overlap."
)
NO_SUMMARY = "These files have no result for a summary."
