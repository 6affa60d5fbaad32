"""Weather: made without internet, read, forecast, and how good a forecast was."""
