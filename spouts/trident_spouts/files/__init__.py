"""Files as a transactional source: their listing, the plans of batches, and the reading on the workers."""
