"""From the contracts that users implement to the one that the engine asks for."""
