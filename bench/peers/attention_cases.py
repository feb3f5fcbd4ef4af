"""The axes of the attention comparison and the peers' variants. Does not import PyTorch."""

VARIANTS = ("flash", "cudnn", "efficient", "flash4", "flex", "compile", "naive")
FACTORS = ("batch_size", "heads", "context", "head_dim", "causal", "precision")
