"""What went wrong in the trials of lesson 11: ZeRO-1 and FSDP by hand."""
