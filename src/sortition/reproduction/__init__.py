"""Published tables and figures: presets, the pages that compare paper and measurement, and the theory behind them."""
