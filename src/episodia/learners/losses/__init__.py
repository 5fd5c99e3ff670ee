"""Parts of losses: inputs and outputs, evaluated steps, targets, and coefficients that change."""
