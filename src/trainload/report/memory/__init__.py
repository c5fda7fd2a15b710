"""Whether a training fits, drawn: page and scorecard."""
