"""What losses are made of: inputs and outputs, evaluated steps, targets, and coefficients that change."""
