"""What a training run consists of: its flags, the model, the optimizer, checkpoints."""
