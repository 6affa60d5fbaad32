"""Weather: generated without internet, read, forecast and scored."""
