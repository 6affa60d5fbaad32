"""From tokenised text on the disk to the samples that a rank trains on."""
